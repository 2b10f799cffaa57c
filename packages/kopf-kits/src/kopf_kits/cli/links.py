"""The link between the processes of ``kopf run --processes``: lines of JSON in a socket.

The supervisor says which shards the process has; the process says which of that it has followed.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any

from kopf_core.engines.sharding.shares import Order

MARK = "_KOPF_LINK"
"""The variable that tells a process of several: of which socket."""


class SupervisorLostError(Exception):
    """The supervisor is gone: there is nobody who tells others when this process ends."""

    expected = True


class Link:
    """The link as a process of several sees it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def wait(self) -> Order:
        """Wait for the next order. Raises :class:`SupervisorLostError`."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(sock=self._sock)
        told = await receive(self._streams[0])
        if told is None:
            raise SupervisorLostError("The supervisor of the processes is gone.")
        return Order(told["round"], frozenset(told["shards"]))

    def confirm(self, round: int) -> None:
        if self._streams is not None:
            send(self._streams[1], {"confirmed": round})


def take_link() -> Link | None:
    """The link of this process, if it is one of several. It is not for its own processes."""
    number = os.environ.pop(MARK, None)
    if number is None:
        return None
    sock = socket.socket(fileno=int(number))
    sock.set_inheritable(False)
    return Link(sock)


async def receive(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message; nothing if the other side is gone."""
    try:
        line = await reader.readline()
    except ConnectionError:
        return None
    return json.loads(line) if line.endswith(b"\n") else None


def send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    """Send it if the other side is there. There are few messages, so nobody waits for that."""
    writer.write(json.dumps(message).encode() + b"\n")
