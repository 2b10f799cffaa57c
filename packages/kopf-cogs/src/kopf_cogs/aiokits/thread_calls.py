"""Threads for functions that must neither block the event loop, nor wait for a free thread."""

import asyncio
import contextlib
import contextvars
import functools
from collections.abc import Callable
from typing import TypeVar

from kopf_cogs.aiokits.surroundings import get_threads

T = TypeVar("T")


async def call_in_thread(fn: Callable[[], T], *, name: str) -> T:
    """Call the function in a new thread of its own, and return what it returns, or raise its error.

    The function has the context variables of the caller. If the caller is cancelled, the function
    goes on, and its outcome is ignored. It does not hold the exit of the process.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if not future.done():
            future.set_result((result, error))

    def run() -> None:
        try:
            outcome: tuple[T | None, BaseException | None] = fn(), None
        except BaseException as e:
            outcome = None, e
        with contextlib.suppress(RuntimeError):  # the loop is closed, no task waits
            loop.call_soon_threadsafe(settle, *outcome)

    context = contextvars.copy_context()
    get_threads().start(functools.partial(context.run, run), name=name)
    result, error = await future
    if error is not None:
        raise error
    return result  # type: ignore[return-value]
