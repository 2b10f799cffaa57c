import asyncio
import base64
import dataclasses
import json
import os
import pathlib
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from kopf_kits.envtest import Assets, Envtest, EnvtestError, cluster, probes

Watch = Callable[[int], Any]
MakeProgram = Callable[..., pathlib.Path]
SERVERS = ["etcd", "kube-apiserver", "kube-controller-manager"]

USER_SCRIPT = """
import dataclasses, json, pathlib, sys
from kopf_kits.envtest import Assets, Envtest
*paths, = map(pathlib.Path, sys.argv[1:])
with Envtest(assets=Assets(*paths, "test")) as envtest:
    supervisor = envtest._servers._supervisor.pid
    print(json.dumps([str(envtest.folder), supervisor, *envtest.pids.values()]), flush=True)
    sys.stdin.read()
"""


def test_sync_form(assets: Assets, tempdir: pathlib.Path, watch: Watch) -> None:
    with Envtest(assets=assets) as envtest:
        assert envtest.url.startswith("https://127.0.0.1:")
        assert envtest.version == "v1.2.3"
        assert envtest.assets is assets
        assert list(envtest.pids) == SERVERS
        processes = [watch(pid) for pid in envtest.pids.values()]
        assert list(tempdir.iterdir()) == [envtest.folder]
        assert stat.S_IMODE(envtest.folder.stat().st_mode) == 0o700
    assert all(process.wait() for process in processes)
    assert not list(tempdir.iterdir())
    assert envtest.pids == {}


async def test_async_form(assets: Assets, tempdir: pathlib.Path, watch: Watch) -> None:
    async with Envtest(assets=assets) as envtest:
        assert envtest.version == "v1.2.3"
        processes = [watch(pid) for pid in envtest.pids.values()]
    assert all(process.wait() for process in processes)
    assert not os.listdir(tempdir)


@pytest.mark.usefixtures("cryptography")
def test_it_can_be_started_again_after_a_stop(assets: Assets, tempdir: pathlib.Path) -> None:
    envtest = Envtest(assets=assets)
    for _ in range(2):
        envtest.start()
        with pytest.raises(EnvtestError, match="already running"):
            envtest.start()
        envtest.stop()
        envtest.stop()
    assert not list(tempdir.iterdir())


@pytest.mark.usefixtures("cryptography")
def test_controller_manager_can_be_absent(assets: Assets) -> None:
    with Envtest(assets=dataclasses.replace(assets, controller_manager=None)) as envtest:
        assert list(envtest.pids) == ["etcd", "kube-apiserver"]


@pytest.mark.usefixtures("cryptography")
def test_kubeconfig_is_self_contained_and_private(assets: Assets, tmp_path: pathlib.Path) -> None:
    with Envtest(assets=assets) as envtest:
        path = envtest.write_kubeconfig(tmp_path / "kubeconfig.yaml")
        kubeconfig = envtest.kubeconfig()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert yaml.safe_load(path.read_text()) == kubeconfig
    assert kubeconfig["clusters"][0]["cluster"]["server"] == envtest.url
    for value in [
        kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"],
        kubeconfig["users"][0]["user"]["client-certificate-data"],
        kubeconfig["users"][0]["user"]["client-key-data"],
    ]:
        assert base64.b64decode(value).startswith(b"-----BEGIN ")


def test_no_kubeconfig_when_not_running(assets: Assets) -> None:
    with pytest.raises(EnvtestError, match="is not running"):
        Envtest(assets=assets).kubeconfig()


@pytest.mark.usefixtures("cryptography")
def test_given_port_is_used(assets: Assets) -> None:
    port = probes.find_free_port()
    with Envtest(assets=assets, port=port) as envtest:
        assert envtest.url == f"https://127.0.0.1:{port}"


def test_given_port_in_use(assets: Assets, tempdir: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(EnvtestError, match=rf"^Port {port} is in use: choose another one\.$"):
            Envtest(assets=assets, port=port).start()
    assert not list(tempdir.iterdir())


@pytest.mark.usefixtures("cryptography")
def test_given_port_taken_meanwhile(
    assets: Assets, tempdir: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "is_port_free", lambda _: True)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(EnvtestError, match=rf"^Port {port} is in use: choose another one\.$"):
            Envtest(assets=assets, port=port).start()
    assert not list(tempdir.iterdir())


@pytest.mark.usefixtures("cryptography")
def test_chosen_port_taken_meanwhile(
    assets: Assets, tempdir: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = probes.find_free_port()
    with socket.create_server(("127.0.0.1", 0)) as sock:
        ports = iter([sock.getsockname()[1], good])
        monkeypatch.setattr(cluster, "find_free_port", lambda: next(ports))
        with Envtest(assets=assets) as envtest:
            assert envtest.url == f"https://127.0.0.1:{good}"
    assert not list(tempdir.iterdir())


@pytest.mark.parametrize("name", ["etcd", "kube-apiserver"])
def test_server_dies_at_start(
    assets: Assets, tempdir: pathlib.Path, make_program: MakeProgram, name: str, watch: Watch
) -> None:
    make_program(name, "print('starting'); print('cannot go on'); exit(7)")
    envtest = Envtest(assets=assets)
    with pytest.raises(EnvtestError) as err:
        envtest.start()
    assert str(err.value).startswith(f"{name} exited (7); the end of its log:\n  starting\n")
    assert str(err.value).endswith("\n  cannot go on")
    assert not list(tempdir.iterdir())
    assert envtest.pids == {}


@pytest.mark.usefixtures("cryptography")
def test_program_of_a_wrong_format(
    assets: Assets, tempdir: pathlib.Path, make_program: MakeProgram
) -> None:
    make_program("etcd", text="not a program")
    with pytest.raises(EnvtestError, match=r"^etcd cannot be started: Exec format error\.$"):
        Envtest(assets=assets).start()
    assert not list(tempdir.iterdir())


@pytest.mark.usefixtures("cryptography")
def test_server_never_becomes_ready(
    assets: Assets, tempdir: pathlib.Path, make_program: MakeProgram
) -> None:
    make_program("kube-apiserver")
    with pytest.raises(EnvtestError, match=r"^kube-apiserver is not ready after 0\.2 seconds"):
        Envtest(assets=assets, timeout=0.2).start()
    assert not list(tempdir.iterdir())


@pytest.mark.usefixtures("cryptography")
async def test_cancelled_while_starting(
    assets: Assets, tempdir: pathlib.Path, make_program: MakeProgram, monkeypatch: Any
) -> None:
    make_program("kube-apiserver")  # never ready
    waiting = threading.Event()
    original = Envtest._wait_until_ready

    def wait_until_ready(self: Envtest, *args: Any) -> str:
        waiting.set()
        return original(self, *args)

    monkeypatch.setattr(Envtest, "_wait_until_ready", wait_until_ready)
    task = asyncio.create_task(Envtest(assets=assets).__aenter__())
    await asyncio.to_thread(waiting.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not os.listdir(tempdir)


def test_nothing_is_left_when_the_user_is_killed(
    assets: Assets, tempdir: pathlib.Path, watch: Watch
) -> None:
    paths = [str(assets.etcd), str(assets.apiserver), str(assets.controller_manager)]
    user = subprocess.Popen(
        [sys.executable, "-c", USER_SCRIPT, *paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with user:
        assert user.stdout is not None
        folder, *pids = json.loads(user.stdout.readline())
        assert os.path.isdir(folder)
        assert len(pids) == 4
        processes = [watch(pid) for pid in pids]
        user.kill()
        assert all(process.wait() for process in processes)
    assert not os.path.exists(folder)
    assert not list(tempdir.iterdir())
