"""Connections that are held with nothing going on, over real sockets."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from kopf_cogs.aiokits import listeners

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
async def listener() -> AsyncIterator[listeners.Listener]:
    async def handle(_: web.BaseRequest) -> web.Response:
        return web.Response(body=b"x" * 10_000_000)

    sock = socket.create_server(("127.0.0.1", 0))
    listener = listeners.Listener(handle, sock, logging.getLogger("kopf.test"))
    await listener.swap(None)
    yield listener
    await listener.close()


async def test_k23_answers_that_nobody_reads_hold_no_connection(
    listener: listeners.Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = asyncio.Event()
    connection_lost = listeners._Connection.connection_lost

    def notice(self: listeners._Connection, exc: BaseException | None) -> None:
        connection_lost(self, exc)
        lost.set()

    monkeypatch.setattr(listeners._Connection, "connection_lost", notice)
    monkeypatch.setattr(listeners, "KEEPALIVE_TIMEOUT", 0.01)
    with socket.create_connection(("127.0.0.1", listener.port)) as sock:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(sock, REQUEST)
        async with asyncio.timeout(60):
            await lost.wait()


def test_k23_connections_of_other_loops_are_served() -> None:
    """Transports of uvloop are not of the classes of asyncio."""
    uvloop = pytest.importorskip("uvloop")

    async def handle(_: web.BaseRequest) -> web.Response:
        return web.Response(text="served")

    async def ask() -> list[str]:
        sock = socket.create_server(("127.0.0.1", 0))
        listener = listeners.Listener(handle, sock, logging.getLogger("kopf.test"))
        await listener.swap(None)
        url = f"http://127.0.0.1:{listener.port}/"
        async with aiohttp.ClientSession() as session:
            texts = []
            for _ in range(2):
                async with session.get(url) as response:
                    texts.append(await response.text())
        await listener.close()
        return texts

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(ask()) == ["served", "served"]
