"""Where there are no threads, e.g. in browsers: the event loop does their work itself."""

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
"""In seconds: how often a suspended function looks if what it waits for has happened."""


class InlineThreads:
    """Functions for threads are called by the event loop, between other things.

    Nothing else works while they do. So they must not wait for anything that happens in the loop,
    unless this place can suspend them: ``suspend`` lets the loop go on until the awaitable is done.
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
        """Call the function every ``period`` seconds; get what stops that."""
        loop = asyncio.get_running_loop()
        handle = loop.call_later(period, lambda: run())

        def run() -> None:
            nonlocal handle
            fn()
            handle = loop.call_later(period, run)

        return lambda: handle.cancel()

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Wait until the event is set; get whether it is.

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
