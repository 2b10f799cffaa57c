"""The door that all calls of handlers go through, and the threads that sync ones wait for."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class TakenBack(asyncio.CancelledError):
    """It was not begun at all: neither called nor sent. The text says why."""


class Door:
    """Whether anything may begin or be sent now, asked at the very last moment before that.

    It is shut when somebody says so, e.g. for a pause; and for as long as any of its guards says
    so, e.g. by the clock: a process that was suspended has missed all other signs. They are asked
    in the event loop and in threads.

    The calls that are given to executors are known here until they end. The executors can be
    of users, so it is unknown what is in their queues.
    """

    def __init__(self, *guards: Callable[[], bool]) -> None:
        self._guards = guards
        self._futures: set[Future[Any]] = set()
        self.is_shut = False

    @property
    def is_open(self) -> bool:
        if self.is_shut:
            return False
        for may_act in self._guards:  # noqa: SIM110 -- it is asked for each object several times
            if not may_act():
                return False
        return True

    def add_guard(self, may_act: Callable[[], bool]) -> None:
        """Ask this one, too."""
        self._guards = (*self._guards, may_act)

    def check(self) -> None:
        """Raise :class:`TakenBack` if it is not open."""
        if not self.is_open:
            raise TakenBack("the operator is paused, or does not lead (anymore)")

    def __len__(self) -> int:
        return len(self._futures)

    def over(self, executor: Executor) -> Executor:
        """The same executor, with its calls being remembered here."""
        return _Watched(executor, self._futures)

    def take_back(self) -> None:
        """Cancel those that wait for a thread; those that run are not affected."""
        for future in list(self._futures):
            future.cancel()


class _Watched(Executor):
    def __init__(self, executor: Executor, futures: set[Future[Any]]) -> None:
        self._executor = executor
        self._futures = futures

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future = self._executor.submit(fn, *args, **kwargs)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future


def follow(call: Future[Any], on_ended: Callable[[], None] | None = None) -> "asyncio.Future[None]":
    """Get what is done when the call is over in whatever way; its cancellation is not of the call.

    It is for the one who waits in the event loop; ``on_ended`` is called in the thread anyway.
    It is done for every call, so it is less than :func:`asyncio.wrap_future` with a shield.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ended.done():
            ended.set_result(None)

    def on_done(_: Future[Any]) -> None:
        if on_ended is not None:
            on_ended()
        try:
            loop.call_soon_threadsafe(wake)
        except RuntimeError:
            pass  # the loop is closed: nobody waits

    call.add_done_callback(on_done)
    return ended
