"""Waiting for what is better not to be interrupted halfway."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def endure(work: Awaitable[T]) -> T:
    """Wait for the work to end; only the second cancellation interrupts it.

    The first one is put off, and is not raised when the work ends: what follows can see it
    by ``task.cancelling()``. It is for threads, which cannot be interrupted anyway, and for
    requests, the outcome of which would be unknown.
    """
    future = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if future.cancelled():
            raise
    return await future
