"""The work queue: the objects that need work, one turn after another.

As the work queues of client-go, it holds the keys of objects, each with the newest state only. All
that happens to an object while it waits, is throttled, or has its turn, is one more turn. Unlike
those queues, it can also keep all events in order: for handlers of events, which get every single
one.

The places of workers are given back after every turn, so that busy objects starve no others.
Namespaces get places in turns, so that busy namespaces starve no others. Changes go before the
initial list. If there is no limit of workers, a few turns begin in each round of the event loop.
Otherwise, all of them would share its time, and each would be as late as the last one.

A task exists only for an object that has its turn. An object that waits for its time costs a timer
in the event loop. An object that waits for nothing costs nothing.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from functools import partial

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.aiokits.surroundings import get_clock
from kopf_cogs.structs.bodies import RawBody, RawEvent
from kopf_cogs.structs.keys import ObjectKey
from kopf_core.actions.threads import TakenBack
from kopf_core.engines.records.writes import AwaitChange
from kopf_core.reactor.streams.places import (
    BURST,
    PATIENCE,
    PORTION,
    WORKING_PATIENCE,
    Backlog,
    Gate,
    Line,
    Occupancy,
)
from kopf_core.reactor.streams.work import (
    DONE,
    LAST_MOMENT,
    Lookup,
    Position,
    Process,
    Requeue,
    TurnResult,
    WorkItem,
)

logger = logging.getLogger("kopf._core.reactor.queueing")

FAILURE_DELAY = 1.0
"""How soon (in seconds) to repeat a turn that was cancelled from outside of the operator."""


class WorkQueue:
    """The queue of one stream of events.

    ``process`` makes a turn, and never raises: it takes all events from the item, and returns what
    the object waits for. No turn begins until the queue is opened. ``lookup`` finds the state of an
    object that is enqueued without events. ``forget`` forgets a deleted object if it has had no
    turn: then its deletion needs no turn, either. ``absorb`` takes an event if the object waits
    only for it, and needs no turn for it.
    """

    def __init__(
        self,
        process: Process,
        *,
        limit: int | None = None,
        clock: Clock | None = None,
        keeps_events: bool = True,
        occupancy: Occupancy | None = None,
        lookup: Lookup | None = None,
        forget: Callable[[ObjectKey], bool] = lambda _: False,
        absorb: Callable[[WorkItem, RawEvent], bool] = lambda *_: False,
    ) -> None:
        self._process = process
        self._limit = limit
        self._burst = limit or BURST
        self._is_pacing = False
        self._clock = clock or get_clock()
        self._keeps_events = keeps_events
        self._occupancy = occupancy or Occupancy()
        self._lookup = lookup
        self._forget = forget
        self._absorb = absorb
        self._gate = Gate.SHUT
        self._items: dict[ObjectKey, WorkItem] = {}
        self._line = Line(self._clock)
        self.backlog = Backlog()
        self._working: dict[WorkItem, None] = {}  # in the order of their begins
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._items

    @property
    def items(self) -> Collection[WorkItem]:
        """All objects that need work, whether they can have turns now or not."""
        return self._items.values()

    @property
    def is_idle(self) -> bool:
        """Whether no object has its turn now."""
        return not self._working

    def is_busy(self, key: ObjectKey) -> bool:
        """Whether the object needs work, or has a turn that began before the queue was closed."""
        return key in self._items or any(item.key == key for item in self._working)

    def get(self, key: ObjectKey) -> WorkItem | None:
        """The item of the object, if it needs work."""
        return self._items.get(key)

    # Events and wishes.

    def put(self, key: ObjectKey, event: RawEvent) -> None:
        """Take an event of the object, and let the object have a turn when it is due."""
        if self._gate is Gate.CLOSED:
            return
        known = item = self._items.get(key)
        if item is None:
            item = self._items[key] = WorkItem(key, is_listed=event["type"] is None)
            if item.is_listed:
                self.backlog.enter(item)
        elif item.is_backlog and event["type"] is not None:
            self.backlog.leave(item)
            if item.position is Position.QUEUED:
                self._line_up(item)
        elif item.position is Position.DELAYED and self._absorb(item, event):
            return self._drop(item)
        is_paused = self._gate is Gate.PAUSED
        item.take(event, keep=self._keeps_events and not is_paused)
        if known is None or (is_paused and item.position is Position.QUEUED):
            self._line_up(item)
        elif item.position is Position.DELAYED or item.position is Position.HELD:
            self._reconsider(item)

    def enqueue(
        self,
        key: ObjectKey,
        reason: str,
        *,
        at: float | None = None,
        body: RawBody | None = None,
    ) -> bool:
        """Let the object have a turn without an event: now, or at that monotonic time.

        The turn uses the state known to the queue. If the object is not in the queue, it uses the
        given or the stored state. Return whether there is any state: without it, there is no turn.
        """
        item = self._items.get(key)
        if item is None:
            if body is None and self._lookup is not None:
                body = self._lookup(key)
            if body is None or self._gate is Gate.CLOSED:
                return False
            item = self._items[key] = WorkItem(key)
            item.latest, item.type = body, "MODIFIED"
        item.reasons |= {reason}
        if at is not None and at > self._clock.monotonic():
            self._schedule(item, at)
        else:
            item.generation += 1
            if item.position is Position.DELAYED or item.position is Position.HELD:
                self._reconsider(item)
        return True

    async def wait_for_headroom(self) -> None:
        """Wait until most listed objects have had their first turn, so that more can be listed.

        Objects that take long do not hold up the list for long. If no turns are made, the wait
        ends: the gate can be shut until the end of this very list.
        """
        while self.backlog.is_large and self._gate is Gate.OPEN:
            has_waiting = self._limit is not None and self._line.has_listed
            patience = PATIENCE if has_waiting else WORKING_PATIENCE
            if not await self.backlog.wait(patience):
                return

    # The gate.

    def reach(self, gate: Gate, *, forget: bool = False) -> None:
        """Take events and make turns as the gate says. This can be repeated, in any order of gates.

        With ``forget``, even the newest states in a paused queue are forgotten, as everything will
        be listed again. Deletions of known objects are never forgotten.
        """
        if self._gate is gate is Gate.OPEN:
            return
        self._gate = gate
        if gate is not Gate.OPEN:
            self._line.clear()
            self.backlog.wake()
        for item in list(self._items.values()):
            match gate:
                case Gate.OPEN if item.position is Position.QUEUED:
                    self._line_up(item)
                case Gate.PAUSED:
                    self._keep_newest(item, forget=forget)
                case Gate.CLOSED:
                    self._drop(item)

    def _keep_newest(self, item: WorkItem, *, forget: bool = False) -> None:
        while len(item.events) > 1:
            item.events.popleft()
        is_working = item.position is Position.WORKING
        if (not is_working and self._forget(item.key)) if item.is_deleted else forget:
            self._drop(item)

    async def close(self, timeout: float) -> None:
        """Take no more events, wait for the current turns to end, and cancel the slow ones.

        All other work is forgotten. The queue can be opened again when everything is listed again.
        """
        self.reach(Gate.CLOSED)
        await self.finish(timeout)

    async def exhaust(self, timeout: float) -> None:
        """Make the turns that are due, if the queue is open; for so many seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._gate is Gate.OPEN and (self._working or self._line):
                    await self._idle.wait()
                    await asyncio.sleep(0)  # other objects get their places meanwhile

    def leave(self, is_ours: Callable[[ObjectKey], bool]) -> Collection[WorkItem]:
        """Drop the objects that other processes handle now; return the ones still in work.

        Turns go on in a closed queue, too, though it has no items anymore.
        """
        for item in [item for item in self._items.values() if not is_ours(item.key)]:
            if item.position is not Position.WORKING:
                self._drop(item)
        return [item for item in self._working if not is_ours(item.key)]

    def cancel(self, items: Collection[WorkItem] | None = None) -> Collection[asyncio.Task[None]]:
        """Cancel the current turns, of all objects or of these; return their tasks."""
        chosen = self._working if items is None else {*items}
        working = (item for item in self._working if item in chosen)
        tasks = {item.task: item for item in working if item.task is not None}
        for task, item in tasks.items():
            item.interrupt(self._clock.monotonic())
            task.add_done_callback(partial(self._ensure_released, item))
        return tasks.keys()

    def _ensure_released(self, item: WorkItem, task: asyncio.Task[None]) -> None:
        """Release the item of a task that was cancelled before it has started.

        When a started task has ended, the item can have its next turn already: in another task.
        """
        if item.task is task:
            item.generation += 1
            self._release(item)

    async def finish(self, timeout: float) -> None:
        """Wait for the current turns, and cancel the slow ones, unless the queue is opened
        meanwhile.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            if self._gate is Gate.OPEN:
                return
            tasks = self.cancel()
            if tasks:  # there are none if they have ended at the same moment
                await asyncio.wait(tasks, timeout=max(timeout, LAST_MOMENT))
            if self._working:
                count = len(self._working)
                objects = "1 object is" if count == 1 else f"{count} objects are"
                logger.warning(f"{objects} still being processed; left as is.")

    # The stages.

    def _reconsider(self, item: WorkItem) -> None:
        """Something has happened to a waiting object: let it have a turn if it waits for that."""
        if self._is_due(item):
            if item.rest is not DONE and item.is_leaving:
                item.rest = DONE  # a deletion is never held
            if item.timer is not None:
                item.set_timer(None)
            self._line_up(item)

    def _is_due(self, item: WorkItem) -> bool:
        if item.rest is DONE or (item.events and (self._keeps_events or item.is_leaving)):
            return True
        match item.rest:
            case Requeue(is_held=True):
                return False
            case AwaitChange() as awaited if item.events and not item.reasons:
                return awaited.is_met_by(item.events[-1]["object"])
        return True

    def _line_up(self, item: WorkItem) -> None:
        """The object is ready for its turn: give it a place at once, or let it wait in the line."""
        item.position = Position.QUEUED
        if self._gate is not Gate.OPEN:
            if self._gate is Gate.PAUSED:
                self._keep_newest(item)
            return
        if len(self._working) < self._burst and not self._is_pacing:  # the line is empty
            self._start(item)
            return
        self._line.put(item)
        if self._limit is None and not self._is_pacing:
            self._is_pacing = True
            asyncio.get_running_loop().call_soon(self._pace)

    def _pace(self) -> None:
        """Without a limit, objects wait not for the ends of turns, but only for the event loop."""
        self._grant_places(len(self._working) + PORTION)
        self._is_pacing = len(self._line) > 0
        if self._is_pacing:
            asyncio.get_running_loop().call_soon(self._pace)

    def _grant_places(self, limit: int = 0) -> None:
        """Begin the turns of objects in the line, up to that number of turns at once, or more."""
        limit = max(limit, self._burst)
        if len(self._working) < limit:
            for item in self._line.take():
                self._start(item)
                if len(self._working) >= limit:
                    break

    def _start(self, item: WorkItem) -> None:
        if self._occupancy.enter(item, self._retry):
            item.position = Position.WORKING
            if not self._working:
                self._idle.clear()
            self._working[item] = None
            item.task = asyncio.create_task(self._work(item))

    def _retry(self, item: WorkItem) -> None:
        """The turn of the object in another queue has ended."""
        if item.position is Position.QUEUED:
            self._line_up(item)

    async def _work(self, item: WorkItem) -> None:
        """Make turns until no turn is due, or another object waits for the place."""
        while True:
            item.seen_generation = item.generation
            if item.wanted_at is not None and item.wanted_at <= self._clock.monotonic():
                item.wanted_at = None
            try:
                item.rest = await self._process(item)
            except (Exception, asyncio.CancelledError) as e:
                item.rest = self._recover(item, e)
            if item.events and self._absorb(item, item.events[-1]):  # the echo came in the turn
                item.events.clear()
                item.rest, item.seen_generation = DONE, item.generation
            if item.is_backlog:
                self.backlog.leave(item)
            if item.generation == item.seen_generation or not self._is_to_continue(item):
                break
        self._release(item)

    def _recover(self, item: WorkItem, exc: BaseException) -> TurnResult:
        """Decide what follows a turn that was cancelled, or has failed by a defect of ours."""
        if not isinstance(exc, asyncio.CancelledError):
            logger.error(f"The processing of {item.key} has failed: {exc!r}", exc_info=exc)
            return DONE
        item.generation += 1  # the work of the turn is not done
        item.reasons |= {"interrupted"}
        is_ours = item.last_moment is not None or isinstance(exc, TakenBack)
        if self._gate is not Gate.OPEN or is_ours:
            return DONE
        logger.warning(f"The processing of {item.key} was cancelled by others; repeating it.")
        return Requeue(self._clock.monotonic() + FAILURE_DELAY, is_held=True)

    def _is_to_continue(self, item: WorkItem) -> bool:
        return (
            item.position is Position.WORKING
            and self._gate is Gate.OPEN
            and not self._line
            and item.last_moment is None  # all calls of a cancelled task look cancelled
            and item.held is None
            and self._is_due(item)
        )

    def _release(self, item: WorkItem) -> None:
        """Give the place back, and decide what the object waits for."""
        item.task = item.last_moment = None
        self._working.pop(item, None)
        if not self._working:
            self._idle.set()
        self._occupancy.leave(item.key)
        if self._limit is not None:
            self._grant_places()
        if item.position is Position.WORKING:
            self._settle(item)

    def _settle(self, item: WorkItem) -> None:
        has_news = item.generation != item.seen_generation
        if item.rest is DONE and item.wanted_at is None and not has_news:
            return self._drop(item)  # the most frequent case goes first
        item.position = Position.DELAYED if item.held is None else Position.HELD
        item.interruptions = item.interruptions + 1 if has_news else 0
        if item.interruptions:
            self._reconsider(item)
        if item.position is not Position.DELAYED and item.position is not Position.HELD:
            return
        times = [] if item.wanted_at is None or item.held is not None else [item.wanted_at]
        match item.rest:
            case Requeue(at):
                times.append(at)
            case AwaitChange(_, until):
                times.append(until)
        if times:
            delay = max(0.0, min(times) - self._clock.monotonic())
            loop = asyncio.get_running_loop()
            item.set_timer(loop.call_later(delay, self._on_time, item))
        else:
            self._drop(item)

    def _schedule(self, item: WorkItem, at: float) -> None:
        """Let the object have a turn at that time, or earlier for another reason."""
        item.wanted_at = at if item.wanted_at is None else min(at, item.wanted_at)
        if item.position is Position.DELAYED:
            now, loop = self._clock.monotonic(), asyncio.get_running_loop()
            left = None if item.timer is None else item.timer.when() - loop.time()
            if left is None or left > at - now:
                item.set_timer(loop.call_later(at - now, self._on_time, item))

    def _on_time(self, item: WorkItem) -> None:
        item.rest, item.timer = DONE, None
        self._line_up(item)

    def _drop(self, item: WorkItem) -> None:
        if item.is_backlog:
            self.backlog.leave(item)
        if item.timer is not None:
            item.set_timer(None)
        item.position = Position.DROPPED
        self._items.pop(item.key, None)
