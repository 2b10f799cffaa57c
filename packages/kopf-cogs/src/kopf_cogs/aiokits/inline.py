"""Work of threads where there are none, e.g. in browsers: the event loop does it itself."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

from kopf_cogs.aiokits.pools import run_into

P = ParamSpec("P")
T = TypeVar("T")

POLLING = 0.02
"""In seconds: how often a suspended function checks the event that it waits for."""


class InlineThreads:
    """The event loop calls the functions for threads, between its other callbacks.

    Nothing else runs during such a call. So the functions must not wait for events of the loop,
    unless ``suspend`` is given: it lets the loop go on until the awaitable is done.
    """

    def __init__(self, suspend: Callable[[Awaitable[Any]], Any] | None = None) -> None:
        self._suspend = suspend

    def start(self, fn: Callable[[], None], *, name: str) -> None:
        """Call the function in the next turn of the loop."""
        asyncio.get_running_loop().call_soon(fn)

    def make_pool(self, max_workers: int | None = None, *, name: str) -> Executor:
        """Make a pool that calls its functions in the next turns of the loop, one by one."""
        return InlinePool()

    def repeat(self, fn: Callable[[], object], *, period: float, name: str) -> Callable[[], None]:
        """Call the function every ``period`` seconds; return a function to stop that."""
        loop = asyncio.get_running_loop()
        handle = loop.call_later(period, lambda: run())

        def run() -> None:
            nonlocal handle
            fn()
            handle = loop.call_later(period, run)

        return lambda: handle.cancel()

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Wait until the event is set; return whether it is.

        Raises :class:`RuntimeError` if functions cannot be suspended here.
        """
        if self._suspend is None:
            raise RuntimeError("There are no threads here, and nothing can wait: use `async def`.")
        self._suspend(_poll(event, timeout))
        return event.is_set()


class InlinePool(Executor):
    """A pool with no threads. ``max_workers`` makes no sense: there is one caller only."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Call the function in the next turn of the loop."""
        future: Future[T] = Future()
        call = partial(fn, *args, **kwargs)
        asyncio.get_running_loop().call_soon(run_into, future, call)
        return future


async def _poll(event: threading.Event, timeout: float | None) -> None:
    loop = asyncio.get_running_loop()
    end = float("inf") if timeout is None else loop.time() + timeout
    while not event.is_set() and loop.time() < end:  # noqa: ASYNC110 (not an event of the loop)
        await asyncio.sleep(min(POLLING, end - loop.time()))
