"""The budget of requests: so many a second, for operators that must spare the API server."""

import asyncio
from typing import TYPE_CHECKING

from kopf_cogs.clients.slots import find_namespace
from kopf_cogs.helpers.lines import FairLine

if TYPE_CHECKING:
    from kopf_cogs.configs.settings import OperatorSettings

RUSH = 2.0
"""For how long (in seconds) requests do not wait after a rush has begun."""

LONGEST_WAIT = 1.0
"""For how long (in seconds) requests wait until the changed settings are noticed, at most."""


class Budget:
    """Delays requests, so that there are at most ``qps`` of them a second, and ``burst`` at once.

    Both limits are in ``settings.networking``, and can be changed there at any time. Namespaces get
    the budget in turns: many requests for one of them do not hold up the others.
    """

    __slots__ = ("_free_until", "_line", "_settings", "_spent_until", "_timer")

    def __init__(self, settings: "OperatorSettings") -> None:
        super().__init__()
        self._settings = settings
        self._line: FairLine[asyncio.Future[None]] = FairLine()
        self._timer: asyncio.TimerHandle | None = None
        self._spent_until = 0.0  # when all past requests are paid for
        self._free_until = 0.0

    async def take(self, url: str) -> None:
        """Wait until a request with this URL can be sent."""
        loop = asyncio.get_running_loop()
        if not self._line and self._spend(loop.time()):
            return
        waiter: asyncio.Future[None] = loop.create_future()
        self._line.put(waiter, find_namespace(url))
        if self._timer is None:
            self._schedule(loop)
        try:
            await waiter
        finally:
            self._line.discard(waiter)

    def rush(self) -> None:
        """Let the waiting requests go at once, and new ones for a while: there is no time."""
        loop = asyncio.get_running_loop()
        self._free_until = loop.time() + RUSH
        if self._timer is not None:
            self._timer.cancel()
            self._grant(loop, loop.time())

    def _spend(self, now: float) -> bool:
        """Spend the budget for one request, if there is any."""
        if self._settings.networking.qps is None or now < self._free_until:
            return True
        most = self._get_period() * self._settings.networking.burst
        self._spent_until = min(self._spent_until, now + most)  # the settings can have changed
        if now < self._get_next_time():
            return False
        self._spent_until = max(self._spent_until, now) + self._get_period()
        return True

    def _get_next_time(self) -> float:
        return self._spent_until - self._get_period() * (self._settings.networking.burst - 1)

    def _get_period(self) -> float:
        return 1 / (self._settings.networking.qps or float("inf"))

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        at = min(self._get_next_time(), loop.time() + LONGEST_WAIT)
        self._timer = loop.call_at(at, self._grant, loop, at)

    def _grant(self, loop: asyncio.AbstractEventLoop, planned: float) -> None:
        self._timer = None
        now = max(planned, loop.time())  # timers can be early by the precision of the clock
        while self._line and self._spend(now):
            waiter = self._line.take()
            if not waiter.done():
                waiter.set_result(None)
        if self._line:
            self._schedule(loop)
