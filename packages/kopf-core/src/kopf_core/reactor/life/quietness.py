"""Quietness: whether a run that ends by itself has anything left to do."""

import asyncio
from collections.abc import Iterator

from kopf_core.engines.records.writes import AwaitChange
from kopf_core.intents.handlers import TimerHandler
from kopf_core.reactor.life.essentials import Essentials
from kopf_core.reactor.life.handling import Handling
from kopf_core.reactor.life.once import Once
from kopf_core.reactor.streams.work import Position, Requeue, WorkItem

POLLING = 0.05
"""In seconds: how often to check. It must be quiet for longer, so nothing else depends on this."""


class Quietness:
    """Checks whether an operator has something to do, by asking all its parts."""

    def __init__(self, essentials: Essentials, handling: Handling, once: Once) -> None:
        self._essentials = essentials
        self._handling = handling
        self._once = once
        self._clock = essentials.options.clock

    async def wait(self) -> None:
        """Wait until the operator is quiet for long enough, or until the time is out."""
        began = before = self._clock.monotonic()
        seen, quiet = self._count_events(), 0.0
        while True:
            now, count = self._clock.monotonic(), self._count_events()
            busy = next(self.find_work(), None)
            # A process that was suspended, or starves, has not noticed what has happened.
            quiet = quiet + min(now - before, 2 * POLLING) if busy is None and count == seen else 0
            before, seen = now, count
            if quiet >= self._once.settle:
                self._once.is_quiet = True
                break
            if self._once.timeout is not None and now - began >= self._once.timeout:
                lines = [*self.find_work()] or ["The cluster changes all the time"]
                self._once.unfinished += [f"Time is out: {line}" for line in lines]
                break
            await asyncio.sleep(POLLING)
        self._once.unfinished += sorted(self.find_unhandled())

    def find_work(self) -> Iterator[str]:
        """The current and the coming work, in words; nothing if all is quiet."""
        if not self._essentials.insights.is_complete:
            yield "the resources of the cluster are not discovered"
        named = {selector.group for selector in self._essentials.registry.selectors}
        for group in sorted(self._essentials.insights.broken_groups & named):
            yield f"the resources of the API group {group!r} are not discovered"
        if not self._essentials.readiness.is_ready:
            yield "the indices and the stores are not filled"
        if self._handling.governor.is_paused:
            yield "the operator is paused"
        for key, informer in self._handling.pool.informers.items():
            if not informer.is_listed:
                yield f"{key} are not listed" + (
                    f": {informer.complaint}" * bool(informer.complaint)
                )
        for intake in self._handling.orchestrator.intakes.values():
            for item in intake.queue.items:
                if self._is_soon(item):
                    yield f"{_name(item)} is being handled"
        for spawned in self._handling.background.spawned:
            if isinstance(spawned.handler, TimerHandler) and self._is_near(spawned.due):
                yield f"{spawned.handler} is about to be called"
        if self._essentials.recorder.is_busy:
            yield "Kubernetes events are being posted"

    def find_unhandled(self) -> Iterator[str]:
        """The objects that are left as they are, with the reasons, in words.

        They can be absent from the queues: they wait for changes by people, or will be retried too
        late for this run.
        """
        informers = self._handling.pool.informers.values()
        names = {key: name for informer in informers for name, key in informer.names}
        for key, memory in self._essentials.memories.items():
            if key in names and (obstacle := memory.obstacle) is not None:
                yield f"{_join(*names[key])} is not fully handled: {obstacle}"

    def _is_soon(self, item: WorkItem) -> bool:
        if item.position not in (Position.DELAYED, Position.HELD):
            return True
        match item.rest:
            case AwaitChange():
                return True
            case Requeue(at) if self._is_near(at):
                return True
        return item.wanted_at is not None and self._is_near(item.wanted_at)

    def _is_near(self, at: float) -> bool:
        return at - self._clock.monotonic() <= self._once.patience

    def _count_events(self) -> int:
        """The number of events from the cluster so far."""
        informers = self._handling.pool.informers.values()
        return sum(informer.traffic.events + informer.traffic.lists for informer in informers)


def _name(item: WorkItem) -> str:
    metadata = {} if item.newest is None else item.newest["metadata"]
    return _join(metadata.get("namespace"), metadata.get("name"))


def _join(*names: str | None) -> str:
    return "/".join(filter(None, names))
