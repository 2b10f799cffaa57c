"""Where the time comes from, so that tests can put their own in its place."""

import datetime
import time
from typing import Protocol


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
    """A clock whose wall time never jumps: it is taken once, and goes on with the monotonic one.

    For what lives within one process, and is not compared with the times of others.
    """

    __slots__ = ("_clock", "_started", "_wall_time")

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._started = clock.monotonic()
        self._wall_time = clock.now()

    @property
    def offset(self) -> float:
        """How far (in seconds since the epoch) its wall time is ahead of the monotonic one."""
        return self._wall_time.timestamp() - self._started

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def now(self) -> datetime.datetime:
        elapsed = self._clock.monotonic() - self._started
        return self._wall_time + datetime.timedelta(seconds=elapsed)


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
