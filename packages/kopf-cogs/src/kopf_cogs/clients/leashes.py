"""Leashes: what threads wait for is ended when nobody needs it anymore.

Threads cannot be interrupted. But when the programs they wait for are killed, the threads end, too.
"""

import atexit
import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar

End = Callable[[], None]


class _Leash:
    """What is going on for one purpose, in whichever threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: set[End] | None = set()

    def add(self, end: End) -> None:
        with self._lock:
            if self._ends is not None:
                self._ends.add(end)
                return
        end()  # it is too late

    def discard(self, end: End) -> None:
        with self._lock:
            if self._ends is not None:
                self._ends.discard(end)

    def pull(self) -> None:
        with self._lock:
            ends, self._ends = self._ends, None
        for end in ends or ():
            end()


_leash: ContextVar[_Leash | None] = ContextVar("leash", default=None)


@contextlib.contextmanager
def leashed() -> Iterator[None]:
    """Let nothing outlive this block of what is held in it, also in its tasks and threads.

    The threads must be started with the context of the block, as :func:`asyncio.to_thread` does.
    """
    leash = _Leash()
    token = _leash.set(leash)
    try:
        yield
    finally:
        _leash.reset(token)
        leash.pull()


@contextlib.contextmanager
def held(end: End) -> Iterator[None]:
    """Have it ended if it goes on when the leash is pulled, or when the process exits.

    ``end`` is called in another thread, maybe at the same moment when it ends by itself.
    """
    leash = _leash.get()
    atexit.register(end)  # threads are not waited for when the operator's process exits
    if leash is not None:
        leash.add(end)
    try:
        yield
    finally:
        atexit.unregister(end)
        if leash is not None:
            leash.discard(end)
