"""The fleet: one process for several clusters, with one operator for each of them.

The operators have nothing in common but the handlers, the threads, and the memo. So objects of
different clusters never mix, even if they have the same uids. All that belongs to the process is
here: the startup and the cleanup, the endpoints, the signals, and the exit.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from kopf_cogs.aiokits.flags import raise_flag, wait_flag
from kopf_cogs.aiokits.sleeps import sleep
from kopf_cogs.aiokits.surroundings import get_surroundings, surroundings_var
from kopf_cogs.clients.retries import Backoff
from kopf_cogs.helpers.callbacks import exit_listener
from kopf_cogs.structs.bodies import ObjectReference
from kopf_core.actions.context import OperatorContext, operator_var
from kopf_core.actions.ongoing import Ongoing
from kopf_core.actions.retrying import describe
from kopf_core.engines.activities import ActivityRunner
from kopf_core.engines.probing import ProbeServer, serve_probes
from kopf_core.intents.causes import Activity
from kopf_core.intents.indices import Indices
from kopf_core.intents.webhooks import WebhookHandler
from kopf_core.reactor.life.ceremonies import INTERRUPTION_TIMEOUT, Ceremonies
from kopf_core.reactor.life.clusters import Cluster, parse_clusters
from kopf_core.reactor.life.essentials import OperatorOptions
from kopf_core.reactor.life.exiting import Exit
from kopf_core.reactor.life.watchdog import Watchdog
from kopf_core.reactor.process.cluster_marks import marked_clusters
from kopf_core.reactor.process.fleet_status import FleetStatus
from kopf_core.reactor.process.keepers import ClusterKeeper
from kopf_core.reactor.shape.preflight import SettingsError, check_registry, check_settings

logger = logging.getLogger("kopf.clusters")

PROVIDING = 1.0
"""How long (in seconds) until a failed provider is called again; then, twice as long each time."""

ACTIVITIES = (Activity.AUTHENTICATION, Activity.LEADING, Activity.FOLLOWING, Activity.EXTERNAL)
"""The activities of each cluster. All others are activities of the process."""


class Fleet:
    """Several operators as one: each serves its cluster with the same handlers."""

    def __init__(self, options: OperatorOptions) -> None:
        self._options = options
        self._keepers: dict[str, ClusterKeeper] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        ongoing = _AllOngoing(lambda: self._keepers)
        self.exit = Exit(options.settings, lambda: options.registry.handlers, ongoing)
        options.indices.declare(options.registry.index_ids)
        self._activities = ActivityRunner(
            options.settings, options.memo, options.indices, options.clock, ongoing
        )
        self._ceremonies = Ceremonies(options.registry, self._activities, self.exit)
        self._status = FleetStatus(options.clock, self._keepers)

    def stop(self) -> None:
        """Request a graceful exit."""
        self.exit.request()

    def abort(self) -> None:
        """Request to exit at once: running work is cancelled, and is not waited for."""
        self.exit.hasten()
        for keeper in self._keepers.values():
            keeper.abort()

    async def run(self) -> None:
        """Start, serve until stopped, and clean up. Raises the error of a failed part."""
        options = self._options
        loop = asyncio.get_running_loop()
        operator_var.set(OperatorContext(options.settings, _NoRecorder(), loop=loop))
        surroundings_var.set(replace(get_surroundings(), clock=options.clock))
        exit_listener.set(self.exit.grant)
        with Watchdog(), marked_clusters():
            try:
                check_registry(options.registry, logger, is_one_cluster=False)
                self._check_contexts()
                if await self._ceremonies.start_up(wait_flag(options.stop_flag)):
                    check_settings(options.settings, logger)
                    self._check_webhooks()
                    raise_flag(options.ready_flag)
                    await self._serve()
            finally:
                await self._shut_down()
            self.exit.check()

    def _check_contexts(self) -> None:
        """Raise :class:`LoginError` if the kubeconfig has no such contexts."""
        clusters = self._options.clusters
        if clusters is None or callable(clusters):
            return
        for cluster in parse_clusters(clusters).values():
            if cluster.choose_login(self._options.registry) is not None:
                cluster.check()

    def _check_webhooks(self) -> None:
        registry, server = self._options.registry, self._options.settings.admission.server
        hooks = [one for one in registry.resource_handlers if isinstance(one, WebhookHandler)]
        if hooks or registry.conversions or server is not None:
            raise SettingsError(
                "Webhooks and conversions do not work with several clusters: "
                "each cluster needs a server of its own. Serve them by another operator."
            )

    async def _serve(self) -> None:
        """Run all parts until the stop-flag is raised, or any of the parts fails."""
        parts = self._make_parts()
        tasks = [asyncio.create_task(coro, name=f"kopf-{name}") for name, coro in parts.items()]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.exit.request()
            await self._close_keepers()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=INTERRUPTION_TIMEOUT)
        for task in done:
            task.result()

    def _make_parts(self) -> dict[str, Coroutine[Any, Any, Any]]:
        options, activities = self._options, self._activities
        problems, endpoint = self._status.find_problems, options.liveness_endpoint
        return {
            "stop-flag": wait_flag(options.stop_flag),
            "stopping": self.exit.requested.wait(),
            "clusters": self._follow(),
            "probes": serve_probes(endpoint, options.registry, activities, problems),
            **self._make_endpoints(),
        }

    def _make_endpoints(self) -> dict[str, Coroutine[Any, Any, None]]:
        serving, status = self._options.settings.serving, self._status
        endpoints: dict[str, Coroutine[Any, Any, None]] = {}
        if not serving.endpoint and not serving.status:
            return endpoints
        # Its import takes time, and few operators need it.
        from kopf_core.engines.serving import Endpoint, StatusEndpoint

        if serving.status:
            shown = StatusEndpoint(status, serving.status, serving.token)
            endpoints["status"] = shown.serve()
        if serving.endpoint:
            registry, problems = self._options.registry, status.find_problems
            livez = ProbeServer(registry, self._activities, problems).handle
            probed = Endpoint(status, livez=livez, expose=status.make_exposition())
            endpoints["endpoint"] = probed.serve(serving.endpoint)
        return endpoints

    async def _follow(self) -> None:
        """Serve the clusters that are wanted, for as long as the process runs."""
        clusters = self._options.clusters
        if clusters is not None and not callable(clusters):
            self._want(parse_clusters(clusters))
        elif clusters is not None:
            await self._follow_provider(clusters)
        await asyncio.Event().wait()

    async def _follow_provider(self, provide: Callable[..., Any]) -> None:
        """Call the provider until it ends: again and again after its errors."""
        backoff, options = Backoff(PROVIDING), self._options
        kwargs = {"settings": options.settings, "memo": options.memo, "logger": logger}
        while True:
            try:
                async with aclosing(provide(**kwargs)) as generator:
                    async for clusters in generator:
                        self._want(parse_clusters(clusters))
                        backoff.reset()
                return
            except Exception as e:
                delay = backoff.advance()
                logger.warning(
                    f"The provider of clusters has failed: {describe(e)}. The clusters remain "
                    f"as they are. It is called again in {delay:.0f} seconds."
                )
                await sleep(delay)

    def _want(self, clusters: Mapping[str, Cluster]) -> None:
        """Serve these clusters from now on, and no others, unless the process exits."""
        if self.exit.requested.is_set():
            return
        for name, keeper in self._keepers.items():
            keeper.want(clusters.get(name))
        for name in [name for name in clusters if name not in self._keepers]:
            keeper = ClusterKeeper(clusters[name], self._make_options, self.exit)
            self._keepers[name] = keeper
            self._tasks[name] = asyncio.create_task(self._keep(name), name=f"kopf-cluster-{name}")

    async def _keep(self, name: str) -> None:
        try:
            await self._keepers[name].run()
        finally:
            del self._keepers[name], self._tasks[name]

    def _make_options(self, cluster: Cluster, keeper: ClusterKeeper) -> OperatorOptions:
        """The options of the operator for one of the clusters."""
        options, registry = self._options, self._options.registry.narrow(ACTIVITIES)
        login = cluster.choose_login(registry)
        if login is not None:
            registry = registry.narrow([one for one in ACTIVITIES if one is not login.activity])
            registry.append(login)
        return replace(
            options,
            registry=registry,
            settings=options.settings.for_cluster(cluster.name),
            indices=Indices(),
            stop_flag=None,
            ready_flag=None,
            liveness_endpoint=None,
            clusters=None,
            host=keeper,
        )

    async def _close_keepers(self) -> None:
        """Stop all operators, and wait for them as long as they may take."""
        for keeper in self._keepers.values():
            keeper.want(None)
        tasks = [*self._tasks.values()]
        try:
            if tasks:
                await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _shut_down(self) -> None:
        self.exit.request()
        try:
            await self._ceremonies.clean_up()
        finally:
            self._activities.close()
            self._options.settings.execution.close()
            self.exit.end()


class _NoRecorder:
    """The recorder of events for functions that belong to no cluster."""

    def record(self, ref: ObjectReference, *, message: str, **_: Any) -> None:
        logger.warning(f"An event is not posted, as it is of no cluster: {message}")


class _AllOngoing(Ongoing):
    """The calls of the process; the calls of the clusters are only named."""

    __slots__ = ("_get_keepers",)

    def __init__(self, get_keepers: Callable[[], Mapping[str, ClusterKeeper]]) -> None:
        super().__init__()
        self._get_keepers = get_keepers

    def describe(self) -> list[str]:
        """Name the running handlers, each with its object and its cluster."""
        clusters: Iterable[tuple[str, ClusterKeeper]] = list(self._get_keepers().items())
        named = [f"{call} in {name}" for name, keeper in clusters for call in keeper.describe()]
        return [*super().describe(), *named]
