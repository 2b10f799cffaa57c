"""The handling of objects in one operator: streams, queues, daemons, reconcilers, and pauses."""

import asyncio
import logging
from collections.abc import Collection
from typing import cast

from kopf_cogs.clients.errors import APIForbiddenError
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.resources import Resource
from kopf_core.engines.background import BackgroundEngine
from kopf_core.engines.background.live_objects import LiveObject
from kopf_core.intents.stoppers import DaemonStoppingReason
from kopf_core.reactor.life.assembly import HandlingFactory
from kopf_core.reactor.life.essentials import Essentials
from kopf_core.reactor.life.external_sources import Happenings
from kopf_core.reactor.life.governing import Governor
from kopf_core.reactor.shape.observation import NamespaceObserver, ResourceObserver
from kopf_core.reactor.shape.orchestration import Orchestrator
from kopf_core.reactor.streams.forms import Forms
from kopf_core.reactor.streams.informers import StreamKey
from kopf_core.reactor.streams.observed import ObservedKinds
from kopf_core.reactor.streams.pool import InformerPool
from kopf_core.reactor.streams.refusals import Refusals
from kopf_core.reactor.streams.sharing import keep_fields_of
from kopf_core.reactor.streams.work import LAST_MOMENT

logger = logging.getLogger("kopf._core.reactor.running")

STALE_AFTER = 300.0
"""How long (in seconds) a stream can show no signs of life before the probes fail."""

HURRY = 0.5
"""How long (in seconds) handlers can run after the exit is requested again: most are quick."""


class Handling:
    """All parts of one operator that handle objects."""

    def __init__(self, essentials: Essentials) -> None:
        self._essentials = essentials
        essentials.insights.listen(essentials.api.kinds.revise)
        self.observer = ResourceObserver(
            client=essentials.client,
            settings=essentials.settings,
            insights=essentials.insights,
            registry=essentials.registry,
        )
        self.background = BackgroundEngine(
            client=essentials.client,
            settings=essentials.settings,
            indices=essentials.arguments,
            execution=essentials.execution,
            wake=self._wake,
            is_once=essentials.options.once is not None,
        )
        self._leaving: set[ObjectKey] = set()  # not served anymore, but something works for them
        self._refusals = Refusals(essentials.client, essentials.registry.get_resource_handlers)
        self.pool = InformerPool(
            essentials.client,
            essentials.settings,
            on_lost=self.observer.doubt,
            on_interrupted=self._on_interrupted,
            on_forbidden=self._on_forbidden,
        )
        self._forms = Forms(essentials.registry, essentials.settings)
        self.observed = self._make_observed()
        self.orchestrator = self._make_orchestrator()
        self.governor = Governor(
            self.orchestrator,
            self.background,
            settings=essentials.settings,
            door=essentials.execution.door,
        )
        self.happenings = Happenings(self.pool, lambda: self.orchestrator.desired)
        for name in essentials.indices.keys() & essentials.registry.related_names:
            essentials.indices.listen(name, self.orchestrator.on_indexed)

    def _make_observed(self) -> ObservedKinds:
        essentials = self._essentials
        return ObservedKinds(
            pool=self.pool,
            selectors=essentials.registry.observed_selectors,
            forms=self._forms,
            readiness=essentials.readiness,
            transform=keep_fields_of(lambda: essentials.api.manager),
            on_change=lambda *change: self.orchestrator.on_observed(*change),
            on_listed=lambda resource: self.orchestrator.on_observed_listed(resource),
        )

    def _make_orchestrator(self) -> Orchestrator:
        essentials = self._essentials
        return Orchestrator(
            registry=essentials.registry,
            settings=essentials.settings,
            insights=essentials.insights,
            readiness=essentials.readiness,
            pool=self.pool,
            factory=HandlingFactory(
                essentials,
                background=self.background,
                pool=self.pool,
                sources=self.observed,
                enqueue=lambda key, reason: self.orchestrator.enqueue(key, reason),
            ),
            observed=self.observed,
            forms=self._forms,
            memories=essentials.memories,
            on_removed=self._forget,
        )

    async def observe_namespaces(self) -> None:
        """Follow which namespaces exist and are served, for as long as the operator runs."""
        options, insights = self._essentials.options, self._essentials.insights
        if options.is_clusterwide:
            insights.set_namespaces([None])
            await asyncio.Event().wait()
        await NamespaceObserver(
            client=self._essentials.client,
            settings=self._essentials.settings,
            insights=insights,
            patterns=options.patterns,
        ).run()

    async def finish(self) -> None:
        """Let the handlers finish, interrupt the slow ones, and wait for threads.

        Threads cannot be interrupted. If they end in time, their outcomes are stored on the
        objects. Calls that still wait for a thread never begin.
        """
        exit = self._essentials.exit
        self.governor.end()
        await self._refusals.close()
        await asyncio.gather(self._finish_work(), self.background.exit(exit.get_left_for_work))

    async def _finish_work(self) -> None:
        settings, exit = self._essentials.settings, self._essentials.exit
        await self.orchestrator.stop(min(settings.queueing.exit_timeout, exit.get_left_for_work()))
        if not self.orchestrator.is_idle:
            logger.warning(
                f"Waiting for the end of {exit.describe()}. Threads cannot be cancelled. "
                f"To exit at once, send the signal again."
            )
            await exit.wait_for(lambda: self.orchestrator.is_idle, exit.get_left_for_work)
            if tasks := self.orchestrator.cancel():
                await asyncio.wait(tasks, timeout=min(LAST_MOMENT, exit.get_left_for_work()))

    def abort(self) -> None:
        """Interrupt the running work soon, and wait for nothing."""
        self.governor.end()
        self._essentials.client.rush()
        asyncio.get_running_loop().call_later(HURRY, self.orchestrator.cancel)
        self.background.abort()

    def find_problems(self) -> Collection[str]:
        """The problems that keep the operator from serving: the probes must fail."""
        stale = ", ".join(self._find_stale())
        return [f"There are no signs of life from the watch-streams: {stale}."] if stale else []

    def _find_stale(self) -> Collection[str]:
        """The streams that have shown no signs of life for too long."""
        if self.pool.is_suspended:
            return []
        limit = max(STALE_AFTER, 3 * self._essentials.settings.watching.inactivity_timeout)
        since = self._essentials.options.clock.monotonic() - limit
        informers = self.pool.informers.items()
        return [str(key) for key, informer in informers if informer.freshness < since]

    def _wake(self, obj: LiveObject) -> None:
        is_leaving = obj.key in self._leaving
        self._leaving.discard(obj.key)
        if self.orchestrator.enqueue(obj.key, "background"):
            return
        if is_leaving:
            self._forget_idle(obj.key)
        elif not obj.is_deleted and self._essentials.options.once is not None:
            body = cast("RawBody", dict(obj.body))
            self.orchestrator.enqueue(obj.key, "background", resource=obj.resource, body=body)

    def _forget(
        self,
        resource: Resource,
        namespace: str | None,
        keys: Collection[ObjectKey],
        reason: DaemonStoppingReason,
    ) -> None:
        """Stop the daemons and timers of objects that are not served anymore, and forget the
        objects.
        """
        self.background.stop_resource(resource, namespace, reason)
        for key in keys:
            self._forget_idle(key)

    def _forget_idle(self, key: ObjectKey) -> None:
        """Remember nothing of the object; if something works for it, only when that has ended."""
        if self.background.is_running(key):
            self._leaving.add(key)
        else:
            self.background.forget(key)
            self._essentials.memories.forget(key)

    def _on_interrupted(self, stream: StreamKey) -> None:
        intake = self.orchestrator.intakes.get(stream)
        if intake is not None:
            intake.on_interrupted()
        self.observed.on_interrupted(stream)

    def _on_forbidden(self, stream: StreamKey, exc: APIForbiddenError) -> None:
        self._refusals.add(stream, exc)
        self.observed.on_interrupted(stream)
