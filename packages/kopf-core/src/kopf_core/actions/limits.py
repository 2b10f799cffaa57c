"""Limits of time: for one attempt of a handler, and for all of its attempts together.

Kopf cancels async functions. It cannot cancel functions in threads, so it names them in the log.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.loggers import AnyLogger

T = TypeVar("T")

GRACE = 5.0
"""In seconds: a function that runs for so long after its cancellation is named in the log."""

SETTING = "settings.execution.attempt_timeout"


class AttemptTimeoutError(Exception):
    """One attempt has taken too long. As any arbitrary error, it leads to a retry."""

    expected = True

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The attempt has taken more than {seconds:g} seconds ({SETTING}).")


def name_if_ignores(seconds: float, handler: BaseHandler, logger: AnyLogger) -> asyncio.TimerHandle:
    """Name the function in the log if it ignores its cancellation, which happens after ``seconds``.

    Return the timer, which must be cancelled when the function ends.
    """
    return asyncio.get_running_loop().call_later(
        max(0.0, seconds) + GRACE,
        lambda: logger.warning(
            f"{handler} ignores its cancellation: it still works {GRACE:g} seconds after that."
        ),
    )


async def cancel_after(
    seconds: float, call: Awaitable[T], error: Exception, handler: BaseHandler, logger: AnyLogger
) -> T:
    """Wait for the call; after ``seconds``, cancel it, and raise the error.

    If the function ignores its cancellation, Kopf waits for it, and names it in the log.
    """
    naming = name_if_ignores(seconds, handler, logger)
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            result = await call
    except TimeoutError as e:
        if scope.expired():
            raise error from e
        raise
    finally:
        naming.cancel()
    if scope.expired():
        logger.warning(f"{handler} was cancelled by its time-out, but has swallowed that.")
    return result


async def name_after(
    seconds: float,
    call: Awaitable[T],
    handler: BaseHandler,
    logger: AnyLogger,
    on_timeout: Callable[[], None],
) -> T:
    """Wait for the end of a call in a thread; after ``seconds``, name its handler in the log."""

    def tell() -> None:
        on_timeout()
        logger.warning(
            f"{handler} still works after {seconds:g} seconds ({SETTING}). "
            f"Threads cannot be interrupted, so it is waited for."
        )

    timer = asyncio.get_running_loop().call_later(seconds, tell)
    try:
        return await call
    finally:
        timer.cancel()
