"""Informers: one stream of events of one resource, put into the indices and the work queue."""

import asyncio
from collections import deque

from kopf_cogs.clients.reflector import Reflector
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.bodies import RawEvent
from kopf_cogs.structs.keys import object_key
from kopf_core.engines.indexing import ResourceIndexer
from kopf_core.reactor.queueing import WorkQueue
from kopf_core.reactor.readiness import Readiness
from kopf_core.reactor.reconciliation import Reconciler

INDEXING_PORTION = 100
"""How many objects are indexed in a row before everything else gets its turn."""


class Informer:
    """The way of events of one resource in one namespace (or in all of them).

    The indices are filled right in the stream, one event after another: the work queue is not
    involved in it, and so cannot block it, however small the limit of its workers is.
    """

    def __init__(
        self,
        *,
        client: Client,
        reconciler: Reconciler,
        namespace: str | None,
        indexer: ResourceIndexer | None,
        readiness: Readiness,
    ) -> None:
        settings = reconciler.settings
        self.resource = reconciler.resource
        self.namespace = namespace
        self._reconciler = reconciler
        self._indexer = indexer
        self._readiness = readiness
        self._indexing: deque[RawEvent] = deque()
        self._is_listed = False
        self.queue = WorkQueue(
            reconciler.process,
            limit=settings.queueing.worker_limit,
            clock=client.clock,
            keeps_events=reconciler.needs_events,
        )
        self.reflector = Reflector(client, self.resource, namespace, settings=settings, sink=self)
        if indexer is not None:
            readiness.hold(self)
        if readiness.is_ready:
            self.queue.open()

    async def run(self) -> None:
        """Stream the events until cancelled. Can be run again after that."""
        try:
            await self.reflector.run()
        finally:
            self._readiness.release(self)

    async def close(self, timeout: float) -> None:
        """Stop processing; what is not processed yet is dropped, to be listed again later."""
        await self.queue.close(timeout)
        self._indexing.clear()

    def forget(self) -> None:
        """Forget all the objects that were seen: the resource is not served anymore."""
        if self._indexer is not None:
            self._indexer.clear()

    def on_event(self, event: RawEvent) -> None:
        if self._indexer is None:
            self.queue.put(object_key(self.resource, event["object"]), event)
        else:
            self._indexing.append(event)

    def on_listed(self) -> None:
        self._is_listed = True
        if self._indexer is None:
            self._readiness.release(self)

    async def drain(self) -> None:
        """Index what has come since the last time, then let it be processed."""
        if self._indexer is None:
            return
        count = 0
        while self._indexing:
            event = self._indexing.popleft()
            key = object_key(self.resource, event["object"])
            await self._indexer.index(key, event)
            self.queue.put(key, event)
            count += 1
            if count % INDEXING_PORTION == 0:
                await asyncio.sleep(0)  # most functions never wait, but others should not starve
        if self._is_listed:
            self._readiness.release(self)
