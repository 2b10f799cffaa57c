"""Virtual time for tests: it goes only when there is nothing else to do, and then at once."""

from __future__ import annotations

import asyncio
import datetime
import functools
from collections.abc import Callable, Coroutine
from typing import Any

START = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


class LoopClock:
    """The time of the running loop, whatever it is."""

    epoch = START
    """What the wall clock shows when the loop begins; tests can set it forward or back."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> datetime.datetime:
        return self.epoch + datetime.timedelta(seconds=self.monotonic())


class VirtualTime(LoopClock):
    """The time of a loop, since it was made so; and the clock of whatever runs in the loop.

    It does not wait for what comes from outside of the loop: sockets, threads, processes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._now = 0.0
        self._select = loop._selector.select  # type: ignore[attr-defined]
        loop._selector.select = self._skip  # type: ignore[attr-defined]
        loop.time = self.monotonic  # type: ignore[method-assign]

    def monotonic(self) -> float:
        return self._now

    def _skip(self, timeout: float | None = None) -> Any:
        if timeout is None:
            return self._select(None)  # something happens in a thread
        events = self._select(0)
        if not events:
            self._now += timeout
        return events


def timeless(fn: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run the test in virtual time. Its fixtures must not need a loop."""

    @functools.wraps(fn)
    def wrapper(**kwargs: Any) -> None:
        with asyncio.Runner() as runner:
            VirtualTime(runner.get_loop())
            runner.run(fn(**kwargs))

    return wrapper


def jump(seconds: float) -> None:
    """Have the running loop later by so much, as if it was blocked: what is due, is due at once."""
    loop = asyncio.get_running_loop()
    get_time = loop.time
    loop.time = lambda: get_time() + seconds  # type: ignore[method-assign]
