"""The intake: how events of a stream get to the handlers: through the indices and the queue."""

import asyncio
from collections import deque
from collections.abc import Callable

from kopf_cogs.structs.bodies import RawEvent
from kopf_cogs.structs.keys import ObjectKey
from kopf_core.engines.indexing import ResourceIndexer
from kopf_core.reactor.streams.modes import MEANINGS, Mode
from kopf_core.reactor.streams.places import Gate
from kopf_core.reactor.streams.queueing import WorkQueue
from kopf_core.reactor.streams.readiness import Readiness

INDEXING_PORTION = 100
"""How many objects are indexed in a row before everything else gets its turn."""


class Intake:
    """The subscriber that has all objects of a stream handled.

    The indices are filled right in the stream, one event after another: the work queue is not
    involved in it, and so cannot block it, however small the limit of its workers is.
    ``is_handled`` tells whether there is anything to be done for an event but indexing.
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
        self._indexing: deque[tuple[ObjectKey, RawEvent]] = deque()
        self._is_listed = False
        if indexer is not None:
            readiness.hold(self)

    def reach(self, mode: Mode) -> None:
        """Let the objects be handled or not, as the mode says; and if everything is ready."""
        gate, _, forgets = MEANINGS[mode]
        if gate is Gate.OPEN and not self._readiness.is_ready:
            gate = Gate.SHUT
        self.queue.reach(gate, forget=forgets)

    def renew(self) -> None:
        """Everything is going to be listed anew: until it is, the indices are not to be used."""
        if self._indexer is not None:
            self._is_listed = False
            self._readiness.renew(self)

    def forget(self) -> None:
        """Forget all the objects that were seen: the resource is not served anymore."""
        self._readiness.release(self)
        self._indexing.clear()
        if self._indexer is not None:
            self._indexer.clear()

    def on_event(self, key: ObjectKey, event: RawEvent) -> None:
        if self._indexer is None:
            self.queue.put(key, event)
        else:
            self._indexing.append((key, event))

    def on_listed(self) -> None:
        self._is_listed = True

    def on_reversed(self) -> None:
        self._on_reversed()

    def on_interrupted(self) -> None:
        """The stream is broken for now: those who are ready must not wait for it."""
        self._readiness.release(self)

    async def drain(self) -> None:
        """Index what has come since the last time, then let it be processed."""
        if self._indexer is not None:
            await self._index(self._indexer)
        if self.queue.backlog.is_large:
            await self.queue.wait_for_headroom()

    async def _index(self, indexer: ResourceIndexer) -> None:
        count = 0
        while self._indexing:
            key, event = self._indexing[0]
            await indexer.index(key, event)  # if cancelled here, it is to be indexed again
            if self._is_handled(event) or key in self.queue:
                self.queue.put(key, event)
            self._indexing.popleft()
            count += 1
            if count % INDEXING_PORTION == 0:
                await asyncio.sleep(0)  # most functions never wait, but others should not starve
        if self._is_listed:
            self._readiness.release(self)
