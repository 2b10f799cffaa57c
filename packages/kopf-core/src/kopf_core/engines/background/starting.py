"""The starts of attempts: in small portions, with everything else let through in between.

Thousands of timers can come due at the same moment (e.g. if they were started together).
If all of them were started in one iteration of the event loop, the loop would be deaf meanwhile.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context

PORTION = 200
"""How many attempts are started in one iteration of the loop, when there are few of them."""

SHARE = 0.02
"""Which share of what is due is started in one iteration of the loop, when there are many."""


class Starter:
    """The queue of what is due, in the order of becoming due."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Callable[[], None]] = deque()
        self._is_scheduled = False
        self._context: Context | None = None

    @property
    def context(self) -> Context:
        """The only context for all handles: otherwise, each of them would make its own copy."""
        if self._context is None:
            self._context = copy_context()
        return self._context

    def call_at(self, when: float, now: float, fn: Callable[[], None]) -> asyncio.TimerHandle:
        """Start it when its time comes: both times are those of the same clock."""
        return self._loop.call_later(max(0.0, when - now), self.put, fn, context=self.context)

    def put(self, fn: Callable[[], None]) -> None:
        """Start it soon. It must be ready to be not needed anymore by that time."""
        self._queue.append(fn)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._start, context=self.context)

    def _start(self) -> None:
        # If the loop is busy with other things, so that its iterations are long, a fixed number
        # would not be enough to ever catch up.
        count = max(PORTION, int(len(self._queue) * SHARE))
        for _ in range(min(count, len(self._queue))):
            self._queue.popleft()()
        self._is_scheduled = bool(self._queue)
        if self._is_scheduled:
            self._loop.call_soon(self._start, context=self.context)
