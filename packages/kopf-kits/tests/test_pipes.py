"""Clusters and operators with neither sockets nor threads, as in browsers."""

import asyncio
import threading

import aiohttp
import pytest
from idleness import until

import kopf
from kopf_cogs.aiokits.inline import InlineThreads
from kopf_cogs.aiokits.surroundings import Surroundings, surroundings_var
from kopf_kits.pipes import Pipe, PipeConnector, join
from kopf_kits.sandbox import Sandbox

from .sandbox.conftest import make_crd

NAMESPACES = "/api/v1/namespaces"


@pytest.fixture(autouse=True)
def no_sockets_and_no_threads(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("There are neither sockets nor threads here.")

    for name in ("create_connection", "create_server"):
        monkeypatch.setattr(asyncio.BaseEventLoop, name, refuse)
    monkeypatch.setattr(threading.Thread, "start", refuse)


def open_session(sandbox: Sandbox) -> aiohttp.ClientSession:
    connector = PipeConnector(lambda protocol: join(protocol, sandbox.connect))
    return aiohttp.ClientSession(sandbox.url, connector=connector)


async def test_requests_and_big_replies():
    async with Sandbox(port=None) as sandbox, open_session(sandbox) as session:
        config = {"metadata": {"name": "big"}, "data": {"text": "x" * 900_000}}
        path = f"{NAMESPACES}/default/configmaps"
        async with session.post(path, json=config) as response:
            assert response.status == 201
        async with session.get(f"{path}/big") as response:
            assert (await response.json())["data"] == config["data"]
        assert [entry.path for entry in sandbox.journal] == [path, f"{path}/big"]


async def test_streams_end_when_either_end_is_closed():
    ends: list[bytes | None] = []

    def serve(send):
        def spy(data):
            ends.append(data)
            send(data)

        return sandbox.connect(spy)

    connector = PipeConnector(lambda protocol: join(protocol, serve))
    async with (
        Sandbox(port=None) as sandbox,
        aiohttp.ClientSession(sandbox.url, connector=connector) as session,
    ):
        async with session.get(NAMESPACES, params={"watch": "true"}) as watch:
            await watch.content.readline()
            assert sandbox.cut_watches() == 1
            with pytest.raises(aiohttp.ClientError):
                await watch.content.read()
        assert ends[-1] is None
        async with session.get(NAMESPACES, params={"watch": "true"}) as watch:
            await watch.content.readline()
            watch.close()
        await until(lambda: not sandbox.cut_watches())


async def test_lost_peers_are_noticed():
    pipes: list[Pipe] = []

    def connect(protocol):
        pipes.append(join(protocol, sandbox.connect))
        return pipes[-1]

    connector = PipeConnector(connect)
    async with (
        Sandbox(port=None) as sandbox,
        aiohttp.ClientSession(sandbox.url, connector=connector) as session,
        session.get(NAMESPACES, params={"watch": "true"}) as watch,
    ):
        await watch.content.readline()
        pipes[0].lose(ConnectionResetError("The worker is gone."))
        with pytest.raises(aiohttp.ClientError):
            await watch.content.read()


async def test_nothing_is_served_before_the_start():
    with pytest.raises(RuntimeError, match="not started"):
        Sandbox(port=None).connect(lambda data: None)


async def test_operators_with_sync_handlers():
    registry, seen = kopf.OperatorRegistry(), asyncio.Queue()

    @kopf.on.login(registry=registry)
    def login(**_):
        return kopf.AiohttpSession(server=sandbox.url, aiohttp_session=open_session(sandbox))

    @kopf.on.create("kopfexamples", registry=registry)
    def create_fn(name, patch, **_):
        patch.status["seen"] = name

    @kopf.index("kopfexamples", registry=registry)
    def names(name, **_):
        return name

    @kopf.on.update("kopfexamples", registry=registry)
    async def update_fn(status, **_):
        seen.put_nowait(status["seen"])

    async def operate():
        surroundings_var.set(Surroundings(threads=InlineThreads()))
        await kopf.operator(registry=registry, clusterwide=True, standalone=True)

    async with Sandbox(port=None) as sandbox:
        await sandbox.apply(make_crd())
        task = asyncio.create_task(operate())
        obj = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "x"}}
        await sandbox.create(obj)
        await sandbox.wait("kopfexamples", "x", jsonpath="status.seen", value="x")
        await sandbox.patch("kopfexamples", "x", {"spec": {"field": 1}})
        assert await seen.get() == "x"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
