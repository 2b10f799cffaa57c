"""Threads for what must neither block the event loop nor wait for anything else in threads."""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Threads(Protocol):
    """Where threads come from, so that tests and simulations can put their own in their place."""

    def repeat(self, fn: Callable[[], object], *, period: float, name: str) -> Callable[[], None]:
        """Call the function every ``period`` seconds in a thread; get what stops that."""


class SystemThreads:
    """The threads of this process. It does not wait for any of them when it exits."""

    __slots__ = ()

    def repeat(self, fn: Callable[[], object], *, period: float, name: str) -> Callable[[], None]:
        stopped = threading.Event()

        def run() -> None:
            while not stopped.wait(period):
                fn()

        threading.Thread(target=run, name=name, daemon=True).start()
        return stopped.set


async def call_in_thread(fn: Callable[[], T], *, name: str) -> T:
    """Call the function in a new thread of its own, and return what it returns, or raise its error.

    It has the context variables of the caller.
    If cancelled, the function goes on, and its outcome is ignored; it does not hold the process.
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
        with contextlib.suppress(RuntimeError):  # the loop is closed, nobody waits
            loop.call_soon_threadsafe(settle, *outcome)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name=name, daemon=True).start()
    result, error = await future
    if error is not None:
        raise error
    return result  # type: ignore[return-value]
