from __future__ import annotations

import asyncio
import gc
import socket
import warnings
from collections.abc import Callable
from typing import cast

import pytest
from listeners import stop_listening


def new_uvloop() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop = pytest.importorskip("uvloop").new_event_loop()
    return loop


Transports = list[asyncio.BaseTransport]
MakeLoop = Callable[[], asyncio.AbstractEventLoop]

LOOPS = [
    pytest.param(asyncio.new_event_loop, id="asyncio"),
    pytest.param(new_uvloop, id="uvloop"),
]


class Counted(asyncio.Protocol):
    def __init__(self, transports: Transports) -> None:
        self.transports = transports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transports.append(transport)


async def stop_after(turns: int, transports: Transports) -> bytes | None:
    """Stop so many turns after a client has connected; return what the client gets."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Counted(transports), "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname(), timeout=10) as client:
        for _ in range(turns):
            await asyncio.sleep(0)
        await stop_listening(server)
        assert not server.is_serving()
        for transport in transports:
            transport.close()
        await asyncio.sleep(0)
        try:
            return await asyncio.to_thread(client.recv, 1)
        except ConnectionResetError:
            return None


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("make_loop", LOOPS)
def test_connections_of_the_last_moment_are_not_lost(make_loop: MakeLoop, turns: int) -> None:
    """They are either never accepted, or known to the protocols: so, they can be closed."""
    transports: Transports = []
    with (
        warnings.catch_warnings(record=True) as caught,
        asyncio.Runner(loop_factory=make_loop) as r,
    ):
        warnings.simplefilter("always")
        received = r.run(stop_after(turns, transports))
        gc.collect()
    assert received == (b"" if transports else None)
    assert [str(warning.message) for warning in caught] == []


@pytest.mark.parametrize("make_loop", LOOPS)
def test_established_connections_stay(make_loop: MakeLoop) -> None:
    async def test() -> None:
        made = asyncio.Event()

        class Echo(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                self.transport = cast("asyncio.Transport", transport)  # uvloop has its own classes
                made.set()

            def data_received(self, data: bytes) -> None:
                self.transport.write(data)

        server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await made.wait()
        await stop_listening(server)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        writer.close()
        await writer.wait_closed()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(test())
