"""Waiting for work that must not be interrupted halfway."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def endure(work: Awaitable[T], *, give_up: Callable[[], bool] = lambda: False) -> T:
    """Wait for the work to end; only the second cancellation interrupts it.

    The first one is put off, and is not raised when the work ends: the caller can see it
    by ``task.cancelling()``. It is for threads, which cannot be interrupted anyway, and for
    requests, the outcome of which would be unknown. If the work has not begun yet, there is
    nothing to wait for: ``give_up`` prevents the work then, and says whether it did.
    """
    future = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if future.cancelled() or give_up():
            raise
    return await future
