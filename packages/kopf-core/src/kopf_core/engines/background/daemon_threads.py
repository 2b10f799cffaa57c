"""The threads of synchronous daemons: apart from all other functions.

Daemons occupy their threads for hours. In a common pool, they would leave no threads for handlers,
and the operator would seem to do nothing.

The functions of timers return soon, so they share the threads with handlers. If they are so slow
that calls wait for the threads, Kopf logs that.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

from kopf_cogs.aiokits.surroundings import get_threads
from kopf_cogs.configs.execution import ExecutionSettings
from kopf_core.actions.errors import TemporaryError

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger("kopf.background")

PATIENCE = 10.0
"""How long (in seconds) a call can wait for a free worker before that is logged as an error."""


class DaemonThreads(Executor):
    """A new thread for every call. The process does not wait for these threads when it exits."""

    def __init__(self) -> None:
        self._counter = itertools.count(1)
        self._calls: set[Future[Any]] = set()

    @property
    def count(self) -> int:
        """The number of current calls."""
        return len(self._calls)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call the function in a thread; raise :class:`TemporaryError` if there can be no
        thread.
        """
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # threads cannot be cancelled after their start

        def call() -> None:
            try:
                result = fn(*args, **kwargs)
            except BaseException as e:
                future.set_exception(e)
            else:
                future.set_result(result)
            finally:
                self._calls.discard(future)

        self._calls.add(future)
        try:
            get_threads().start(call, name=f"kopf-daemon-{next(self._counter)}")
        except RuntimeError as e:
            self._calls.discard(future)
            raise TemporaryError(
                f"There are {self.count} threads of synchronous daemons already, and the system "
                f"does not let more of them start ({e}). Consider asynchronous daemons."
            ) from e
        return future


class WatchedExecutor(Executor):
    """The executor of handlers for timers: logs an error if they wait for too long.

    It logs the error once, as it affects the whole operator. It watches only one call at a time:
    all calls wait in the same queue.
    """

    def __init__(self, settings: ExecutionSettings) -> None:
        self._settings = settings
        self._watched: Future[Any] | None = None
        self._latest: Future[Any] | None = None

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future = self._settings.executor.submit(fn, *args, **kwargs)
        self._latest = future
        if self._watched is None:
            self._watch(future)
        return future

    def _watch(self, future: Future[Any]) -> None:
        self._watched = future
        asyncio.get_running_loop().call_later(PATIENCE, self._check, future)

    def _check(self, future: Future[Any]) -> None:
        if not _is_started(future):
            self._report()  # and it remains as if it was watched for ever
        elif self._latest is None or _is_started(self._latest):
            self._watched = self._latest = None
        else:
            self._watch(self._latest)

    def _report(self) -> None:
        limit = get_limit(self._settings.executor) or "the"
        logger.error(
            f"A synchronous timer has been waiting for a free worker for {PATIENCE:.0f} seconds: "
            f"all {limit} workers of the executor are busy, so synchronous handlers have to wait, "
            f"too. Either raise the limit (settings.execution.max_workers), "
            f"or make the timers faster or asynchronous."
        )


def _is_started(future: Future[Any]) -> bool:
    return future.running() or future.done()


def get_limit(executor: Executor) -> int | None:
    """The number of workers, if it is known: executors of users can be of any class."""
    limit = getattr(executor, "max_workers", None) or getattr(executor, "_max_workers", None)
    return limit if isinstance(limit, int) else None


class DaemonExecutors:
    """The choice of executors for synchronous daemons and timers.

    If the user has set the executor or its limit, Kopf uses that. If daemons then occupy all its
    threads, Kopf logs an error: once, as it affects the whole operator.
    """

    def __init__(self, settings: ExecutionSettings) -> None:
        self._settings = settings
        self._threads = DaemonThreads()
        self._shared = 0
        self._is_reported = False
        self.for_timers = WatchedExecutor(settings)

    def acquire(self) -> Executor:
        """Choose the executor for one more daemon; it must be released when the daemon ends."""
        if not self._settings.is_customized:
            return self._threads
        executor = self._settings.executor
        limit = get_limit(executor)
        self._shared += 1
        if limit is not None and self._shared >= limit and not self._is_reported:
            self._is_reported = True
            logger.error(
                f"All {limit} workers of the executor are occupied by synchronous daemons: neither "
                f"other daemons nor synchronous handlers can run. Either raise the limit "
                f"(settings.execution.max_workers={limit}), or make the daemons asynchronous, "
                f"or leave the executor unset: then, the daemons have threads of their own."
            )
        return executor

    def release(self, executor: Executor) -> None:
        if executor is not self._threads:
            self._shared -= 1
