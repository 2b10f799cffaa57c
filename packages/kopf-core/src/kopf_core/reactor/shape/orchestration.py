"""Orchestration: starts and stops the handling of kinds as the cluster changes."""

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.resources import Resource
from kopf_core.engines.desired.sources import ObservedChange
from kopf_core.engines.memories import ObjectMemories
from kopf_core.intents.registries import OperatorRegistry, ResourceHandlers
from kopf_core.intents.stoppers import DaemonStoppingReason
from kopf_core.reactor.object.reconciliation import Reconciler
from kopf_core.reactor.object.warnings import warn_of_exposed_secrets
from kopf_core.reactor.shape.observation import Insights
from kopf_core.reactor.shape.servable import ServableResources
from kopf_core.reactor.streams.forms import Forms
from kopf_core.reactor.streams.informers import Place, StreamKey
from kopf_core.reactor.streams.intake import Intake
from kopf_core.reactor.streams.lateness import Lateness
from kopf_core.reactor.streams.modes import MEANINGS, Mode
from kopf_core.reactor.streams.observed import ObservedKinds
from kopf_core.reactor.streams.pool import InformerPool
from kopf_core.reactor.streams.queueing import WorkQueue
from kopf_core.reactor.streams.readiness import Readiness

if TYPE_CHECKING:
    from kopf_core.engines.desired.desired_states import DesiredStates

logger = logging.getLogger("kopf._core.reactor.orchestration")


class Factory(Protocol):
    """Makes the parts that handle the objects of resources."""

    def make_reconciler(self, resource: Resource, handlers: ResourceHandlers) -> Reconciler:
        """Make the only reconciler for all objects of the resource."""

    def make_intake(
        self, reconciler: Reconciler, handlers: ResourceHandlers, stream: StreamKey
    ) -> Intake:
        """Make the intake of one stream."""


@dataclass(slots=True)
class _ServedKind:
    resource: Resource
    handlers: ResourceHandlers
    reconciler: Reconciler


class _Closing(NamedTuple):
    """A stream that is served no more, until its last turns have ended."""

    queue: WorkQueue
    task: asyncio.Task[None]


class Orchestrator:
    """Starts and stops the handling when resources and namespaces come, change, and go.

    It calls ``on_removed`` when some objects are not served anymore: with the resource, the
    namespace, and the keys that no other version of the kind goes on to serve. The last argument is
    the reason for the daemons.
    """

    def __init__(
        self,
        *,
        registry: OperatorRegistry,
        settings: OperatorSettings,
        insights: Insights,
        readiness: Readiness,
        pool: InformerPool,
        factory: Factory,
        observed: ObservedKinds,
        forms: Forms,
        memories: ObjectMemories,
        on_removed: Callable[
            [Resource, str | None, Collection[ObjectKey], DaemonStoppingReason], None
        ],
    ) -> None:
        self._servable = ServableResources(registry)
        self._forms = forms
        self._settings = settings
        self._insights = insights
        self._readiness = readiness
        self._pool = pool
        self._factory = factory
        self._observed = observed
        self._lateness = Lateness(registry, readiness, pool, observed)
        self._memories = memories
        self._on_removed = on_removed
        self._served: dict[Resource, _ServedKind] = {}
        self._intakes: dict[StreamKey, Intake] = {}
        self._closing: dict[Place, _Closing] = {}
        self._mode = Mode.RUNNING

    @property
    def intakes(self) -> Mapping[StreamKey, Intake]:
        return self._intakes

    @property
    def _queues(self) -> Collection[WorkQueue]:
        """All queues that can have turns: of the served streams, and of streams that are closed."""
        served = [intake.queue for intake in self._intakes.values()]
        return [*served, *(closing.queue for closing in self._closing.values())]

    async def run(self) -> None:
        """Follow the changes of the cluster for as long as the operator runs.

        Raises an error if any stream fails and cannot be restarted: an operator that is blind to
        some resources must not pretend to work.
        """
        parts = [
            self._follow(),
            self._open_when_ready(),
            self._lateness.run(),
            self._pool.wait_failed(),
        ]
        tasks = [asyncio.create_task(part, name="kopf-orchestration") for part in parts]
        try:
            pending = {*tasks}
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def reach(self, mode: Mode) -> None:
        """Bring the queues and the streams to the mode."""
        self._mode = mode
        is_watching = MEANINGS[mode].is_watching
        if mode is not Mode.ENDED and is_watching and self._pool.is_suspended:
            self._renew()
        for intake in self._intakes.values():
            intake.reach(mode)
        if mode is not Mode.ENDED:
            self._pool.reach(is_watching=is_watching)

    def _renew(self) -> None:
        """Everything will be listed again: handle nothing until the indices are full."""
        for intake in self._intakes.values():
            intake.renew()

    def cancel(self) -> Collection["asyncio.Task[None]"]:
        """Cancel all current turns; return their tasks."""
        return [task for queue in self._queues for task in queue.cancel()]

    async def settle(self) -> None:
        """Wait for the current turns, and cancel the slow ones, while the operator is paused."""
        timeout = self._settings.queueing.exit_timeout
        finishing = [intake.queue.finish(timeout) for intake in self._intakes.values()]
        await asyncio.gather(self._pool.settle(), *finishing)

    async def stop(self, timeout: float) -> None:
        """Stop all streams, and let the current turns end within the time.

        Nothing is started after that, even if the cluster changes.
        """
        self.reach(Mode.ENDED)
        closing: list[Awaitable[None]]
        closing = [intake.queue.close(timeout) for intake in self._intakes.values()]
        closing += [one.task for one in self._closing.values()]
        await asyncio.gather(self._pool.stop(timeout), *closing)
        self._observed.stop()

    @property
    def is_idle(self) -> bool:
        """Whether no object has its turn now."""
        return all(queue.is_idle for queue in self._queues)

    def is_busy(self, key: ObjectKey) -> bool:
        """Whether the object is in any queue: it waits, or has its turn now."""
        return any(queue.is_busy(key) for queue in self._queues)

    def enqueue(
        self,
        key: ObjectKey,
        reason: str,
        *,
        at: float | None = None,
        resource: Resource | None = None,
        body: RawBody | None = None,
    ) -> bool:
        """Let the object have a turn without an event; return whether it is known.

        With the resource and the body, the object can be unknown to the queues.
        """
        memory = self._memories.get(key)
        if body is not None:
            namespace = body["metadata"].get("namespace")
        else:
            namespace = None if memory is None else memory.namespace
        found = [  # several, if several versions of its kind are handled
            intake
            for served in ([resource] if resource is not None else self._served)
            for space in dict.fromkeys((namespace, None))
            if (intake := self._find_intake(served, space)) is not None
        ]
        if any(key in intake.queue for intake in found):
            body = None
        known = [intake.queue.enqueue(key, reason, at=at, body=body) for intake in found]
        return any(known)

    def _find_intake(self, resource: Resource, namespace: str | None) -> Intake | None:
        served = self._served.get(resource)
        if served is None:
            return None
        return self._intakes.get(StreamKey(resource, namespace, form=served.handlers.form))

    def renew(self) -> None:
        """List all handled kinds anew: more of the objects are ours from now on."""
        for key in self._intakes:
            self._pool.renew(key)

    def narrow(self, is_ours: Callable[[ObjectKey], bool]) -> None:
        """Watch fewer objects: other processes handle the rest, and no work on it is left here."""
        for key in self._intakes:
            self._pool.narrow(key, is_ours)

    async def leave(self, is_ours: Callable[[ObjectKey], bool]) -> None:
        """Drop the objects that other processes handle from now on, and wait for their turns.

        It cancels the turns that take too long. It waits for threads, which cannot be cancelled.
        """
        timeout = self._settings.queueing.exit_timeout
        works = [(queue, queue.leave(is_ours)) for queue in self._queues]
        tasks = [item.task for _, items in works for item in items if item.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=timeout)
            for queue, items in works if late else ():
                queue.cancel([item for item in items if item.task in late])
            await asyncio.wait(tasks)

    def forget(self, key: ObjectKey) -> None:
        """Make no more passes for the object: another process handles it."""
        for _, desired in self.desired:
            desired.forget(key)

    def forget_plans(self) -> None:
        """Forget the plans of all reconcilers, as after a restart: all is compared again."""
        for _, desired in self.desired:
            desired.restart()

    @property
    def desired(self) -> "Iterable[tuple[Resource, DesiredStates]]":
        """The kinds with reconcilers, and the desired states of their objects."""
        for served in self._served.values():
            if served.reconciler.desired is not None:
                yield served.resource, served.reconciler.desired

    def on_observed(self, resource: Resource, body: RawBody, change: ObservedChange) -> None:
        """An object of an observed kind has changed: tell the reconcilers that can depend on it."""
        for _, desired in self.desired:
            desired.on_owned(resource, body, change)
            desired.on_related(resource, body, change)

    def on_observed_listed(self, resource: Resource) -> None:
        """All objects of an observed kind are known, at least in one namespace."""
        for _, desired in self.desired:
            desired.on_listed(resource)

    def on_indexed(self, index: str, values: Iterable[object]) -> None:
        """Values of an index have changed: these are the old and the new ones."""
        for _, desired in self.desired:
            desired.on_indexed(index, values)

    async def _follow(self) -> None:
        while True:
            await self._insights.wait()
            await self._adjust()
            self._readiness.arm()

    async def _open_when_ready(self) -> None:
        while True:
            await self._readiness.wait()
            if self._mode is Mode.RUNNING:
                for intake in self._intakes.values():
                    intake.reach(self._mode)
            await self._readiness.wait_for_doubts()

    async def _adjust(self) -> None:
        for place in [place for place, one in self._closing.items() if one.task.done()]:
            self._closing.pop(place).task.result()
        if self._mode is not Mode.ENDED:
            found = self._insights
            await self._observed.adjust(found.resources, found.namespaces, found.broken_groups)
        served = self._forms.assign(self._servable.select(self._insights.resources))
        changed = {resource for resource in served if self._is_rebuilt(resource, served[resource])}
        wanted = {
            StreamKey(resource, namespace, form=handlers.form): handlers
            for resource, handlers in served.items()
            for namespace in self._get_namespaces(resource)
        }
        for key in [key for key in self._intakes if key not in wanted or key.resource in changed]:
            self._close(key, successors=served)
        self._insights.deleted.clear()
        for resource in [res for res in self._served if res not in served or res in changed]:
            del self._served[resource]
        for key, handlers in wanted.items():
            if (
                key not in self._intakes
                and key.place not in self._closing
                and self._mode is not Mode.ENDED
            ):
                self._add(key, handlers)

    def _close(self, key: StreamKey, *, successors: Collection[Resource]) -> None:
        """Serve the stream no more, in a task. If it is served again, that waits for the task."""
        intake, reconciler = self._intakes.pop(key), self._served[key.resource].reconciler
        is_deleted = key.namespace in self._insights.deleted
        removing = self._remove(key, intake, reconciler, successors, is_deleted=is_deleted)
        closing = asyncio.create_task(removing, name=f"kopf-closing-{key}")
        closing.add_done_callback(lambda _: self._insights.revise())
        self._closing[key.place] = _Closing(intake.queue, closing)

    def _is_rebuilt(self, resource: Resource, handlers: ResourceHandlers) -> bool:
        """Whether the resource must be served anew. Small changes are applied without that."""
        known = self._served.get(resource)
        if known is None:
            return False
        if known.handlers != handlers:
            return True
        if dataclasses.astuple(known.resource) != dataclasses.astuple(resource):
            known.resource = resource
            known.reconciler.redefine(resource)
        return False

    def _add(self, key: StreamKey, handlers: ResourceHandlers) -> None:
        served = self._served.get(key.resource)
        if served is None:
            if handlers.changing:
                warn_of_exposed_secrets(
                    key.resource, self._settings.persistence.diffbase_storage, logger
                )
            reconciler = self._factory.make_reconciler(key.resource, handlers)
            served = self._served[key.resource] = _ServedKind(key.resource, handlers, reconciler)
        intake = self._intakes[key] = self._factory.make_intake(served.reconciler, handlers, key)
        intake.reach(self._mode)
        self._pool.subscribe(key, intake)

    async def _remove(
        self,
        key: StreamKey,
        intake: Intake,
        reconciler: Reconciler,
        successors: Collection[Resource],
        *,
        is_deleted: bool,
    ) -> None:
        timeout = self._settings.queueing.exit_timeout
        informer = self._pool.find(key)
        keys = set() if informer is None else {*informer.keys}
        keys |= {item.key for item in intake.queue.items}  # also of deleted objects
        if is_deleted:  # let handlers see the deletions of its objects
            await self._pool.finish(key)
            await intake.queue.exhaust(timeout)
        await self._pool.unsubscribe(key, intake)
        await intake.queue.close(timeout)
        intake.forget()
        if reconciler.desired is not None:
            for gone in keys:
                reconciler.desired.forget(gone)
        is_succeeded = any(resource.name == key.resource.name for resource in successors)
        is_there = not key.namespace or key.namespace in self._insights.namespaces
        forgotten: Collection[ObjectKey] = () if is_succeeded and is_there else keys
        reason = DaemonStoppingReason.RESOURCE_DELETED
        if is_succeeded and not is_there and not is_deleted:  # the namespace has lost its labels
            reason = DaemonStoppingReason.FILTERS_MISMATCH
        self._on_removed(key.resource, key.namespace, forgotten, reason)

    def _get_namespaces(self, resource: Resource) -> Collection[str | None]:
        return self._insights.namespaces if resource.namespaced else [None]
