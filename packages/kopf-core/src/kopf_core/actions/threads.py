"""The door that all calls and patches pass at the last moment; and waiting for threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class TakenBack(asyncio.CancelledError):
    """A call or a patch that has not begun: nothing was called or sent. The text says why."""


class Door:
    """Decides whether calls and patches may begin now; it is asked right before they begin.

    The governor shuts the door, e.g. for a pause. The door is also shut while any of its guards
    forbids to act. E.g. a guard looks at the clock, as a suspended process has missed all other
    signs. The guards are called in the event loop and in threads.

    The door remembers the calls that were given to executors, until they end. Executors can belong
    to users, so their queues are unknown.
    """

    def __init__(self, *guards: Callable[[], bool]) -> None:
        self._guards = guards
        self._futures: dict[Future[Any], None] = {}  # in the order of their submission
        self.is_shut = False

    @property
    def is_open(self) -> bool:
        if self.is_shut:
            return False
        for may_act in self._guards:  # noqa: SIM110 -- it runs several times for each object
            if not may_act():
                return False
        return True

    def add_guard(self, may_act: Callable[[], bool]) -> None:
        """Let this guard decide, too."""
        self._guards = (*self._guards, may_act)

    def check(self) -> None:
        """Raise :class:`TakenBack` if the door is not open."""
        if not self.is_open:
            raise TakenBack("the operator is paused, or does not lead (anymore)")

    def __len__(self) -> int:
        return len(self._futures)

    def watch(self, executor: Executor) -> Executor:
        """The same executor, but this door remembers its calls."""
        return _Watched(executor, self._futures)

    def take_back(self) -> None:
        """Cancel the calls that wait for a thread. Running calls are not affected."""
        for future in list(self._futures):
            future.cancel()


class _Watched(Executor):
    def __init__(self, executor: Executor, futures: dict[Future[Any], None]) -> None:
        self._executor = executor
        self._futures = futures

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future = self._executor.submit(fn, *args, **kwargs)
        self._futures[future] = None
        future.add_done_callback(self._futures.pop)
        return future


def follow(call: Future[Any], on_ended: Callable[[], None] | None = None) -> "asyncio.Future[None]":
    """A future that is done when the call ends in any way; cancelling it does not cancel the call.

    It is for a waiter in the event loop. ``on_ended`` is called in the thread in any case. This
    function runs for every call, so it does less than :func:`asyncio.wrap_future` with a shield.
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
            pass  # the loop is closed: no task waits

    call.add_done_callback(on_done)
    return ended
