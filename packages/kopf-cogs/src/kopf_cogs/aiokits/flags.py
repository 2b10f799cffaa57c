"""Flags of the embedding applications: to stop the operator, or to learn that it is ready.

The applications can have loops of their own, or threads, or nothing, hence four types of flags.
"""

import asyncio
import concurrent.futures
import functools
import threading
from typing import Any, TypeAlias

from kopf_cogs.aiokits.surroundings import get_threads

Flag: TypeAlias = (
    asyncio.Event | threading.Event | asyncio.Future[Any] | concurrent.futures.Future[Any]
)
"""Anything that can be raised once and awaited: an event or a future, of asyncio or of threads."""

# How soon the helper thread notices that no task waits for the flag anymore.
_THREAD_POLLING_INTERVAL = 0.5


def raise_flag(flag: Flag | None) -> None:
    """Raise the flag: set the event, or resolve the future with ``None``. Idempotent."""
    match flag:
        case None:
            pass
        case asyncio.Event() | threading.Event():
            flag.set()
        case _:
            if not flag.done():
                flag.set_result(None)


async def wait_flag(flag: Flag | None) -> Any:
    """Wait until the flag is raised. Return the result if it is a future, or ``True`` if an event.

    The wait can be cancelled without affecting the flag. With no flag, the wait never ends.
    """
    match flag:
        case None:
            return await asyncio.get_running_loop().create_future()
        case asyncio.Event():
            return await flag.wait()
        case threading.Event():
            return await _wait_thread_event(flag)
        case concurrent.futures.Future():
            return await asyncio.shield(asyncio.wrap_future(flag))
        case _:
            return await asyncio.shield(flag)


async def _wait_thread_event(event: threading.Event) -> bool:
    """Wait in a thread of its own: the loop's executor can be busy, and it is joined at exit."""
    if event.is_set():
        return True
    loop = asyncio.get_running_loop()
    future: asyncio.Future[bool] = loop.create_future()
    abandoned = threading.Event()
    target = functools.partial(_watch_thread_event, event, abandoned, loop, future)
    get_threads().start(target, name="kopf-flag")
    try:
        return await future
    finally:
        abandoned.set()


def _watch_thread_event(
    event: threading.Event,
    abandoned: threading.Event,
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[bool],
) -> None:
    while not abandoned.is_set():
        if event.wait(_THREAD_POLLING_INTERVAL):
            try:
                loop.call_soon_threadsafe(_resolve, future)
            except RuntimeError:
                pass  # the loop is closed: there is no task to notify
            return


def _resolve(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(True)
