"""The intake: brings the events of a stream to the indices, and then to the work queue."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from kopf_cogs.structs.bodies import RawEvent
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.parts import ALL_OBJECTS, Part
from kopf_core.engines.indexing import ResourceIndexer
from kopf_core.engines.sharding.shares import Share
from kopf_core.reactor.streams.modes import MEANINGS, Mode
from kopf_core.reactor.streams.places import Gate
from kopf_core.reactor.streams.queueing import WorkQueue
from kopf_core.reactor.streams.readiness import Readiness

INDEXING_PORTION = 100
"""The number of objects indexed in a row before other tasks of the loop get their turn."""


class Intake:
    """The subscriber that has all objects of a stream indexed and handled.

    The indices are filled right in the stream, one event after another. The work queue has no part
    in that, and so cannot block it, however small its limit of workers is. ``is_handled`` tells
    whether an event can need more than indexing.
    """

    def __init__(
        self,
        queue: WorkQueue,
        *,
        indexer: ResourceIndexer | None,
        readiness: Readiness,
        is_handled: Callable[[RawEvent], bool] = lambda _: True,
        on_reversed: Callable[[], None] = lambda: None,
    ) -> None:
        self._is_handled = is_handled
        self._on_reversed = on_reversed
        self.queue = queue
        self._indexer = indexer
        self._readiness = readiness
        self._indexing: deque[tuple[ObjectKey, RawEvent, bool]] = deque()
        self._is_listed = False
        if indexer is not None:
            readiness.hold(self)

    @property
    def part(self) -> Part:
        return ALL_OBJECTS

    def reach(self, mode: Mode) -> None:
        """Open or shut the queue as the mode says; never open it before all indices are full."""
        gate, _, forgets = MEANINGS[mode]
        if gate is Gate.OPEN and not self._readiness.is_ready:
            gate = Gate.SHUT
        self.queue.reach(gate, forget=forgets)

    def renew(self) -> None:
        """Everything will be listed again: do not use the indices until the end of that list."""
        if self._indexer is not None:
            self._is_listed = False
            self._readiness.renew(self)

    def forget(self) -> None:
        """Forget all objects, as the resource is not served anymore."""
        self._readiness.release(self)
        self._indexing.clear()
        if self._indexer is not None:
            self._indexer.clear()

    def on_event(self, key: ObjectKey, event: RawEvent) -> None:
        if self._indexer is None:
            self.queue.put(key, event)
        else:
            self._indexing.append((key, event, True))

    def on_listed(self) -> None:
        self._is_listed = True

    def on_reversed(self) -> None:
        self._on_reversed()

    def on_interrupted(self) -> None:
        """The stream is broken for now: do not let the other kinds wait for it."""
        self._readiness.release(self)

    async def drain(self) -> None:
        """Index the latest events, and put them into the queue; wait if its backlog is large."""
        if self._indexer is not None:
            await self._index(self._indexer)
        if self.queue.backlog.is_large:
            await self.queue.wait_for_headroom()

    async def _index(self, indexer: ResourceIndexer) -> None:
        count = 0
        while self._indexing:
            key, event, is_ours = self._indexing[0]
            await indexer.index(key, event)  # if cancelled here, the event is indexed again later
            if is_ours and (self._is_handled(event) or key in self.queue):
                self.queue.put(key, event)
            self._indexing.popleft()
            count += 1
            if count % INDEXING_PORTION == 0:
                await asyncio.sleep(0)  # let other tasks run: most functions never wait
        if self._is_listed:
            self._readiness.release(self)


class SharedIntake(Intake):
    """An intake with other processes for a part of the objects: these are only indexed here.

    The owner is checked when the event comes: an event from before the object was ours can be
    older than the changes by its previous owner.
    """

    def __init__(self, *args: Any, share: Share, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._share = share

    @property
    def part(self) -> Part:
        return self._share.part if self._indexer is None else ALL_OBJECTS

    def on_event(self, key: ObjectKey, event: RawEvent) -> None:
        if self._admits(key, event):
            super().on_event(key, event)
        elif self._indexer is not None:
            self._indexing.append((key, event, False))

    def _admits(self, key: ObjectKey, event: RawEvent) -> bool:
        return self._share.has(key)
