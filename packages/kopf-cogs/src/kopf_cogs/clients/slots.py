"""Slots of requests: as few requests at once as is enough, as each needs a connection of its own.

A new connection, with its TLS handshake, costs more than ten requests, and takes memory.
More connections do not help if the server answers in milliseconds: then, this process is busy.
They help if the server is slow. So, when a request waits for a slot for too long, there are more
slots, a few at a time: maybe, the server has only paused for a moment.

Namespaces get slots in turns: many requests for one of them do not hold up the others.
"""

import asyncio

from kopf_cogs.helpers.lines import FairLine

USUAL = 10
"""How many requests are in flight at once while no request waits for long."""

LIMIT = 64
"""How many requests can be in flight at all; the other requests wait."""

RUSH = 500
"""How many requests can be in flight in a rush: below the usual limit of open files."""

PATIENCE = 0.1
"""How long (in seconds) a request waits for a slot before one more slot is added."""

LONG_PATIENCE = 1.0
"""The same patience, while this process is busy, and so everything takes long."""

LATENESS = 0.002
"""How late (in seconds) our own timers are when this process is busy."""

GROWTH = 4
"""How many slots give one more when there are too few: a quarter is added each time."""

Waiter = tuple[float, asyncio.Future[None]]
"""The time since which a request waits, and the future that it awaits."""


def find_namespace(url: str) -> str | None:
    """The namespace in the URL; ``None`` if the request is for no namespace, or for all of them."""
    _, _, rest = url.partition("/namespaces/")
    return rest.partition("?")[0].partition("/")[0] or None


class Slots:
    """A semaphore that grows while it is too small, and shrinks when no request is in flight."""

    __slots__ = ("_line", "_size", "_taken", "_timer")

    def __init__(self) -> None:
        super().__init__()
        self._size = USUAL
        self._taken = 0
        self._line: FairLine[Waiter] = FairLine()  # if not empty, all slots are taken
        self._timer: asyncio.TimerHandle | None = None

    @property
    def taken(self) -> int:
        """How many requests are in flight."""
        return self._taken

    def rush(self) -> None:
        """Let the waiting requests go at once, and the new ones until none is in flight."""
        if self._taken:
            self._size = RUSH
            self._grant()

    async def take(self, url: str) -> None:
        """Wait for a slot for a request with this URL."""
        if self._taken < self._size:
            self._taken += 1
            return
        loop = asyncio.get_running_loop()
        waiter: Waiter = loop.time(), loop.create_future()
        self._line.put(waiter, find_namespace(url))
        if self._timer is None:
            self._watch(loop)
        try:
            await waiter[1]
        except BaseException:
            self._line.discard(waiter)
            if waiter[1].done() and not waiter[1].cancelled():  # the slot came at the same moment
                self.give_back()
            raise

    def give_back(self) -> None:
        """The request has ended: let the next one have its slot."""
        self._taken -= 1
        self._grant()
        if not self._taken:
            self._size = USUAL

    def _grant(self) -> None:
        while self._line and self._taken < self._size:
            _, future = self._line.take()
            if not future.done():
                self._taken += 1
                future.set_result(None)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Add slots when the patience of the oldest waiting request is over."""
        if self._line and self._size < LIMIT:
            now, at = loop.time(), self._line.oldest[0] + PATIENCE
            at = at if at > now else now + PATIENCE
            self._timer = loop.call_at(at, self._grow, loop, at)

    def _grow(self, loop: asyncio.AbstractEventLoop, planned: float) -> None:
        self._timer = None
        now = loop.time()
        since = now - (LONG_PATIENCE if now - planned > LATENESS else PATIENCE)
        enough = min(LIMIT, self._size + self._size // GROWTH)
        while self._line and self._size < enough and self._line.oldest[0] <= since:
            self._size += 1
            self._grant()
        self._watch(loop)
