"""A way between operators and the API server, which can be cut, and repaired."""

from __future__ import annotations

import asyncio
import contextlib
import urllib.parse
from typing import Any, Self

from listeners import stop_listening


class Proxy:
    """Forwards TCP connections; those which are cut, are lost as if the network was."""

    def __init__(self, url: str) -> None:
        self._parts = urllib.parse.urlsplit(url)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._port = 0
        self._is_cut = False
        self._speaks = asyncio.Event()
        self._speaks.set()

    @property
    def url(self) -> str:
        return f"{self._parts.scheme}://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: Any) -> None:
        assert self._server is not None
        await stop_listening(self._server)
        self.cut()

    def cut(self) -> None:
        """Lose all the connections, and accept no others."""
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def mute(self) -> None:
        """Keep the connections, accept others, and let nothing through, in either direction."""
        self._speaks.clear()

    def repair(self) -> None:
        """Accept new connections; the old ones are lost with all that was on its way in them."""
        for writer in () if self._speaks.is_set() else self._writers:
            writer.transport.abort()
        self._is_cut = False
        self._speaks.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, back}
        self._writers |= pair
        try:
            await asyncio.gather(self._copy(reader, back), self._copy(there, writer))
        finally:
            self._writers -= pair
            for one in pair:
                one.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._speaks.wait()
                writer.write(data)
                await writer.drain()
            writer.close()
