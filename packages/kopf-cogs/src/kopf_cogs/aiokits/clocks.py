"""Clocks: the sources of time. Tests can replace them with their own clocks."""

import datetime
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

TimeLimit = Callable[[float], AbstractAsyncContextManager[object]]
"""Lets a block of code take so many seconds at most, as :func:`asyncio.timeout` does."""


class Clock(Protocol):
    """The two kinds of time: one to measure intervals with, one to write down."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back. The same as the event loop's time."""

    def now(self) -> datetime.datetime:
        """The wall-clock time: timezone-aware, in UTC."""


class SystemClock:
    """The time of this machine."""

    __slots__ = ()

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)


class SteadyClock:
    """A clock whose wall time never jumps: it is read once, then follows the monotonic time.

    It is for times within one process, which are not compared with times of other processes.
    """

    __slots__ = ("monotonic", "offset")

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.monotonic = clock.monotonic
        started = clock.monotonic()
        self.offset = clock.now().timestamp() - started
        """How far (in seconds since the epoch) its wall time is ahead of the monotonic one."""

    def now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.offset + self.monotonic(), datetime.UTC)


class FakeClock:
    """A clock that stands still until it is moved: for tests of whatever depends on time."""

    __slots__ = ("_elapsed", "_started")

    def __init__(self, now: datetime.datetime | None = None) -> None:
        super().__init__()
        self._started = now or datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        self._elapsed = 0.0

    def monotonic(self) -> float:
        return self._elapsed

    def now(self) -> datetime.datetime:
        return self._started + datetime.timedelta(seconds=self._elapsed)

    def advance(self, seconds: float) -> None:
        """Move both kinds of time forward by so many seconds."""
        self._elapsed += seconds

    def set_wall_time(self, now: datetime.datetime) -> None:
        """Make the wall clock jump, as after a suspension; the intervals are not affected."""
        self._started = now - datetime.timedelta(seconds=self._elapsed)
