"""The link between a process of ``kopf run --processes`` and its supervisor: a socket with JSON.

Each line is one message. The supervisor sends:

* ``round``, ``shards``: which shards the process has since this round.
* ``alone``: all other processes have ended.
* ``happening``: a happening that another process has told of.

The process sends:

* ``confirmed``: in this round, no work continues in the shards that the process has lost.
* ``endpoint``, ``title``, ``paths``, ``port``: the endpoint that it serves to the supervisor.
* ``happening``: a happening outside of the cluster, for objects of the other processes.
* ``exiting``: it exits, and waits for the other processes.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kopf_core.actions.happenings import Happening
from kopf_core.engines.listening import View, open_sockets, serve
from kopf_core.engines.sharding.shares import Order

if TYPE_CHECKING:
    from aiohttp import web

MARK = "_KOPF_LINK"
"""The variable of each of several processes: the socket, the number of the process, the token."""

TOKEN = "X-Kopf-Token"
"""The header by which the processes know their supervisor."""

LONGEST = 2**26
"""How long (in bytes) a message can be. The reasons of happenings are texts of users."""

logger = logging.getLogger("kopf.processes")


class SupervisorLostError(Exception):
    """The supervisor has ended, so the other processes do not learn if this process ends."""

    expected = True


class Link:
    """The end of the link at the side of the process."""

    def __init__(self, sock: socket.socket, number: int, token: str) -> None:
        self.is_first = number == 1
        self._sock = sock
        self._token = token
        self._alone = asyncio.Event()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._connecting = asyncio.Lock()
        self._accept: Callable[[Happening], None] | None = None

    async def wait(self) -> Order:
        """Wait for the next order. Raises :class:`SupervisorLostError`."""
        reader, _ = await self._connect()
        while (told := await receive(reader)) is not None:
            if "shards" in told:
                return Order(told["round"], frozenset(told["shards"]))
            if "happening" not in told:
                self._alone.set()
            elif self._accept is not None:
                self._accept(Happening.unpack(told["happening"]))
        self._alone.set()
        raise SupervisorLostError("The supervisor of the processes is gone.")

    def confirm(self, round: int) -> None:
        if self._streams is not None:
            send(self._streams[1], {"confirmed": round})

    async def hear(self, accept: Callable[[Happening], None]) -> None:
        await self._connect()
        self._accept = accept

    def tell(self, happening: Happening) -> None:
        packed = happening.pack()
        if packed is None:
            logger.warning(f"Other processes cannot be told of {happening!r}: name its kind.")
        elif self._streams is not None:
            send(self._streams[1], {"happening": packed})

    async def outlive(self) -> None:
        """Tell that this process exits, so that all exit; wait until the others have ended.

        The news comes through :meth:`wait`, so another task must wait for orders meanwhile.
        """
        _, writer = await self._connect()
        send(writer, {"exiting": True})
        await self._alone.wait()

    async def relay(self, views: Mapping[str, View], endpoint: str, title: str) -> None:
        """Answer the requests of the supervisor, which serves that address for all processes."""
        guarded = {path: self._guard(view) for path, view in views.items()}
        sockets = await open_sockets("127.0.0.1", 0)
        _, writer = await self._connect()
        port = sockets[0].getsockname()[1]
        send(writer, {"endpoint": endpoint, "title": title, "paths": [*views], "port": port})
        await serve(guarded, sockets)

    def _guard(self, view: View) -> View:
        """Answer only to the supervisor. Other users of this machine can reach the port, too."""

        async def guarded(request: web.BaseRequest) -> web.Response:
            from aiohttp import web

            if not hmac.compare_digest(request.headers.get(TOKEN, ""), self._token):
                return web.Response(status=403, text="403: It is not for you.\n")
            return await view(request)

        return guarded

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with self._connecting:
            if self._streams is None:
                self._streams = await asyncio.open_connection(sock=self._sock, limit=LONGEST)
            return self._streams


def take_link() -> Link | None:
    """The link of this process, if it is one of several. Its child processes do not get it."""
    mark = os.environ.pop(MARK, None)
    if mark is None:
        return None
    fileno, number, token = mark.split()
    sock = socket.socket(fileno=int(fileno))
    sock.set_inheritable(False)
    return Link(sock, int(number), token)


async def receive(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Wait for the next message. Get ``None`` if the other side has closed the link."""
    try:
        line = await reader.readline()
    except ConnectionError:
        return None
    return json.loads(line) if line.endswith(b"\n") else None


def send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    """Send the message. The caller does not wait until the socket takes it."""
    writer.write(json.dumps(message).encode() + b"\n")
