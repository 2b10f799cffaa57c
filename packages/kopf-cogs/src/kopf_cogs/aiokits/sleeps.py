"""Sleeping that can be interrupted without being cancelled."""

import asyncio

# Event loops convert delays to C integers of various sizes; a year is as good as forever.
_LONGEST_SLEEP = 366 * 24 * 60 * 60.0


async def sleep(delay: float | None, wakeup: asyncio.Event | None = None) -> float | None:
    """Sleep for ``delay`` seconds, or less if the ``wakeup`` event is set earlier.

    Return ``None`` if slept in full, or the unslept remainder in seconds if woken up.
    The event is not cleared. ``None``, zero, negative, and not-a-number delays do not sleep,
    but let other tasks run. An infinite delay with no event to wake it up sleeps for a year.
    """
    if delay is None or not delay > 0:
        await asyncio.sleep(0)
        return None
    delay = min(delay, _LONGEST_SLEEP)
    if wakeup is None:
        await asyncio.sleep(delay)
        return None
    if wakeup.is_set():
        return delay
    loop = asyncio.get_running_loop()
    deadline = loop.time() + delay
    try:
        async with asyncio.timeout_at(deadline):
            await wakeup.wait()
    except TimeoutError:
        return None
    return max(0.0, deadline - loop.time())
