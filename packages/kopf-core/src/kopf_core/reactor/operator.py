"""The operator: the composition root, where all the parts are put together."""

import asyncio
import logging
from collections.abc import Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any, cast

from kopf_cogs.aiokits.clocks import Clock, SystemClock
from kopf_cogs.aiokits.flags import Flag, raise_flag, wait_flag
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.clients.renewals import Renewer
from kopf_cogs.clients.session import Client
from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.helpers.versions import get_version
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.memos import AnyMemo, Memo
from kopf_cogs.structs.namespaces import NamespacePattern
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.context import OperatorContext, operator_var
from kopf_core.actions.execution import Execution
from kopf_core.actions.lifecycles import Lifecycle, get_default_lifecycle
from kopf_core.actions.ongoing import Ongoing
from kopf_core.engines.activities import ActivityRunner
from kopf_core.engines.admission import AdmissionEngine, ReviewContext, check_admission
from kopf_core.engines.authentication import Authenticator
from kopf_core.engines.background import BackgroundEngine
from kopf_core.engines.memories import ObjectMemories
from kopf_core.engines.posting import EventRecorder, event_logging
from kopf_core.engines.probing import serve_probes
from kopf_core.intents.causes import Activity
from kopf_core.intents.handlers import DaemonHandler
from kopf_core.intents.indices import Indices
from kopf_core.intents.registries import (
    OperatorRegistry,
    get_default_registry,
)
from kopf_core.reactor.assembly import HandlingFactory
from kopf_core.reactor.exiting import Exit
from kopf_core.reactor.informers import StreamKey
from kopf_core.reactor.observation import Insights, NamespaceObserver, ResourceObserver
from kopf_core.reactor.observed import ObservedKinds, keep_fields_of
from kopf_core.reactor.orchestration import Orchestrator
from kopf_core.reactor.pool import InformerPool
from kopf_core.reactor.preflight import check_registry, check_settings
from kopf_core.reactor.readiness import Readiness
from kopf_core.reactor.subhandling import run_subhandlers
from kopf_core.reactor.watchdog import Watchdog

logger = logging.getLogger("kopf.reactor")

POSTING_TIMEOUT = 1.0
"""How long (in seconds) the exiting operator posts the remaining events."""

STALE_AFTER = 300.0
"""How long (in seconds) a stream can show no signs of life until the probes fail."""

INTERRUPTION_TIMEOUT = 1.0
"""How long (in seconds) to wait for the interrupted handlers of startup and cleanup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    """How to run an operator. Everything has a default suitable for most operators."""

    registry: OperatorRegistry = field(default_factory=get_default_registry)
    settings: OperatorSettings = field(default_factory=OperatorSettings)
    lifecycle: Lifecycle = field(default_factory=get_default_lifecycle)
    memo: AnyMemo = field(default_factory=Memo)
    vault: Vault | None = None
    clusterwide: bool = False
    namespaces: Collection[NamespacePattern] = ()
    stop_flag: Flag | None = None
    ready_flag: Flag | None = None
    liveness_endpoint: str | None = None
    clock: Clock = field(default_factory=SystemClock)


class Operator:
    """One operator: a set of handlers that serves a set of resources in a cluster.

    To be created and run in one event loop, once.
    """

    def __init__(self, options: OperatorOptions) -> None:
        settings = options.settings
        self._options = options
        self._settings = settings
        self._vault = options.vault if options.vault is not None else Vault(clock=options.clock)
        self._client = Client(self._vault, settings, clock=options.clock)
        self._recorder = EventRecorder(self._client, settings)
        self._memories = ObjectMemories(options.memo)
        self._indices = Indices(options.registry.index_ids)
        self._ongoing = Ongoing()
        self.exit = Exit(settings, lambda: options.registry.handlers, self._ongoing)
        self._activities = ActivityRunner(
            settings, options.memo, self._indices, options.clock, self._ongoing
        )
        self._execution = Execution(
            settings=settings,
            lifecycle=options.lifecycle,
            subhandling=run_subhandlers,
            clock=options.clock,
            ongoing=self._ongoing,
        )
        self._pauses: dict[str, bool] = {}
        self._is_cold = False
        self._readiness = Readiness()
        self._insights = Insights()
        self._observer = ResourceObserver(
            client=self._client,
            settings=settings,
            insights=self._insights,
            selectors=options.registry.selectors,
        )
        self._background = BackgroundEngine(
            client=self._client,
            settings=settings,
            indices=self._indices,
            execution=self._execution,
            wake=self._wake,
        )
        self.informers = InformerPool(
            self._client,
            settings,
            on_lost=self._observer.doubt,
            on_interrupted=self._on_interrupted,
        )
        self._api = ObjectsAPI(self._client)
        self._observed = ObservedKinds(
            pool=self.informers,
            selectors=options.registry.observed_selectors,
            readiness=self._readiness,
            transform=keep_fields_of(self._api.manager),
            on_change=lambda resource, body: self._orchestrator.on_observed(resource, body),
        )
        self._orchestrator = Orchestrator(
            registry=options.registry,
            settings=settings,
            insights=self._insights,
            readiness=self._readiness,
            pool=self.informers,
            factory=HandlingFactory(
                client=self._client,
                lifecycle=options.lifecycle,
                execution=self._execution,
                memories=self._memories,
                indices=self._indices,
                background=self._background,
                readiness=self._readiness,
                pool=self.informers,
                api=self._api,
                sources=self._observed.get_sources,
                enqueue=lambda key, reason: self._orchestrator.enqueue(key, reason),
            ),
            observed=self._observed,
            on_removed=self._forget,
        )
        self._admission = AdmissionEngine(
            client=self._client,
            registry=options.registry,
            context=ReviewContext(
                settings=settings,
                memories=self._memories,
                memo=options.memo,
                indices=self._indices,
            ),
            execution=self._execution,
            until_ready=self._readiness.wait,
        )
        self._insights.listen(self._admission.observe)

    async def run(self) -> None:
        """Start, serve until stopped, and clean up.

        Raises the error of whatever part has failed if it cannot be recovered from.
        Stopping by the flag is a normal exit. Cancelling is re-raised after the clean-up.
        Raises :class:`AbandonedError` if some of the handlers cannot be stopped in time.
        """
        logger.debug(f"Starting Kopf {get_version()}.")
        operator_var.set(
            OperatorContext(
                self._settings,
                self._recorder,
                client=self._client,
                api=self._api,
                loop=asyncio.get_running_loop(),
            )
        )
        with event_logging, Watchdog():
            try:
                check_registry(self._options.registry, logger)
                if await self._start_up():
                    check_settings(self._settings, logger)
                    check_admission(self._options.registry, self._settings)
                    raise_flag(self._options.ready_flag)
                    await self._serve()
            finally:
                await self._shut_down()
            self.exit.check()

    def stop(self) -> None:
        """Request a graceful exit, the same as with the stop-flag."""
        self.exit.request()

    def abort(self) -> None:
        """Request to exit at once: what works now is cancelled, and is not waited for."""
        self.exit.hasten()
        self._orchestrator.abort()
        self._background.abort()

    @property
    def is_paused(self) -> bool:
        return bool(self._pauses)

    async def pause(self, reason: str = "", *, is_cold: bool = False) -> None:
        """Stop handling and stop all daemons until resumed. The process lives on.

        The streams, indices, and stores go on, so that resuming is instant, and nothing is missed.
        A cold pause stops the streams, too, so that everything is listed anew when resumed.

        There can be several reasons to pause. It lasts until all of them are over.
        """
        self._pauses[reason] = is_cold or self._pauses.get(reason, False)
        self._is_cold |= is_cold
        await asyncio.gather(
            self._orchestrator.pause(is_cold=self._is_cold), self._background.pause()
        )

    def resume(self, reason: str = "") -> None:
        """Continue after the pause, unless there are other reasons for it.

        What has changed meanwhile is handled, from the newest state; and daemons start again.
        """
        if self._pauses.pop(reason, None) is None or self._pauses:
            return
        suspended = self._background.resume()
        self._orchestrator.resume()
        if not self._is_cold:
            for key, (resource, body) in suspended.items():
                raw = cast("RawBody", dict(body))
                self._orchestrator.enqueue(key, "resumed", resource=resource, body=raw)
        self._is_cold = False

    async def _serve(self) -> None:
        """Run all the parts until the stop-flag is raised or any of the parts fails."""
        options = self._options
        authenticator = Authenticator(
            vault=self._vault, registry=options.registry, activities=self._activities
        )
        parts = {
            "stop-flag": wait_flag(options.stop_flag),
            "stopping": self.exit.requested.wait(),
            "credentials retriever": authenticator.run(),
            "credentials renewer": Renewer(self._vault, clock=options.clock).run(),
            "resource observer": self._observer.run(),
            "namespace observer": self._observe_namespaces(),
            "orchestrator": self._orchestrator.run(),
            "admission": self._admission.run(),
            "probes": serve_probes(
                options.liveness_endpoint, options.registry, self._activities, self._find_stale
            ),
        }
        tasks = [asyncio.create_task(coro, name=f"kopf-{name}") for name, coro in parts.items()]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._stop_parts(tasks)
        for task in done:
            task.result()

    async def _observe_namespaces(self) -> None:
        if self._options.clusterwide or not self._options.namespaces:
            self._insights.set_namespaces([None])
            await asyncio.Event().wait()
        await NamespaceObserver(
            client=self._client,
            settings=self._settings,
            insights=self._insights,
            patterns=self._options.namespaces,
        ).run()

    async def _stop_parts(self, tasks: Collection[asyncio.Task[Any]]) -> None:
        self.exit.request()
        if self.exit.hastened.is_set():
            self.abort()
        await asyncio.gather(
            self._finish_work(), self._background.exit(self.exit.get_left_for_work)
        )
        await self._recorder.close(min(POSTING_TIMEOUT, self.exit.get_left()))
        await self._close_admission()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=INTERRUPTION_TIMEOUT)

    async def _finish_work(self) -> None:
        """Let the handlers finish, and interrupt those that do not; wait for those that cannot.

        The latter are in threads. What they have done is remembered on the objects, if in time.
        """
        timeout = min(self._settings.queueing.exit_timeout, self.exit.get_left_for_work())
        await self._orchestrator.stop(timeout)
        if not self._orchestrator.is_idle:
            names = self.exit.describe()
            logger.warning(
                f"Waiting for sync handlers to end, as threads cannot be cancelled: {names}. "
                f"To exit at once, send the signal again."
            )
            await self.exit.wait_for(
                lambda: self._orchestrator.is_idle, self.exit.get_left_for_work
            )
            self._orchestrator.abort()

    async def _close_admission(self) -> None:
        """The webhooks are the last to go: until then, everything is checked as declared."""
        waiters = [
            asyncio.create_task(self._admission.close()),
            asyncio.create_task(self.exit.hastened.wait()),
        ]
        await asyncio.wait(
            waiters,
            timeout=self.exit.get_left_for_work(),
            return_when=asyncio.FIRST_COMPLETED,
        )
        for waiter in waiters:
            waiter.cancel()
        await asyncio.wait(waiters, timeout=INTERRUPTION_TIMEOUT)

    async def _start_up(self) -> bool:
        """Prepare to serve; or not, if the operator is stopped meanwhile."""
        return await self._run_activity(
            Activity.STARTUP, self.exit.requested.wait(), wait_flag(self._options.stop_flag)
        )

    async def _shut_down(self) -> None:
        self.exit.request()
        await self.exit.wait_for(self._has_no_threads, self.exit.get_left_for_work)
        try:
            if not await self._run_activity(
                Activity.CLEANUP, self.exit.wait_for(lambda: False, self.exit.get_left)
            ):
                self.exit.leave("the cleanup activity")
            await self.exit.wait_for(self._has_no_threads, self.exit.get_left)
        finally:
            self._activities.close()
            self._settings.execution.close()
            self._vault.close()
            await self._client.close()
            self.exit.end()

    def _has_no_threads(self) -> bool:
        """Whether all calls have ended, except for the daemons: those had their time already."""
        return all(isinstance(call.handler, DaemonHandler) for call in self._ongoing)

    async def _run_activity(self, activity: Activity, *stoppers: Coroutine[Any, Any, Any]) -> bool:
        """Run the activity unless any of the stoppers ends earlier: get whether it is complete."""
        handlers = self._options.registry.get_activity_handlers(activity)
        running = asyncio.create_task(
            self._activities.run(activity, handlers, get_left=self.exit.get_left)
        )
        tasks = [running, *map(asyncio.ensure_future, stoppers)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                logger.warning(
                    f"The {activity.value} activity is interrupted: the operator is stopping."
                )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=INTERRUPTION_TIMEOUT)
        if not running.done() or running.cancelled():
            return False
        running.result()
        return True

    def _find_stale(self) -> Collection[str]:
        """The streams that show no signs of life for so long that the operator does not serve."""
        if self._is_cold:
            return []
        limit = max(STALE_AFTER, 3 * self._settings.watching.inactivity_timeout)
        since = self._options.clock.monotonic() - limit
        informers = self.informers.informers.items()
        return [str(key) for key, informer in informers if informer.freshness < since]

    def _wake(self, key: ObjectKey) -> None:
        self._orchestrator.enqueue(key, "background")

    def _forget(
        self,
        resource: Resource,
        namespace: str | None,
        keys: Collection[ObjectKey],
    ) -> None:
        """The objects are not served anymore: stop everything, remember nothing."""
        self._background.stop_resource(resource, namespace)
        for key in keys:
            memory = self._memories.get(key)
            if memory is not None and not self._background.is_running(memory):
                self._memories.forget(key)

    def _on_interrupted(self, stream: StreamKey) -> None:
        intake = self._orchestrator.intakes.get(stream)
        if intake is not None:
            intake.on_interrupted()
        self._observed.on_interrupted(stream)
