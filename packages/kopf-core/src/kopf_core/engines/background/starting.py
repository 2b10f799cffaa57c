"""The starts of attempts: in small portions, so that the event loop does other work in between.

Thousands of timers can come due at the same moment, e.g. if they were started together. If they all
started in one iteration of the event loop, nothing else would run meanwhile.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context

PORTION = 200
"""How many attempts are started in one iteration of the loop, when few are due."""

SHARE = 0.02
"""The share of the due attempts to start in one iteration of the loop, when many are due."""


class Starter:
    """The queue of due attempts, in the order of their times."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Callable[[], None]] = deque()
        self._is_scheduled = False
        self._context: Context | None = None

    @property
    def context(self) -> Context:
        """The one context of all handles: otherwise, each of them would copy its own."""
        if self._context is None:
            self._context = copy_context()
        return self._context

    def call_at(self, when: float, now: float, fn: Callable[[], None]) -> asyncio.TimerHandle:
        """Start the attempt when its time comes: both times are of the same clock."""
        return self._loop.call_later(max(0.0, when - now), self.put, fn, context=self.context)

    def put(self, fn: Callable[[], None]) -> None:
        """Start the attempt soon. It can turn out to be not needed by then."""
        self._queue.append(fn)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._start, context=self.context)

    def _start(self) -> None:
        # If other work makes the iterations of the loop long, a fixed number per iteration
        # would never catch up.
        count = max(PORTION, int(len(self._queue) * SHARE))
        for _ in range(min(count, len(self._queue))):
            self._queue.popleft()()
        self._is_scheduled = bool(self._queue)
        if self._is_scheduled:
            self._loop.call_soon(self._start, context=self.context)
