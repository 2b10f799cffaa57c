import asyncio
import contextlib
import gc
import socket
import subprocess
import sys
import warnings

import pytest
import yaml

from kopf_kits.sandbox import Sandbox, StatusError
from kopf_kits.sandbox.__main__ import main

from .conftest import make_crd


async def test_lookup_by_any_name(sandbox, crd, make_object):
    await sandbox.create(make_object())
    for name in ("kopfexamples", "kopfexample", "KopfExample", "kex", "kopfexamples.kopf.dev",
                 "kopfexamples.v1.kopf.dev"):  # fmt: skip
        assert (await sandbox.get(name, "x"))["metadata"]["name"] == "x"
    with pytest.raises(LookupError, match="nosuch"):
        await sandbox.get("nosuch", "x")


async def test_lists(sandbox, crd, make_object):
    await sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
    await sandbox.create(make_object("a", metadata={"labels": {"l": "m"}}))
    await sandbox.create(make_object("b", metadata={"namespace": "ns"}))
    assert [obj["metadata"]["name"] for obj in await sandbox.list("kex")] == ["a", "b"]
    assert len(await sandbox.list("kex", namespace="ns")) == 1
    assert len(await sandbox.list("kex", selector="l=m")) == 1


async def test_patches(sandbox, crd, make_object):
    await sandbox.create(make_object(spec={"a": 1}))
    patched = await sandbox.patch("kex", "x", {"spec": {"b": 2}})
    assert patched["spec"] == {"a": 1, "b": 2}
    patched = await sandbox.patch("kex", "x", [{"op": "remove", "path": "/spec/a"}])
    assert patched["spec"] == {"b": 2}
    patched = await sandbox.patch("kex", "x", {"status": {"c": 3}}, subresource="status")
    assert patched["status"] == {"c": 3}


async def test_results_are_copies(sandbox, crd, make_object):
    body = make_object(spec={"a": {"b": 1}})
    created = await sandbox.create(body)
    created["spec"]["a"]["b"] = 2
    body["spec"]["a"]["b"] = 3
    assert (await sandbox.get("kex", "x"))["spec"] == {"a": {"b": 1}}


async def test_manifests(sandbox, tmp_path, make_object):
    path = tmp_path / "all.yaml"
    items = {"apiVersion": "v1", "kind": "List", "items": [make_object("a"), make_object("b")]}
    path.write_text(yaml.safe_dump_all([make_crd(), None, items]))
    applied = await sandbox.apply(path)
    assert [obj["metadata"]["name"] for obj in applied] == ["kopfexamples.kopf.dev", "a", "b"]
    applied = await sandbox.apply(path.read_text())
    assert len(applied) == 3
    with pytest.raises(LookupError, match="Unknown"):
        await sandbox.apply({"apiVersion": "v1", "kind": "Unknown", "metadata": {"name": "x"}})


async def test_names_of_files_are_not_manifests(sandbox, tmp_path):
    with pytest.raises(
        ValueError, match=r"^'crd.yaml' is not a manifest: .* Path\('crd.yaml'\)\.$"
    ):
        await sandbox.apply("crd.yaml")
    path = tmp_path / "file.yaml"
    path.write_text("crd.yaml")
    with pytest.raises(ValueError, match=r"^'crd.yaml' is not a manifest\.$"):
        await sandbox.apply(path)


async def test_failures_are_those_of_the_api(sandbox, crd, make_object):
    await sandbox.create(make_object())
    with pytest.raises(StatusError, match="already exists") as caught:
        await sandbox.create(make_object())
    assert caught.value.code == 409
    assert caught.value.reason == "AlreadyExists"


async def test_kubeconfig(sandbox, tmp_path):
    path = sandbox.write_kubeconfig(tmp_path / "folder" / "config")
    config = yaml.safe_load(path.read_text())
    assert config == sandbox.kubeconfig()
    assert config["current-context"] == "sandbox"
    assert config["clusters"][0]["cluster"]["server"] == sandbox.url
    assert path.stat().st_mode & 0o077 == 0


async def test_it_must_be_started():
    with pytest.raises(RuntimeError, match="not started"):
        await Sandbox().get("pods", "x")


async def test_taken_ports_are_reported(sandbox, capsys):
    with pytest.raises(OSError):
        await Sandbox(port=sandbox.port).__aenter__()


@pytest.mark.parametrize("turns", range(6))
def test_connections_of_the_last_moment_are_closed(turns):
    async def stop_after_connection():
        async with Sandbox() as sandbox:
            client = socket.create_connection(("127.0.0.1", sandbox.port), timeout=10)
            for _ in range(turns):
                await asyncio.sleep(0)
        with client, contextlib.suppress(ConnectionResetError):  # it is so if never accepted
            assert await asyncio.to_thread(client.recv, 1) == b""

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(stop_after_connection())
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


def test_it_imports_nothing_of_the_framework():
    code = (
        "import sys, kopf_kits.sandbox; "
        "print([n for n in sys.modules if n.split('.')[0] in ('kopf', 'kopf_core', 'kopf_cogs')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_process_of_its_own(tmp_path):
    manifest, config = tmp_path / "crd.yaml", tmp_path / "config"
    manifest.write_text(yaml.safe_dump(make_crd()))
    command = [sys.executable, "-m", "kopf_kits.sandbox", "-k", str(config), "-f", str(manifest)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        process.terminate()
        assert process.wait() == 0
    url = yaml.safe_load(config.read_text())["clusters"][0]["cluster"]["server"]
    assert line == f"The sandbox is ready at {url}\n"


@pytest.mark.parametrize(
    "content", ["kind: Unknown", "kind: [", "text", "{apiVersion: v1, kind: Pod}"]
)
def test_bad_manifests_are_reported_in_one_line(tmp_path, capsys, content):
    manifest = tmp_path / "bad.yaml"
    manifest.write_text(content)
    assert main(["-f", str(manifest)]) == 1
    assert capsys.readouterr().err.startswith("The manifests cannot be applied: ")


def test_absent_manifests_are_reported_in_one_line(tmp_path, capsys):
    assert main(["-f", str(tmp_path / "absent.yaml")]) == 1
    assert "absent.yaml" in capsys.readouterr().err
