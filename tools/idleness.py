"""Waiting in tests without sleeping: until something is so, or until nothing goes on anymore.

Operators, clients, and servers of a test live in one event loop. Whatever changes there is changed
by the loop itself, so it is enough to look anew when the loop has done all that it could.
What others do, such as threads and processes, is noticed when they tell the loop of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 30.0
"""For how long (in seconds) to wait for what never comes. No test that succeeds waits for it."""


class Idleness:
    """Knows when a loop is idle: it is going to sleep until a timer, or until something comes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._selector: Any = loop._selector  # type: ignore[attr-defined]
        self._select = self._selector.select
        self._selector.select = self._watch
        self._waiters: list[asyncio.Future[None]] = []
        self._is_news = True

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> Idleness:
        """The only one for the loop."""
        watch = getattr(loop._selector.select, "__self__", None)  # type: ignore[attr-defined]
        return watch if isinstance(watch, Idleness) else cls(loop)

    async def wait(self) -> None:
        """Wait until the loop is idle, after something has happened since the latest time."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _watch(self, timeout: float | None = None) -> Any:
        events = self._select(0)
        if events or timeout == 0:
            self._is_news = True
            return events
        if self._is_news and self._waiters:
            self._is_news = False
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            return events
        events = self._select(timeout)
        self._is_news = True
        return events


async def quiet() -> None:
    """Wait until there is nothing to do for anybody in the loop until the next timer."""
    await Idleness.of(asyncio.get_running_loop()).wait()


async def until(check: Callable[[], object | Awaitable[object]]) -> Any:
    """Wait until it is so, and get the result. The check can be a coroutine function."""
    idleness = Idleness.of(asyncio.get_running_loop())
    async with asyncio.timeout(PATIENCE):
        while True:
            result = check()
            if asyncio.iscoroutine(result):
                result = await result
            if result:
                return result
            await idleness.wait()
