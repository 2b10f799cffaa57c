"""Latches: they are set once in the event loop, while tasks and threads wait for them."""

import asyncio
import threading

from kopf_cogs.aiokits.surroundings import get_threads


class Latch:
    """An event that is never cleared. It costs little until a task or a thread waits for it."""

    __slots__ = ("_events", "_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._events: list[threading.Event] = []
        self._waiters: list[asyncio.Future[None]] = []

    def is_set(self) -> bool:
        return self._is_set

    @property
    def is_awaited(self) -> bool:
        """Whether any tasks or threads wait for it now."""
        return bool(self._waiters or self._events)

    def set(self) -> None:
        """Wake up all waiting tasks and threads. Only the loop's thread may call it."""
        self._is_set = True
        for event in list(self._events):
            event.set()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def wait_in_thread(self, timeout: float | None) -> bool:
        """Wait for ``timeout`` seconds, or for ever; return whether the latch is set."""
        # The order matters: either the event is noticed by `set()`, or the flag is noticed here.
        event = threading.Event()
        self._events.append(event)
        try:
            return self._is_set or get_threads().wait(event, timeout)
        finally:
            self._events.remove(event)

    async def wait_in_loop(self, timeout: float | None) -> bool:
        """Wait for ``timeout`` seconds, or for ever; return whether the latch is set."""
        if not self._is_set:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await asyncio.wait([waiter], timeout=timeout)
            finally:
                self._waiters.remove(waiter)
        return self._is_set
