"""The threads of a simulated process: each of them runs only when the event loop lets it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from .loop import VirtualLoop

P = ParamSpec("P")
T = TypeVar("T")

SOONEST, LATEST = 0.01, 1.0
"""The limits of the time to notice an event, in virtual seconds: it grows with the wait."""


class Buried(BaseException):
    """The life is over: the thread must end, wherever it is."""


class Nap:
    """A thread waits: until its time, or until shortly after its event."""

    def __init__(
        self,
        loop: VirtualLoop,
        until: float,
        wake: Callable[[], None],
        context: contextvars.Context,
    ) -> None:
        self._loop = loop
        self._until = until
        self._wake = wake
        self._context = context
        self._began = loop.time()
        self._is_noticed = False
        self._timer: asyncio.TimerHandle | None = None
        if until < float("inf"):
            self._timer = loop.call_at(max(until, self._began), wake, context=context)

    def notice(self) -> None:
        """The event has come: threads of a busy machine do not know that at once."""
        if self._is_noticed or self._loop.is_closed():
            return
        self._is_noticed = True
        now, chance = self._loop.time(), self._loop.network.weather.chance
        delay = chance.random() * min(SOONEST + now - self._began, LATEST)
        if now + delay < self._until:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(now + delay, self._wake, context=self._context)


class AttendedEvent(threading.Event):
    """An event for which threads wait in virtual time."""

    naps: list[Nap]

    def set(self) -> None:
        super().set()
        for nap in [*self.naps]:
            nap.notice()


def attend(event: threading.Event) -> list[Nap]:
    """Get the naps that the event ends; any part can have made the event."""
    if not isinstance(event, AttendedEvent):
        event.__class__ = AttendedEvent
        event.naps = []  # type: ignore[attr-defined]
    return event.naps  # type: ignore[attr-defined, no-any-return]


class BatonThread:
    """A real thread that works only while it has the baton; it waits in virtual time.

    The event loop gives the baton to one thread at a time, and does nothing until it comes back.
    So threads have the same order in each life of the same seed.
    """

    def __init__(self, loop: VirtualLoop, fn: Callable[[], object], name: str) -> None:
        self._loop = loop
        self._contexts = contextvars.copy_context(), contextvars.copy_context()
        self._has_baton, self._is_back = threading.Lock(), threading.Lock()
        self._has_baton.acquire()
        self._is_back.acquire()
        self._is_over = self._is_buried = False
        self._thread = threading.Thread(target=self._run, args=(fn,), name=name, daemon=True)
        self._thread.start()
        self._loop.call_soon(self._give, context=self._contexts[0])

    def wait(self, event: threading.Event, until: float) -> None:
        """Let others work until the event or until the time; only from the thread itself."""
        if self._is_buried:
            raise Buried
        nap, naps = Nap(self._loop, until, self._give, self._contexts[0]), attend(event)
        if event.is_set():
            nap.notice()
        naps.append(nap)
        self._is_back.release()
        self._has_baton.acquire()
        naps.remove(nap)
        if self._is_buried:
            raise Buried

    def bury(self) -> None:
        """End the thread, if it has not ended yet."""
        self._is_buried = True
        self._has_baton.release()
        self._thread.join()

    def _give(self) -> None:
        if not self._is_over:
            self._has_baton.release()
            self._is_back.acquire()

    def _run(self, fn: Callable[[], object]) -> None:
        self._has_baton.acquire()
        with contextlib.suppress(Buried):
            if not self._is_buried:
                _current.thread = self
                self._contexts[1].run(fn)
        self._is_over = True
        self._loop.batons.discard(self)
        self._is_back.release()


class _Current(threading.local):
    thread: BatonThread | None = None


_current = _Current()


class VirtualThreads:
    """All threads of one process. If ``inline``, there are no threads for pools.

    Then, the event loop itself calls the functions of pools. It is much cheaper, but these
    functions cannot wait for anything. Other threads always have a baton.
    """

    def __init__(self, loop: VirtualLoop, *, inline: bool = True) -> None:
        self._loop = loop
        self._inline = inline

    def start(self, fn: Callable[[], None], *, name: str) -> None:
        self._loop.batons.add(BatonThread(self._loop, fn, name))

    def make_pool(self, max_workers: int | None = None, *, name: str) -> Executor:
        call = _call_inline if self._inline else functools.partial(self.start, name=name)
        return VirtualPool(self._loop, max_workers or 4, call)

    def repeat(self, fn: Callable[[], object], *, period: float, name: str) -> Callable[[], None]:
        handle = self._loop.call_later(period, lambda: run())

        def run() -> None:
            nonlocal handle
            fn()
            handle = self._loop.call_later(period, run)

        return lambda: handle.cancel()

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        thread = _current.thread
        if thread is None:
            raise RuntimeError("The event loop cannot wait; use threads with a baton.")
        thread.wait(event, float("inf") if timeout is None else self._loop.time() + timeout)
        return event.is_set()


class VirtualPool(Executor):
    """A pool whose threads begin to work a bit later, as on a busy machine."""

    def __init__(
        self, loop: VirtualLoop, max_workers: int, call: Callable[[Callable[[], None]], object]
    ) -> None:
        self.max_workers = max_workers
        self._loop = loop
        self._call = call
        self._busy = 0
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._jobs.append((future, functools.partial(fn, *args, **kwargs)))
        self._loop.call_later(self._loop.network.weather.think(), self._begin)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while cancel_futures and self._jobs:
            self._jobs.popleft()[0].cancel()

    def _begin(self) -> None:
        if self._jobs and self._busy < self.max_workers:
            self._busy += 1
            self._call(functools.partial(self._work, *self._jobs.popleft()))

    def _work(self, future: Future[Any], fn: Callable[[], Any]) -> None:
        try:
            run_into(future, fn)
        finally:
            self._busy -= 1
            self._loop.call_soon(self._begin)


def _call_inline(fn: Callable[[], None]) -> None:
    fn()


def run_into(future: Future[Any], fn: Callable[[], Any]) -> None:
    """Call the function, and put its result or its error into the future."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = fn()
    except Buried:
        raise
    except BaseException as e:
        future.set_exception(e)
    else:
        future.set_result(result)
