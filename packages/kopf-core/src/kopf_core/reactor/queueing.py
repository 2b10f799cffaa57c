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
from dataclasses import dataclass
from typing import Any

from kopf_cogs.structs.bodies import RawBody, RawEvent, RawEventType
from kopf_cogs.structs.keys import ObjectKey
from kopf_core.engines.memories import is_as_new

logger = logging.getLogger("kopf.reactor.queueing")


@dataclass(frozen=True, slots=True)
class Again:
    """What comes next for the object: to be processed again, even if nothing happens to it."""

    after: float
    """In seconds from now."""

    is_held: bool = False
    """Whether to wait for that time even if something happens to it before."""


class Slot:
    """The place of one object in the queue."""

    __slots__ = (
        "_deadline",
        "_expected",
        "_timer",
        "events",
        "is_held",
        "is_waiting",
        "is_woken",
        "key",
        "latest",
        "task",
        "type",
    )

    def __init__(self, key: ObjectKey) -> None:
        self.key = key
        self.events: deque[RawEvent] = deque()
        self.latest: RawBody | None = None
        """The newest known state of the object: streamed or returned from our own patch."""

        self.type: RawEventType = None
        """How that state has come."""

        self.task: asyncio.Task[None] | None = None
        self.is_waiting = False
        """There is work for it, but it cannot be started right now."""

        self.is_held = False
        """It is not to be processed until its time comes, whatever happens to it."""

        self.is_woken = False
        """To be processed once more: something has happened while it was being processed."""

        self._timer: asyncio.TimerHandle | None = None
        self._expected: str | None = None
        self._deadline = 0.0

    def expect(self, version: str | None, deadline: float = 0.0) -> None:
        """The state is inconsistent until our own patch comes back, or the deadline passes."""
        self._expected = version
        self._deadline = deadline

    def notice(self, body: RawBody) -> None:
        """A state has come from the stream: maybe, this is the one we waited for."""
        if self._expected is not None and (
            body["metadata"].get("resourceVersion") == self._expected
            or is_as_new(body, self._expected)
        ):
            self._expected = None

    def inconsistent_for(self, now: float) -> float:
        """For how long to wait until the state can be relied on; zero if it can be now."""
        return 0.0 if self._expected is None else max(0.0, self._deadline - now)

    def set_timer(self, timer: asyncio.TimerHandle | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer


Process = Callable[[Slot], Awaitable[Again | None]]


class WorkQueue:
    """The queue of one stream of events.

    ``process`` is called for a slot when there are events in it, or when its time has come.
    It takes all the events away, and never raises. Nothing is processed until the queue is opened.
    """

    def __init__(self, process: Process, *, limit: int | None = None) -> None:
        self._process = process
        self._limit = limit
        self._slots: dict[ObjectKey, Slot] = {}
        self._waiting: deque[Slot] = deque()
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
            slot = self._slots[key] = Slot(key)
        slot.events.append(event)
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
            slot.events.clear()
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

    def _start(self, slot: Slot) -> None:
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

    async def _work(self, slot: Slot) -> None:
        again: Again | None = None
        try:
            while True:
                slot.is_woken = False
                again = await self._process(slot)
                if not (slot.events or slot.is_woken) or not self._is_open:
                    break
                if again is not None and again.is_held:
                    break
        except asyncio.CancelledError:
            pass  # only when the queue is being closed
        except Exception as e:
            logger.error(f"The processing of {slot.key} has failed: {e!r}", exc_info=e)
        finally:
            slot.task = None
            self._running -= 1
            if not self._running:
                self._idle.set()
        self._settle(slot, again)
        self._start_waiting()

    def _settle(self, slot: Slot, again: Again | None) -> None:
        if not self._is_open:
            return
        if again is not None and (again.is_held or not slot.events):
            slot.is_held = again.is_held
            loop = asyncio.get_running_loop()
            slot.set_timer(loop.call_later(again.after, self._release, slot))
        elif slot.events:  # those left after a failure
            self._start(slot)
        else:
            self._slots.pop(slot.key, None)

    def _release(self, slot: Slot) -> None:
        slot.is_held = False
        self._start(slot)


def summarize(queue: WorkQueue) -> dict[str, Any]:
    """The figures of the queue, for probes and debugging."""
    return {"objects": len(queue), "running": queue._running, "waiting": len(queue._waiting)}
