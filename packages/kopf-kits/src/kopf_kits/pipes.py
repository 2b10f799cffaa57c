"""HTTP where there are no sockets: connections whose bytes go through anything else.

E.g. through the message channels of a browser, or straight from a client to a server in the same
event loop. Everything above the sockets is real: the client, the server, and their protocols.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.client_proto import ResponseHandler

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.tracing import Trace

Send = Callable[[bytes | None], None]
"""Sends the bytes to the other end, in order; or ``None`` if this end is closed."""

ADDRESS = ("127.0.0.1", 0)


class Pipe(asyncio.Transport):
    """One end of a connection. The carrier of the bytes gives the arriving ones to `receive()`.

    There is no limit for the bytes on their way: writers are never asked to wait.
    """

    def __init__(self, protocol: asyncio.BaseProtocol, send: Send) -> None:
        super().__init__({"peername": ADDRESS, "sockname": ADDRESS})
        self._protocol = protocol
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._inbox: list[bytes | None] = []
        self._is_reading = True
        self._is_closing = False
        protocol.connection_made(self)

    def receive(self, data: bytes | None) -> None:
        """Take the bytes that have arrived; or ``None`` if the other end is closed."""
        self._inbox.append(data)
        self._loop.call_soon(self._read)

    def lose(self, exc: Exception | None = None) -> None:
        """Break the connection at this end: the other end does not exist anymore."""
        if not self._is_closing:
            self._is_closing = True
            self._inbox.clear()
            self._loop.call_soon(self._protocol.connection_lost, exc)

    def _read(self) -> None:
        while self._inbox and self._is_reading and not self._is_closing:
            data = self._inbox.pop(0)
            if data is None:
                self._protocol.eof_received()  # type: ignore[attr-defined]
                self.lose()
            else:
                self._protocol.data_received(data)  # type: ignore[attr-defined]

    # The methods that protocols use.

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._loop.call_soon(self._read)

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self._is_closing:
            self._send(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self._is_closing:
            self._send(None)
            self.lose()

    def abort(self) -> None:
        self.close()


class PipeConnector(aiohttp.BaseConnector):
    """The connector of a client session. The function ``connect`` opens its connections.

    The function gets a protocol, and returns the end of a new connection for it.
    """

    def __init__(self, connect: Callable[[asyncio.BaseProtocol], Pipe]) -> None:
        super().__init__(limit=0)
        self._connect = connect

    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        protocol: ResponseHandler = self._factory()
        self._connect(protocol)
        return protocol


def join(client: asyncio.BaseProtocol, serve: Callable[[Send], Pipe]) -> Pipe:
    """Connect a client to a server in the same event loop."""
    server: Pipe
    pipe = Pipe(client, lambda data: server.receive(data))
    server = serve(pipe.receive)
    return pipe
