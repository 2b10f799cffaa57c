"""Leashes: they end the programs that threads wait for, when the results are not needed anymore.

Threads cannot be interrupted. But when the programs they wait for are killed, the threads end, too.
"""

import atexit
import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
End = Callable[[], None]


class LeashPulledError(Exception):
    """The program is not started, as its result is not needed anymore."""


class _Leash:
    """The programs that run for one purpose, in any threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: set[End] | None = set()

    def start(self, start: Callable[[], T], end: Callable[[T], None]) -> tuple[T, End]:
        """Start the program, and remember how to end it; ``pull()`` cannot come in between."""
        with self._lock:
            if self._ends is None:
                raise LeashPulledError
            started = start()
            bound = functools.partial(end, started)
            self._ends.add(bound)
        return started, bound

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
"""Set around login handlers and renewals: exec plugins run inside, deep in users' code."""


@contextlib.contextmanager
def leashed() -> Iterator[None]:
    """End all programs that this block has started, also in its tasks and threads, with the block.

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
def held(start: Callable[[], T], end: Callable[[T], None]) -> Iterator[T]:
    """Start the program; end it when the leash is pulled, or when the process exits.

    ``end`` is called in another thread, maybe at the same moment when the program ends.
    Raises :class:`LeashPulledError` if it is too late to start.
    """
    leash = _leash.get() or _Leash()
    started, bound = leash.start(start, end)
    atexit.register(bound)  # threads are not waited for when the operator's process exits
    try:
        yield started
    finally:
        atexit.unregister(bound)
        leash.discard(bound)
