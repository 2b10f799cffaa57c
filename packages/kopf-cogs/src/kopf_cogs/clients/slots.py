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
"""How many requests are in flight at once while nobody waits for long."""

LIMIT = 64
"""How many of them there can be at all; the others wait."""

RUSH = 500
"""How many of them there can be when there is no time to wait: below the usual limit of files."""

PATIENCE = 0.1
"""How long (in seconds) to wait for a slot of others before one more is added."""

LONG_PATIENCE = 1.0
"""The same, while it is us who are busy, and so everything takes long."""

LATENESS = 0.002
"""How late (in seconds) our own timers are when we are busy."""

GROWTH = 4
"""How many slots make one more when there are too few: it is by a quarter each time."""

Waiter = tuple[float, asyncio.Future[None]]
"""Since when it waits, and what it waits for."""


def find_namespace(url: str) -> str | None:
    """The namespace of what is requested; ``None`` if it is in no namespace, or in all of them."""
    _, _, rest = url.partition("/namespaces/")
    return rest.partition("?")[0].partition("/")[0] or None


class Slots:
    """A semaphore that grows while it is too small, and begins anew when nobody needs it."""

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
        """Let those who wait go at once, and those who come until all of them are through."""
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
            if waiter[1].done() and not waiter[1].cancelled():  # it has got it at the same moment
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
        """Look at those who wait when the patience of the first of them is over."""
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
