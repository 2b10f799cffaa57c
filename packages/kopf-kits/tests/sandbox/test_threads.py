import asyncio
import urllib.request

import pytest

from kopf_kits.sandbox import Sandbox, SandboxThread, StatusError

from .conftest import make_crd


def test_synchronous_usage(tmp_path, make_object):
    with SandboxThread() as sandbox:
        assert urllib.request.urlopen(f"{sandbox.url}/healthz").read() == b"ok"
        sandbox.apply(make_crd())
        sandbox.create(make_object())
        sandbox.patch("kex", "x", {"spec": {"a": 1}})
        assert sandbox.get("kex", "x")["spec"] == {"a": 1}
        assert len(sandbox.list("kex")) == 1
        assert sandbox.delete("kex", "x") is True
        sandbox.compact()
        assert sandbox.cut_watches() == 0
        assert [entry.path for entry in sandbox.journal] == ["/healthz"]
        assert sandbox.kubeconfig()["clusters"][0]["cluster"]["server"] == sandbox.url
        assert sandbox.write_kubeconfig(tmp_path / "config").exists()
        with sandbox.faults.fail(500), pytest.raises(OSError, match="500") as failure:
            urllib.request.urlopen(f"{sandbox.url}/healthz")
        failure.value.close()  # it is a response, too
        with pytest.raises(StatusError, match="not found"):
            sandbox.get("kex", "x")


def test_failures_to_start_are_raised():
    with SandboxThread() as sandbox, pytest.raises(OSError), SandboxThread(port=sandbox.port):
        pass


def test_it_must_be_started():
    with pytest.raises(RuntimeError, match="not started"):
        SandboxThread().get("pods", "x")


async def test_another_event_loop(make_object):
    thread = SandboxThread()
    await asyncio.to_thread(thread.__enter__)
    try:
        await asyncio.to_thread(thread.apply, make_crd())
        created = await asyncio.to_thread(thread.create, make_object())
        assert created["metadata"]["uid"]
    finally:
        await asyncio.to_thread(thread.__exit__, None, None, None)


async def test_only_loopback_is_listened_on():
    with pytest.raises(ValueError, match="loopback"):
        Sandbox(host="0.0.0.0")
