"""Threads for functions that can hang: they never hold the exit of the interpreter."""

import itertools
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import ContextVar
from functools import partial
from typing import Any, ParamSpec, TypeVar

from kopf_cogs.helpers.lines import FairLine

P = ParamSpec("P")
T = TypeVar("T")

group_var: ContextVar[str | None] = ContextVar("kopf_group", default=None)
"""The namespace for which a function is given to a pool: executors have no room for parameters."""


class LoneThread(threading.Thread):
    """A daemon thread for users' functions; the threads that these functions start are no daemons.

    Threads inherit this flag from the thread that makes them. The interpreter must not wait for
    functions that hang, but it waits for the threads of users, as it does everywhere.
    """

    def __init__(self, target: Callable[[], None], *, name: str) -> None:
        super().__init__(target=target, name=name, daemon=True)
        self._is_working = False

    @property
    def daemon(self) -> bool:
        """True for other threads, but false for the functions in this thread."""
        return not (self._is_working and threading.get_ident() == self.ident)

    @daemon.setter
    def daemon(self, _: bool) -> None:
        raise RuntimeError("The threads of users' functions are always daemons for others.")

    def run(self) -> None:
        self._is_working = True
        try:
            super().run()
        finally:
            self._is_working = False


_Job = tuple["Future[Any]", Callable[[], Any]]


class DaemonPool(Executor):
    """A bounded pool of threads, started when they are needed.

    Namespaces get threads in turns: many functions for one namespace do not hold up others.

    Unlike with the pool of the standard library, the interpreter does not wait for these threads
    when it exits. So a function that never returns does not keep the process alive for ever.
    """

    def __init__(self, max_workers: int | None = None, *, name: str) -> None:
        self.max_workers = max_workers or min(32, (os.cpu_count() or 1) + 4)
        """How many functions run at once. If raised later, more threads are started."""

        self._name = name
        self._counter = itertools.count()
        self._lock = threading.Lock()
        self._line: FairLine[_Job] = FairLine()  # only with the lock
        self._jobs: queue.SimpleQueue[bool] = queue.SimpleQueue()  # one for each job in the line
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Call the function in one of the threads, as soon as there is a free one."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError(f"The pool of threads {self._name!r} is closed.")
            future: Future[T] = Future()
            self._line.put((future, partial(fn, *args, **kwargs)), group_var.get())
            self._jobs.put(True)
            if not self._idle.acquire(blocking=False) and len(self._threads) < self.max_workers:
                name = f"{self._name}_{next(self._counter)}"
                thread = LoneThread(self._work, name=name)
                self._threads.append(thread)
                thread.start()
            return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more functions, and let the threads end after the functions in the line."""
        with self._lock:
            self._is_closed = True
            while cancel_futures and self._line:
                self._line.take()[0].cancel()
            self._jobs.put(False)
        if wait:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while self._wait():
            job = self._take()
            if job is not None:
                run_into(*job)
            del job  # do not hold it until the next job comes
        self._jobs.put(False)  # for the other threads

    def _wait(self) -> bool:
        """Wait for a function; return false if the pool is closed and has no more of them."""
        try:
            return self._jobs.get_nowait()
        except queue.Empty:
            self._idle.release()
            return self._jobs.get()

    def _take(self) -> _Job | None:
        with self._lock:
            return self._line.take() if self._line else None


def run_into(future: "Future[Any]", fn: Callable[[], Any]) -> None:
    """Call the function, and put its outcome into the future, unless the future is cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = fn()
    except BaseException as e:
        future.set_exception(e)
    else:
        future.set_result(result)
