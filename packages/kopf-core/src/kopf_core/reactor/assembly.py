"""Assembly: all that handles the objects of one resource, put together."""

from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.errors import ErrorsMode
from kopf_core.actions.execution import Execution
from kopf_core.actions.lifecycles import Lifecycle
from kopf_core.engines.background import BackgroundEngine
from kopf_core.engines.desired.engine import DesiredStates, Enqueue, Sources
from kopf_core.engines.indexing import ResourceIndexer
from kopf_core.engines.memories import ObjectMemories
from kopf_core.intents.indices import Indices
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.informers import StreamKey
from kopf_core.reactor.intake import Intake
from kopf_core.reactor.places import Occupancy
from kopf_core.reactor.pool import InformerPool
from kopf_core.reactor.queueing import WorkQueue
from kopf_core.reactor.readiness import Readiness
from kopf_core.reactor.reconciliation import Reconciler


class HandlingFactory:
    """Makes the reconcilers of resources, and the intakes of their streams."""

    def __init__(
        self,
        *,
        client: Client,
        execution: Execution,
        lifecycle: Lifecycle,
        memories: ObjectMemories,
        indices: Indices,
        background: BackgroundEngine,
        readiness: Readiness,
        pool: InformerPool,
        api: ObjectsAPI,
        sources: Sources,
        enqueue: Enqueue,
    ) -> None:
        self._client = client
        self._execution = execution
        self._memories = memories
        self._indices = indices
        self._background = background
        self._readiness = readiness
        self._pool = pool
        self._api = api
        self._sources = sources
        self._enqueue = enqueue
        self._occupancy = Occupancy()
        self._indexing = Execution(
            settings=execution.settings,
            lifecycle=lifecycle,
            errors=ErrorsMode.IGNORED,
            clock=execution.clock,
            ongoing=execution.ongoing,
        )

    def make_reconciler(self, resource: Resource, handlers: ResourceHandlers) -> Reconciler:
        return Reconciler(
            client=self._client,
            resource=resource,
            handlers=handlers,
            execution=self._execution,
            memories=self._memories,
            indices=self._indices,
            background=self._background,
            desired=self._make_desired(handlers),
        )

    def _make_desired(self, handlers: ResourceHandlers) -> DesiredStates | None:
        if not handlers.reconciling:
            return None
        return DesiredStates(
            handlers=handlers.reconciling,
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
            reconciler.process,
            limit=self._execution.settings.queueing.worker_limit,
            clock=self._execution.clock,
            keeps_events=reconciler.needs_events,
            occupancy=self._occupancy,
            lookup=lookup,
            is_known=self._memories.__contains__,
        )
        return Intake(
            queue,
            indexer=self._make_indexer(stream.resource, handlers),
            readiness=self._readiness,
            on_reversed=self._memories.doubt_versions,
        )

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
