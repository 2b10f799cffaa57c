"""The operator: the composition root, where all the parts are put together."""

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kopf_cogs.aiokits.flags import raise_flag, wait_flag
from kopf_cogs.aiokits.surroundings import get_surroundings, surroundings_var
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.helpers.callbacks import exit_listener
from kopf_cogs.structs.namespaces import select_specific_namespaces
from kopf_core.actions.context import operator_var
from kopf_core.actions.ongoing import Ongoing
from kopf_core.engines.authentication import Authenticator
from kopf_core.engines.peering.identities import detect_operator
from kopf_core.engines.peering.peering_engine import PeeringEngine
from kopf_core.engines.peering.peering_objects import GROUPS as PEERING_GROUPS
from kopf_core.engines.posting import post_log_messages
from kopf_core.engines.probing import ProbeServer, serve_probes
from kopf_core.engines.tracing import make_traces
from kopf_core.intents.webhooks import WebhookHandler
from kopf_core.reactor.life.announcements import ConnectionAnnouncer, announce_start
from kopf_core.reactor.life.ceremonies import INTERRUPTION_TIMEOUT, Ceremonies
from kopf_core.reactor.life.essentials import Essentials, OperatorOptions
from kopf_core.reactor.life.external_sources import ExternalSources
from kopf_core.reactor.life.governing import PeeringBrakes
from kopf_core.reactor.life.handling import Handling
from kopf_core.reactor.life.leadership import Leadership
from kopf_core.reactor.life.needs import review_rights
from kopf_core.reactor.life.once import Failures
from kopf_core.reactor.life.replication import Replication
from kopf_core.reactor.life.shard_orders import Sharding
from kopf_core.reactor.life.watchdog import Watchdog
from kopf_core.reactor.shape.preflight import (
    check_registry,
    check_settings,
    check_sharing,
)
from kopf_core.reactor.streams.modes import Mode

if TYPE_CHECKING:
    from kopf_core.engines.admission import AdmissionEngine

__all__ = ["Operator", "OperatorOptions"]

logger = logging.getLogger("kopf._core.reactor.running")

POSTING_TIMEOUT = 1.0
"""How long (in seconds) the exiting operator posts the remaining events."""


class Operator:
    """One operator: a set of handlers that serves a set of resources in a cluster.

    Create it and run it once, in one event loop.
    """

    def __init__(self, options: OperatorOptions) -> None:
        self.essentials = essentials = Essentials(options)
        self.exit = essentials.exit
        self.handling = Handling(essentials)
        self._options = options
        self._context = contextvars.copy_context()
        self._ceremonies = Ceremonies(options.registry, essentials.activities, self.exit)
        self.leadership = Leadership(essentials, self.handling)
        self._replication = Replication(essentials)
        self._sharding = Sharding(essentials, self.handling)
        self._authenticator = Authenticator(
            vault=essentials.vault,
            registry=options.registry,
            # The exit does not wait for logins: no part needs them then.
            activities=replace(essentials.activities, ongoing=Ongoing()),
        )
        self._admission: AdmissionEngine | None = None
        self._failures = None if options.once is None else Failures()
        self._identity = options.identity or detect_operator(options.clock.now())
        announcer = ConnectionAnnouncer(essentials.vault, options.settings, self._identity)
        essentials.insights.listen(announcer.observe)
        options.settings.peering.clusterwide |= options.is_clusterwide
        self._peering = PeeringEngine(
            client=essentials.free_client,
            settings=options.settings,
            identity=self._identity,
            brakes=PeeringBrakes(self.handling.governor),
        )
        essentials.insights.listen(self._peering.observe_resources)
        essentials.insights.listen_namespaces(self._peering.observe_namespaces)

    async def run(self) -> None:
        """Start, serve until stopped, and clean up.

        Raises the error of a failed part, if that error cannot be recovered from. A stop by the
        flag is a normal exit. A cancellation is raised again after the clean-up. Raises
        :class:`AbandonedError` if some handlers cannot be stopped in time.
        """
        announce_start(self._options)
        operator_var.set(self.essentials.make_context())
        surroundings_var.set(replace(get_surroundings(), clock=self._options.clock))
        exit_listener.set(self.exit.grant)
        self._context = contextvars.copy_context()
        post_log_messages()
        await self.handling.happenings.open(self._options.assigner)
        host = self._options.host
        with Watchdog() if host is None else contextlib.nullcontext():
            try:
                if host is None:
                    check_registry(self._options.registry, logger)
                if await self._ceremonies.start_up(*self._make_stoppers()):
                    api = self.essentials.api
                    api.manager = self._options.settings.name or api.manager
                    if self.essentials.is_dry:
                        _stand_alone(self._options.settings)
                    check_settings(self._options.settings, logger)
                    if self._options.assigner is not None:
                        check_sharing(self._options.settings)
                    self._admission = self._make_admission()
                    raise_flag(self._options.ready_flag)
                    await self._serve()
            finally:
                self.handling.happenings.close()
                try:
                    await self._shut_down()
                finally:
                    self._report()  # cleanup handlers can change objects, too
                _log_stopped("Root", [])
                self._log_hung()
            self.exit.check()

    def _make_stoppers(self) -> Iterator[Coroutine[Any, Any, None]]:
        """The waits that interrupt the startup handlers when any of them ends or fails."""
        yield wait_flag(self._options.stop_flag)
        yield self._authenticator.run_on_demand()
        if self._options.once is not None:
            yield self._options.once.limit_start()

    def _report(self) -> None:
        """Store the results of the run, if it is a run that ends by itself."""
        once, client = self._options.once, self.essentials.client
        if once is not None and self._failures is not None:
            once.unfinished += self._failures.describe()
            if not once.is_quiet and not once.unfinished:
                once.unfinished.append("The run was stopped before everything was handled.")
        if once is not None and once.dry_run:
            from kopf_cogs.clients.rehearsal.client import RehearsalClient

            assert isinstance(client, RehearsalClient)
            once.differences += client.overlay.get_differences()

    def stop(self) -> None:
        """Request a graceful exit, the same as with the stop-flag."""
        self.exit.request()

    def abort(self) -> None:
        """Request to exit at once: running work is cancelled, and is not waited for."""
        self.exit.hasten()
        self.handling.abort()

    @property
    def is_paused(self) -> bool:
        return self.handling.governor.is_paused

    async def pause(self, reason: str = "", *, is_cold: bool = False) -> None:
        """Handle nothing, and stop all daemons, until resumed. The process lives on.

        The streams, indices, and stores go on, so that resuming is instant, and nothing is missed.
        A cold pause stops the streams, too; everything is listed again when it ends.

        There can be several reasons to pause. The pause lasts until all of them are over.
        """
        await self.handling.governor.impose(reason, Mode.COLD if is_cold else Mode.GATED)

    def resume(self, reason: str = "") -> None:
        """Continue after the pause, unless there are other reasons for it.

        Changes from the pause are handled, by the newest state; and daemons start again.
        """
        # Turns begin in this context, and their handlers must find the operator in it.
        self._context.run(self.handling.governor.lift, reason)

    async def _serve(self) -> None:
        """Run all parts until the stop-flag is raised, or any of the parts fails."""
        if self._peering.start():
            self.essentials.execution.door.add_guard(self._peering.is_sure)
            self.handling.observer.include(PEERING_GROUPS)
        await self.leadership.start()
        await self._sharding.start(self._replication.start() or self._options.assigner)
        parts = self._make_parts()
        tasks = [asyncio.create_task(coro, name=f"kopf-{name}") for name, coro in parts.items()]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._stop_parts(tasks)
        for task in done:
            task.result()

    def _make_parts(self) -> dict[str, Coroutine[Any, Any, Any]]:
        """The parts that run at the same time, for as long as the operator serves."""
        options, essentials, handling = self._options, self.essentials, self.handling

        def find_problems() -> Collection[str]:
            return [*self._authenticator.find_problems(), *handling.find_problems()]

        return {
            "stop-flag": wait_flag(options.stop_flag),
            "stopping": self.exit.requested.wait(),
            "credentials retriever": self._authenticator.run(),
            "resource observer": handling.observer.run(),
            "namespace observer": handling.observe_namespaces(),
            "orchestrator": handling.orchestrator.run(),
            "leadership": self.leadership.run(),
            "replication": self._replication.run(),
            "sharding": self._sharding.run(),
            "peering": self._peering.run(),
            "rights": review_rights(essentials),
            "probes": serve_probes(
                options.liveness_endpoint,
                options.registry,
                essentials.activities,
                find_problems,
            ),
            **self._make_endpoints(find_problems),
            **self._make_sources(),
            **self._make_end(),
            **self._make_parts_of_ring(),
        } | ({} if self._admission is None else {"admission": self._admission.run()})

    @property
    def _is_first(self) -> bool:
        """Whether this process is the only one, or the first of several."""
        return self._options.assigner is None or self._options.assigner.is_first

    def _make_admission(self) -> "AdmissionEngine | None":
        """Make the part that serves webhooks, or removes the ones left by earlier versions."""
        registry, settings = self._options.registry, self._options.settings
        if self._options.once is not None:
            return None  # this run serves no webhooks, but other operators can do so
        hooks = [h for h in registry.resource_handlers if isinstance(h, WebhookHandler)]
        are_there = bool(hooks or registry.conversions)
        admission, essentials = settings.admission, self.essentials
        if not are_there and admission.server is None and admission.managed is None:
            return None
        if not self._is_first:
            return None
        # Its import takes time, and few operators need it.
        from kopf_core.engines.admission import AdmissionEngine, ReviewContext, check_admission

        check_admission(registry, settings)
        engine = AdmissionEngine(
            client=essentials.free_client,
            registry=registry,
            context=ReviewContext(
                settings=settings,
                memories=essentials.memories,
                memo=self._options.memo,
                indices=essentials.indices,
            ),
            execution=essentials.execution,
            identity=self._identity,
            until_ready=essentials.readiness.wait,
        )
        essentials.insights.listen(engine.observe)
        return engine

    def _make_sources(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Make the part that runs the functions of external happenings, if there are any."""
        handling = self.handling
        sources = ExternalSources(self.essentials, handling.happenings.accept)
        if self._options.once is not None or not sources.handlers or not self._is_first:
            return {}
        handling.governor.include(sources)
        return {"sources": sources.run()}

    def _make_end(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Make the part that ends when nothing is left to do, for a run that ends by itself."""
        once = self._options.once
        if once is None:
            return {}
        from kopf_core.reactor.life.quietness import Quietness

        return {"quietness": Quietness(self.essentials, self.handling, once).wait()}

    def _make_parts_of_ring(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Make the parts that work with the sharder, if this is a shard of a ring."""
        ring = self._replication.ring
        if ring is None:
            return {}
        # Their imports take time, and few operators need them.
        from kopf_core.reactor.life.ring_checks import check_ring
        from kopf_core.reactor.life.ring_drains import Drains

        return {
            "drains": Drains(ring, self.essentials.client, self._sharding.let_go).run(),
            "ring": check_ring(self.essentials),
        }

    def _make_endpoints(
        self, find_problems: Callable[[], Collection[str]]
    ) -> dict[str, Coroutine[Any, Any, None]]:
        """Plug in the instruments, and make the endpoints that show their results."""
        traces = make_traces(self.essentials.settings.cluster)
        own = [one for one in (traces, self._failures) if one is not None]
        serving, host = self._options.settings.serving, self._options.host
        if not serving.endpoint and not serving.status and host is None:
            self.essentials.plug_in(own)
            return {}
        # Its import takes time, and few operators need it.
        from kopf_core.engines.serving import Endpoint, StatusEndpoint, make_metrics
        from kopf_core.reactor.life.operator_status import OperatorStatus

        names = select_specific_namespaces(self._options.namespaces)
        metrics = make_metrics(names) if serving.endpoint else None
        self.essentials.plug_in([*([] if metrics is None else [metrics]), *own])
        status = OperatorStatus(
            self.essentials,
            self.handling,
            self.leadership,
            self._replication,
            find_problems,
            self._admission,
        )
        if host is not None:
            host.show(status, metrics)
            return {}
        endpoints: dict[str, Coroutine[Any, Any, None]] = {}
        if serving.status:
            endpoint = StatusEndpoint(status, serving.status, serving.token)
            endpoints["status"] = endpoint.serve()
        if serving.endpoint:
            registry, activities = self._options.registry, self.essentials.activities
            livez = ProbeServer(registry, activities, find_problems).handle
            expose = None if metrics is None else metrics.expose
            endpoints["endpoint"] = Endpoint(status, livez=livez, expose=expose).serve(
                serving.endpoint
            )
        return endpoints

    async def _stop_parts(self, tasks: Collection[asyncio.Task[Any]]) -> None:
        self.exit.request()
        if self.exit.hastened.is_set():
            self.abort()
        await self.handling.finish()
        _log_stopped("Streaming", [])
        await self.essentials.recorder.close(min(POSTING_TIMEOUT, self.exit.get_left()))
        await self._close_admission()
        await self._peering.leave(self.exit.limit)
        for task in tasks:
            task.cancel()
        _, left = await asyncio.wait(tasks, timeout=INTERRUPTION_TIMEOUT)
        _log_stopped("Core", left)

    async def _close_admission(self) -> None:
        """Close the webhooks as the last part: until then, the API needs their answers.

        They are released even if there is little time: the API refuses changes without answers.
        """
        if self._admission is None:
            return
        if self._options.assigner is not None:
            await self._wait_while_exiting(self._options.assigner.outlive())
        delay = await self._admission.release(self.exit.limit)
        await self._wait_while_exiting(self._admission.drain(delay))

    async def _wait_while_exiting(self, coro: Coroutine[Any, Any, None]) -> None:
        """Wait for the coroutine as long as the exit permits."""
        waiters = [asyncio.create_task(coro), asyncio.create_task(self.exit.hastened.wait())]
        await asyncio.wait(
            waiters,
            timeout=self.exit.get_left_for_work(),
            return_when=asyncio.FIRST_COMPLETED,
        )
        for waiter in waiters:
            waiter.cancel()
        await asyncio.wait(waiters, timeout=INTERRUPTION_TIMEOUT)

    async def _shut_down(self) -> None:
        self.exit.request()
        try:
            await self._ceremonies.clean_up()
        finally:
            await self.leadership.stop()
            await self._replication.stop()
            await self.essentials.close()

    def _log_hung(self) -> None:
        hung = self.exit.describe()
        logger.debug(
            f"Hung tasks are left as is: {hung}."
            if hung
            else "Hung tasks stopping is skipped: no tasks given."
        )


def _stand_alone(settings: OperatorSettings) -> None:
    """Take part in no peering and in no election: rehearsals do not concern other operators."""
    settings.peering.standalone = True
    settings.leasing.name = settings.sharding.name = settings.sharding.ring = None


def _log_stopped(title: str, left: Collection[asyncio.Task[Any]]) -> None:
    """Log the end of a stage of the exit. People and their tests wait for these lines."""
    names = {task.get_name() for task in left}
    state = "not stopped" if names else "stopped"
    logger.debug(f"{title} tasks are {state}: finishing normally; tasks left: {names!r}")
