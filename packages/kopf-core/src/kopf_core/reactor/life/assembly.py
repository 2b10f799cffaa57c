"""Assembly: puts together the parts that handle the objects of one resource."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.errors import ErrorsMode
from kopf_core.actions.instruments import Instruments
from kopf_core.actions.ongoing import Ongoing
from kopf_core.actions.threads import Door
from kopf_core.engines.background import BackgroundEngine
from kopf_core.engines.indexing import ResourceIndexer
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.life.essentials import Essentials
from kopf_core.reactor.object.reconciliation import Reconciler
from kopf_core.reactor.streams.informers import StreamKey
from kopf_core.reactor.streams.intake import Intake, SharedIntake
from kopf_core.reactor.streams.places import Occupancy
from kopf_core.reactor.streams.pool import InformerPool
from kopf_core.reactor.streams.queueing import WorkQueue
from kopf_core.reactor.streams.work import Process, TurnResult, WorkItem

if TYPE_CHECKING:
    from kopf_core.engines.desired.desired_states import DesiredStates, Enqueue
    from kopf_core.engines.desired.knowledge import Sources
    from kopf_core.reactor.object.takeovers import Takeovers


class HandlingFactory:
    """Makes the reconcilers of resources, and the intakes of their streams."""

    def __init__(
        self,
        essentials: Essentials,
        *,
        background: BackgroundEngine,
        pool: InformerPool,
        sources: "Sources",
        enqueue: "Enqueue",
    ) -> None:
        self._client = essentials.client
        self._execution = essentials.execution
        self._memories = essentials.memories
        self._indices = essentials.indices
        self._background = background
        self._readiness = essentials.readiness
        self._pool = pool
        self._api = essentials.api
        self._sources = sources
        self._enqueue = enqueue
        self._occupancy = Occupancy()
        self._essentials = essentials
        self._options = essentials.options
        self._indexing = replace(
            essentials.execution,
            errors=ErrorsMode.IGNORED,
            subhandling=None,
            executor=essentials.indexing_threads,
            ongoing=Ongoing(),  # the exit does not wait for index functions: they lose nothing
            door=Door(),  # always open: indices are filled in pauses, and by followers
        )

    def make_reconciler(self, resource: Resource, handlers: ResourceHandlers) -> Reconciler:
        return Reconciler(
            client=self._client,
            resource=resource,
            handlers=handlers,
            execution=self._execution,
            memories=self._memories,
            indices=self._essentials.arguments,
            background=self._background,
            desired=self._make_desired(handlers),
            takeovers=self._make_takeovers(resource, handlers),
            share=self._essentials.share,
        )

    def _make_takeovers(self, resource: Resource, handlers: ResourceHandlers) -> "Takeovers | None":
        settings = self._execution.settings
        if settings.leasing.name is None:
            return None
        from kopf_core.reactor.object.takeovers import Takeovers

        is_clusterwide = self._options.is_clusterwide
        return Takeovers(self._client, resource, handlers, settings, is_clusterwide=is_clusterwide)

    def _make_desired(self, handlers: ResourceHandlers) -> "DesiredStates | None":
        if not handlers.reconciling:
            return None
        # Its import takes time, and few operators need it.
        from kopf_core.engines.desired.desired_states import DesiredStates

        return DesiredStates(
            handlers=handlers.reconciling,
            shared_ids=handlers.shared_ids,
            execution=self._execution,
            api=self._api,
            indices=self._indices,
            sources=self._sources,
            enqueue=self._enqueue,
        )

    def make_intake(
        self, reconciler: Reconciler, handlers: ResourceHandlers, stream: StreamKey
    ) -> Intake:
        def lookup(key: ObjectKey) -> RawBody | None:
            store = self._pool.find_store(stream)
            return None if store is None else store.get(key)

        queue = WorkQueue(
            self._get_process(reconciler),
            limit=self._execution.settings.queueing.worker_limit,
            clock=self._execution.clock,
            keeps_events=reconciler.needs_events,
            occupancy=self._occupancy,
            lookup=lookup,
            forget=reconciler.forget_unseen,
            absorb=reconciler.echoes.absorb,
        )
        return self._get_maker(stream.resource)(
            queue,
            indexer=self._make_indexer(stream.resource, handlers),
            readiness=self._readiness,
            is_handled=reconciler.is_handled,
            on_reversed=self._memories.doubt_versions,
        )

    def _get_maker(self, resource: Resource) -> Callable[..., Intake]:
        share, settings = self._essentials.share, self._execution.settings
        if share is None:
            return Intake
        if settings.sharding.ring is None:
            return partial(SharedIntake, share=share)
        # Their import takes time, and few operators need them.
        from kopf_core.engines.sharding.rings import RingShare
        from kopf_core.reactor.streams.ring_intake import RingIntake

        assert isinstance(share, RingShare)
        return partial(
            RingIntake,
            share=share,
            resource=resource,
            memories=self._memories,
            persistence=settings.persistence,
        )

    def _get_process(self, reconciler: Reconciler) -> Process:
        """The function that makes a turn; with a trace around it, if turns are traced."""
        process: Process = reconciler.process
        instruments = self._execution.panel.instruments
        if instruments is not None and instruments.is_tracing:
            process = _trace(process, instruments, f"{reconciler.resource}")
        return process

    def _make_indexer(
        self, resource: Resource, handlers: ResourceHandlers
    ) -> ResourceIndexer | None:
        if not handlers.indexing:
            return None
        return ResourceIndexer(
            resource=resource,
            handlers=handlers.indexing,
            indices=self._indices,
            memories=self._memories,
            execution=self._indexing,
        )


def _trace(process: Process, instruments: Instruments, resource: str) -> Process:
    async def traced(item: WorkItem) -> TurnResult:
        body = item.events[-1]["object"] if item.events else item.latest or {}
        metadata = body.get("metadata", {})
        namespace, name = metadata.get("namespace"), metadata.get("name", "")
        with instruments.trace_turn(resource, namespace, name):
            return await process(item)

    return traced
