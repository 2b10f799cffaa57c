"""``kopf sandbox``: a local cluster until stopped."""

import base64
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from kopf_cogs.clients.kubeconfig import read_kubeconfig


@contextmanager
def running(
    *args: str, command: Sequence[str] = (sys.executable, "-m", "kopf_kits.cli", "sandbox")
) -> Iterator["subprocess.Popen[str]"]:
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*command, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
    )
    try:
        yield process
    finally:
        process.terminate()  # not killed: it has temporary files to remove
        process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()


def read_until(process: "subprocess.Popen[str]", marker: str) -> list[str]:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.strip())
        if marker in line:
            return lines
    raise AssertionError(f"No {marker!r} in {lines!r}")


def get_json(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url) as response:
        data: dict[str, object] = json.load(response)
        return data


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_serves_until_stopped(
    tmp_path: Path, crd_path: Path, obj_path: Path, signum: signal.Signals
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    args = ["--kubeconfig", str(kubeconfig), "-f", str(crd_path), "-f", str(obj_path)]
    with running(*args) as process:
        lines = read_until(process, "Press Ctrl+C")
        assert lines[1] == "Applied kopfexample/kopf-example-1"
        assert f"export KUBECONFIG={kubeconfig}" in lines[3]
        url = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        assert url in lines[2]
        obj = get_json(f"{url}/apis/kopf.dev/v1/namespaces/default/kopfexamples/kopf-example-1")
        assert obj["kind"] == "KopfExample"
        process.send_signal(signum)
        assert process.wait() == 0


def test_chosen_port_is_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with running("--port", str(port)) as process:
        lines = read_until(process, "is ready at")
        assert lines[-1].endswith(f":{port}")


def test_temporary_kubeconfig_is_removed() -> None:
    with running() as process:
        lines = read_until(process, "export KUBECONFIG=")
        path = Path(lines[-1].partition("KUBECONFIG=")[2])
        assert path.exists()
        process.terminate()
        assert process.wait() == 0
    assert not path.exists()


def test_taken_port_is_explained_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with running("--port", str(port)) as process:
            assert process.stdout is not None
            output = process.stdout.read()
            assert process.wait() == 1
            assert output == f"Error: Cannot serve on port {port}: address already in use\n"


def test_serves_until_stopped_also_in_the_background_of_shells() -> None:
    command = [sys.executable, "-m", "kopf_kits.cli", "sandbox"]
    shell = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    with running(command=shell) as process:
        read_until(process, "Press Ctrl+C")
        process.terminate()
        assert process.wait() == 0


def test_order_of_files_does_not_matter(crd_path: Path, obj_path: Path) -> None:
    with running("-f", str(obj_path), "-f", str(crd_path)) as process:
        lines = read_until(process, "is ready at")
        assert lines[:2] == [
            "Applied customresourcedefinition/kopfexamples.kopf.dev",
            "Applied kopfexample/kopf-example-1",
        ]


def invoke(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kopf_kits.cli", "sandbox", *args]
    return subprocess.run(command, capture_output=True, text=True)


def test_kubeconfig_cannot_be_a_folder(tmp_path: Path) -> None:
    done = invoke("--kubeconfig", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == f"Error: Cannot write the kubeconfig {tmp_path}: it is a directory\n"
    assert not list(tmp_path.iterdir())


def test_kubeconfig_does_not_replace_devices() -> None:
    done = invoke("--kubeconfig", os.devnull)
    assert done.returncode == 1
    reason = "it is not a regular file"
    assert done.stderr == f"Error: Cannot write the kubeconfig {os.devnull}: {reason}\n"


def test_kubeconfig_must_be_in_an_existing_folder(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "kubeconfig"
    done = invoke("--kubeconfig", str(path))
    assert done.returncode == 1
    reason = f"the folder {tmp_path / 'folder'} does not exist"
    assert done.stderr == f"Error: Cannot write the kubeconfig {path}: {reason}\n"
    assert not list(tmp_path.iterdir())


KUBECTL = shutil.which("kubectl")


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed here")
def test_n_kubectl_is_the_admin_and_can_be_an_account(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="kubectl sends no tokens without certificates")
    kubeconfig = tmp_path / "kubeconfig"

    def kubectl(*args: str) -> str:
        options = ["--kubeconfig", str(kubeconfig), "--cache-dir", str(tmp_path / "cache")]
        command = [str(KUBECTL), *options, *args]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).strip()

    with running("--rbac", "--kubeconfig", str(kubeconfig)) as process:
        lines = read_until(process, "is ready at")
        assert "https://127.0.0.1:" in lines[-1]
        assert kubectl("auth", "can-i", "create", "configmaps") == "yes"
        assert "created" in kubectl("create", "serviceaccount", "robot")
        token = kubectl("create", "token", "robot")
        options = [f"--token={token}", "-n", "default"]
        assert kubectl("auth", "can-i", "list", "pods", *options) == "no"
        kubectl("create", "role", "reader", "--verb=list", "--resource=pods")
        binding = ["create", "rolebinding", "reader", "--role=reader"]
        kubectl(*binding, "--serviceaccount=default:robot")
        assert kubectl("auth", "can-i", "list", "pods", *options) == "yes"
        assert "cannot delete resource" in kubectl("delete", "pod", "x", *options)


def test_n_accounts_of_manifests_have_contexts_in_the_kubeconfig(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="there is no HTTPS without certificates")
    manifest, kubeconfig = tmp_path / "rbac.yaml", tmp_path / "kubeconfig"
    accounts = [("ServiceAccount", "op", "home"), ("ServiceAccount", "other", None)]
    metas = [(kind, {"name": name, "namespace": ns}) for kind, name, ns in accounts]
    metas.append(("Namespace", {"name": "home"}))
    bodies = [{"apiVersion": "v1", "kind": kind, "metadata": meta} for kind, meta in metas]
    manifest.write_text(yaml.safe_dump_all(bodies))
    args = ["--rbac", "--kubeconfig", str(kubeconfig), "-f", str(manifest)]
    with running(*args) as process:
        lines = read_until(process, "Press Ctrl+C")
        assert "op@home" in "".join(lines)
        found = yaml.safe_load(kubeconfig.read_text())
        assert found["current-context"] == "sandbox"
        contexts = {one["name"]: one["context"] for one in found["contexts"]}
        assert contexts.keys() == {"sandbox", "op@home", "other@default"}
        assert contexts["op@home"]["namespace"] == "home"
        info = read_kubeconfig([kubeconfig], context="op@home")
        authority = base64.b64decode(info.ca_data).decode()
        trusted = ssl.create_default_context(cadata=authority)
        request = urllib.request.Request(f"{info.server}/api/v1/pods")
        request.add_header("Authorization", f"Bearer {info.token}")
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(request, context=trusted)
        message = json.load(error.value)["message"]
        assert 'User "system:serviceaccount:home:op" cannot list resource "pods"' in message
