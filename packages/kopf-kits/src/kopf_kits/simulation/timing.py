"""The clocks and the threads of a simulated process: both of them belong to the event loop."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from .loop import VirtualLoop

P = ParamSpec("P")
T = TypeVar("T")

BEGINNING = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
"""The wall-clock time when a simulated world begins."""


class VirtualClock:
    """The time of the loop; the wall clock can be ahead of it or behind it by ``skew`` seconds."""

    def __init__(self, loop: VirtualLoop, *, skew: float = 0.0) -> None:
        self._loop = loop
        self.skew = skew

    def monotonic(self) -> float:
        return self._loop.time()

    def now(self) -> datetime.datetime:
        return BEGINNING + datetime.timedelta(seconds=self._loop.time() + self.skew)


class VirtualThreads:
    """Threads that are not there: what they would do is done by the loop, between other things."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def repeat(self, fn: Callable[[], object], *, period: float, name: str) -> Callable[[], None]:
        handle: asyncio.TimerHandle | None = None

        def run() -> None:
            nonlocal handle
            fn()
            handle = self._loop.call_later(period, run)

        handle = self._loop.call_later(period, run)
        return lambda: handle.cancel() if handle is not None else None


class VirtualExecutor(Executor):
    """Calls functions one at a time, a bit later, as threads of a busy machine do.

    The functions must not block: there is nobody who would wake them up.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        delay = self._loop.network.weather.think()
        self._loop.call_later(delay, _run, future, fn, args, kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """There is nothing to be ended."""


def _run(future: Future[Any], fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = fn(*args, **kwargs)
    except BaseException as e:
        future.set_exception(e)
    else:
        future.set_result(result)
