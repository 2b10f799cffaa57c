"""Connections between two workers: all of them go through one message channel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from pyodide.ffi import create_proxy, to_js

from kopf_kits.pipes import Pipe, Send


class Wire:
    """One end of the message channel. The messages are pairs: which connection, and its bytes."""

    def __init__(self, port: Any, accept: Callable[[Send], Pipe] | None = None) -> None:
        self._port = port
        self._accept = accept
        self._pipes: dict[int, Pipe] = {}
        self._opened = 0
        self._proxy = create_proxy(self._receive)
        port.onmessage = self._proxy

    def open(self, protocol: asyncio.BaseProtocol) -> Pipe:
        """Open a connection to the other end."""
        self._opened += 1
        number = self._opened
        pipe = self._pipes[number] = Pipe(protocol, partial(self._send, number))
        return pipe

    def cut(self) -> None:
        """Break all connections: there is nobody at the other end."""
        self._port.close()
        pipes, self._pipes = self._pipes, {}
        for pipe in pipes.values():
            pipe.lose(ConnectionResetError("The other end is gone."))

    def _send(self, number: int, data: bytes | None) -> None:
        if data is None:
            self._pipes.pop(number, None)
        self._port.postMessage(to_js([number, data]))

    def _receive(self, event: Any) -> None:
        number, content = event.data
        data = content.to_bytes() if hasattr(content, "to_bytes") else None
        pipe = self._pipes.get(number)
        if pipe is None:
            if data is None or self._accept is None:
                return  # it is closed at this end already
            pipe = self._pipes[number] = self._accept(partial(self._send, number))
        if data is None:
            del self._pipes[number]
        pipe.receive(data)
