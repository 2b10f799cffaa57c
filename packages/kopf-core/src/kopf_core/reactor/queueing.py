"""The work queue: events of every object in order, objects independently of each other.

Unlike the work queues of client-go, which hold only the keys of objects and so merge the events,
this one holds the events: low-level handlers are promised every single one of them.
The change handlers see only the newest state nevertheless.

There is a task only for an object that is being worked on. An object that waits for its time
costs a timer in the event loop; an object that waits for nothing costs nothing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from kopf_cogs.aiokits.clocks import Clock, SystemClock
from kopf_cogs.structs.bodies import RawEvent
from kopf_cogs.structs.keys import ObjectKey
from kopf_core.reactor.work import DONE, Done, Requeue, TurnResult, WorkItem

logger = logging.getLogger("kopf.reactor.queueing")


class _Slot:
    """The place of one object in the queue."""

    __slots__ = ("_timer", "is_held", "is_waiting", "is_woken", "item", "task")

    def __init__(self, key: ObjectKey) -> None:
        self.item = WorkItem(key)
        self.task: asyncio.Task[None] | None = None
        self.is_waiting = False
        """There is work for it, but it cannot be started right now."""

        self.is_held = False
        """It is not to be processed until its time comes, whatever happens to it."""

        self.is_woken = False
        """To be processed once more: something has happened while it was being processed."""

        self._timer: asyncio.TimerHandle | None = None

    def set_timer(self, timer: asyncio.TimerHandle | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer


Process = Callable[[WorkItem], Awaitable[TurnResult]]


class WorkQueue:
    """The queue of one stream of events.

    ``process`` is called for a slot when there are events in it, or when its time has come.
    It takes all the events away, and never raises. Nothing is processed until the queue is opened.
    """

    def __init__(
        self,
        process: Process,
        *,
        limit: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._process = process
        self._clock = clock or SystemClock()
        self._limit = limit
        self._slots: dict[ObjectKey, _Slot] = {}
        self._waiting: deque[_Slot] = deque()
        self._running = 0
        self._is_open = False
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._slots)

    def put(self, key: ObjectKey, event: RawEvent) -> None:
        """Take an event. The object's worker gets it when it is done with the earlier ones."""
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = _Slot(key)
        slot.item.events.append(event)
        self._start(slot)

    def wake(self, key: ObjectKey) -> None:
        """Process the object again though nothing has happened to it in the cluster."""
        slot = self._slots.get(key)
        if slot is not None:
            slot.is_woken = True
            self._start(slot)

    def open(self) -> None:
        """Start processing what is there already, and what comes later."""
        self._is_open = True
        self._start_waiting()

    def clear(self) -> None:
        """Forget all the events and timers, e.g. because everything is going to be listed anew."""
        for slot in self._slots.values():
            slot.set_timer(None)
            slot.item.events.clear()
            slot.is_waiting = slot.is_held = False
        self._slots.clear()
        self._waiting.clear()

    async def close(self, timeout: float) -> None:
        """Take no more work, wait for the current one to finish, and cancel what does not."""
        self._is_open = False
        for slot in self._slots.values():
            slot.set_timer(None)
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            tasks = self.abort()
            await asyncio.wait(tasks, timeout=timeout)
            if self._running:
                logger.warning(f"{self._running} objects are still being processed; left as is.")

    def abort(self) -> Collection[asyncio.Task[None]]:
        """Take no more work, and cancel the current one; get the tasks that are to end."""
        self._is_open = False
        tasks = [slot.task for slot in self._slots.values() if slot.task is not None]
        for task in tasks:
            task.cancel()
        return tasks

    def _start(self, slot: _Slot) -> None:
        if slot.task is not None or slot.is_waiting or slot.is_held:
            return
        slot.set_timer(None)
        if self._can_start():
            self._running += 1
            self._idle.clear()
            slot.task = asyncio.create_task(self._work(slot))
        else:
            slot.is_waiting = True
            self._waiting.append(slot)

    def _can_start(self) -> bool:
        return self._is_open and (self._limit is None or self._running < self._limit)

    def _start_waiting(self) -> None:
        while self._waiting and self._can_start():
            slot = self._waiting.popleft()
            slot.is_waiting = False
            self._start(slot)

    async def _work(self, slot: _Slot) -> None:
        result: TurnResult = DONE
        try:
            while True:
                slot.is_woken = False
                result = await self._process(slot.item)
                if not (slot.item.events or slot.is_woken) or not self._is_open:
                    break
                if isinstance(result, Requeue) and result.is_held:
                    break
        except asyncio.CancelledError:
            pass  # only when the queue is being closed
        except Exception as e:
            logger.error(f"The processing of {slot.item.key} has failed: {e!r}", exc_info=e)
        finally:
            slot.task = None
            self._running -= 1
            if not self._running:
                self._idle.set()
        self._settle(slot, result)
        self._start_waiting()

    def _settle(self, slot: _Slot, result: TurnResult) -> None:
        if not self._is_open:
            return
        is_held = isinstance(result, Requeue) and result.is_held
        if not isinstance(result, Done) and (is_held or not slot.item.events):
            slot.is_held = is_held
            at = result.at if isinstance(result, Requeue) else result.until
            delay = max(0.0, at - self._clock.monotonic())
            slot.set_timer(asyncio.get_running_loop().call_later(delay, self._release, slot))
        elif slot.item.events:  # those left after a failure
            self._start(slot)
        else:
            self._slots.pop(slot.item.key, None)

    def _release(self, slot: _Slot) -> None:
        slot.is_held = False
        self._start(slot)


def summarize(queue: WorkQueue) -> dict[str, Any]:
    """The figures of the queue, for probes and debugging."""
    return {"objects": len(queue), "running": queue._running, "waiting": len(queue._waiting)}
