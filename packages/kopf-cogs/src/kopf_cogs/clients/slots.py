"""Slots of requests: as few requests at once as is enough, as each needs a connection of its own.

A new connection, with its TLS handshake, costs more than ten requests, and takes memory.
A server that answers in milliseconds is not served better by more of them: it is us who are busy.
A slow server is; so, there are more slots as soon as somebody waits for one for too long:
a few at a time, as a server that has only paused for a moment goes on with those that there are.
"""

import asyncio
from collections import deque

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

Waiter = asyncio.Future[None]


class Slots:
    """A semaphore that grows while it is too small, and begins anew when nobody needs it."""

    __slots__ = ("_line", "_size", "_taken", "_timer")

    def __init__(self) -> None:
        super().__init__()
        self._size = USUAL
        self._taken = 0
        self._line: deque[tuple[float, Waiter]] = deque()  # if not empty, all slots are taken
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

    async def __aenter__(self) -> None:
        if self._taken < self._size:
            self._taken += 1
            return
        loop = asyncio.get_running_loop()
        waiter: Waiter = loop.create_future()
        self._line.append((loop.time(), waiter))
        if self._timer is None:
            self._watch(loop)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():  # it has got the slot at the same moment
                self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self._taken -= 1
        self._grant()
        if not self._taken:
            self._size = USUAL

    def _grant(self) -> None:
        while self._line and self._taken < self._size:
            _, waiter = self._line.popleft()
            if not waiter.done():
                self._taken += 1
                waiter.set_result(None)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at those who wait when the patience of the first of them is over."""
        if self._line and self._size < LIMIT:
            now, at = loop.time(), self._line[0][0] + PATIENCE
            at = at if at > now else now + PATIENCE
            self._timer = loop.call_at(at, self._grow, loop, at)

    def _grow(self, loop: asyncio.AbstractEventLoop, planned: float) -> None:
        self._timer = None
        now = loop.time()
        since = now - (LONG_PATIENCE if now - planned > LATENESS else PATIENCE)
        enough = min(LIMIT, self._size + self._size // GROWTH)
        while self._line and self._size < enough and self._line[0][0] <= since:
            self._size += 1
            self._grant()
        self._watch(loop)
