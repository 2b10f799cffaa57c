"""The source of threads, and the way they wait. Simulations can replace both."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from kopf_cogs.aiokits.pools import DaemonPool, LoneThread


class Threads(Protocol):
    """Runs functions outside of the event loop. It must not hold the exit of the process."""

    def start(self, fn: Callable[[], None], *, name: str) -> None:
        """Call the function in a new thread. Raises :class:`RuntimeError` if there can be none."""

    def make_pool(self, max_workers: int | None = None, *, name: str) -> Executor:
        """Make a pool of threads which are started when they are needed."""

    def repeat(self, fn: Callable[[], object], *, period: float, name: str) -> Callable[[], None]:
        """Call the function every ``period`` seconds in a thread; return the way to stop."""

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Wait in such a thread until the event is set; return whether it is."""


class SystemThreads:
    """The threads of this process. It does not wait for any of them when it exits."""

    __slots__ = ()

    def start(self, fn: Callable[[], None], *, name: str) -> None:
        LoneThread(fn, name=name).start()

    def make_pool(self, max_workers: int | None = None, *, name: str) -> Executor:
        return DaemonPool(max_workers, name=name)

    def repeat(self, fn: Callable[[], object], *, period: float, name: str) -> Callable[[], None]:
        stopped = threading.Event()

        def run() -> None:
            while not stopped.wait(period):
                fn()

        self.start(run, name=name)
        return stopped.set

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        return event.wait(timeout)
