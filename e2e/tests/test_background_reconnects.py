"""Background work over lost connections, on any cluster: there is a proxy in between."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from e2e.clusters import Cluster
from e2e.compat.proxies import Proxy
from e2e.tests.harness import FINALIZER, GROUP, get_finalizers
from kopf_core.intents import decorators as on
from kopf_core.intents.stoppers import DaemonStoppingReason

KEX = (GROUP, "kexes")
EXPIRED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "The provided resource version is too old.",
    "reason": "Expired",
    "code": 410,
}


class Disconnector(Proxy):
    """A proxy that can lose all connections. When it is back, all versions are forgotten."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, lambda: None)
        self._is_up = asyncio.Event()
        self._is_up.set()
        self._is_expired = False
        self._streams: set[asyncio.Task[None]] = set()
        self._is_relisted = asyncio.Event()

    def disconnect(self) -> None:
        self._is_up.clear()
        self._is_expired = True
        for stream in self._streams:
            stream.cancel()

    async def reconnect(self) -> None:
        """Be back, and wait until the objects are listed anew."""
        self._is_relisted.clear()
        self._is_up.set()
        await self._is_relisted.wait()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        await self._is_up.wait()
        if not request.path.endswith("/kexes"):
            return await super()._serve(request)
        if "watch" not in request.query:
            response = await super()._serve(request)
            if request.method == "GET":
                self._is_expired = False
                self._is_relisted.set()
            return response
        if self._is_expired:
            return web.json_response(EXPIRED, status=410)
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            return await super()._serve(request)
        finally:
            self._streams.discard(task)


@pytest.fixture
async def proxy(
    world, cluster: Cluster, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Disconnector]:
    async with Disconnector(cluster) as proxy:
        proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "proxy.kubeconfig"))
        yield proxy


async def test_a15_nothing_is_left_of_objects_deleted_while_disconnected(world, proxy):
    calls = world.calls

    @on.daemon(*KEX, id="fn", registry=world.registry)
    async def fn(stopped, name, **_):
        calls(("started", name))
        await stopped.wait()
        calls((stopped.reason, name))

    @on.timer(*KEX, interval=0.01, id="timer", registry=world.registry)
    async def timer(**_): ...

    @on.index(*KEX, id="names", registry=world.registry)
    def names(name, **_):
        return {name: 1}

    @on.event(*KEX, id="event", registry=world.registry)
    async def event(type, name, **_):
        if type == "DELETED":
            calls(("event", name))

    async with world.operator() as operator:
        for name in ("x", "y"):
            await world.create(name=name)
            await world.until(lambda obj: get_finalizers(obj) == [FINALIZER], name)
        await calls.until(lambda calls: len(calls) == 2)
        proxy.disconnect()
        await world.patch({"metadata": {"finalizers": None}}, "x")
        await world.delete("x")
        await world.until_gone("x")
        await proxy.reconnect()
        await calls.until(lambda calls: len(calls) == 4)
        assert set(calls[2:]) == {(DaemonStoppingReason.RESOURCE_DELETED, "x"), ("event", "x")}
        assert set(operator.essentials.indices["names"]) == {"y"}
        assert {it.body.meta.name for it in operator.handling.background.objects} == {"y"}


async def test_a16_objects_recreated_while_disconnected_start_anew(world, proxy):
    calls = world.calls

    @on.daemon(*KEX, id="fn", registry=world.registry)
    async def fn(stopped, uid, memo, **_):
        calls(("started", uid, memo.setdefault("uid", uid)))
        await stopped.wait()
        calls(("stopped", uid, memo.uid))

    async with world.operator() as operator:
        old = (await world.create())["metadata"]["uid"]
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
        proxy.disconnect()
        await world.patch({"metadata": {"finalizers": None}})
        await world.delete()
        await world.until_gone()
        new = (await world.create())["metadata"]["uid"]
        await proxy.reconnect()
        await calls.until(lambda calls: len(calls) == 3)
        assert {it.key for it in operator.handling.background.objects} == {new}
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
    assert calls[0] == ("started", old, old)
    assert set(calls[1:3]) == {("stopped", old, old), ("started", new, new)}
