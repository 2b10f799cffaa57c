"""The essentials of an operator: the values that all its parts share."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.aiokits.flags import Flag
from kopf_cogs.aiokits.surroundings import get_clock, get_threads
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.clients.session import Client
from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.memos import AnyMemo, Memo
from kopf_cogs.structs.namespaces import NamespacePattern, select_specific_namespaces
from kopf_core.actions.context import OperatorContext
from kopf_core.actions.execution import Execution
from kopf_core.actions.instruments import Instruments, JointInstruments
from kopf_core.actions.lifecycles import Lifecycle, get_default_lifecycle
from kopf_core.actions.ongoing import Ongoing
from kopf_core.actions.threads import Door
from kopf_core.engines.activities import ActivityRunner
from kopf_core.engines.memories import ObjectMemories
from kopf_core.engines.posting import EventRecorder
from kopf_core.engines.sharding.shares import Share, Supervision
from kopf_core.intents.indices import Indices
from kopf_core.intents.registries import OperatorRegistry, get_default_registry
from kopf_core.reactor.life.clusters import Clusters, Host, Provider
from kopf_core.reactor.life.exiting import Exit
from kopf_core.reactor.life.once import Once
from kopf_core.reactor.object.subhandling import run_subhandlers
from kopf_core.reactor.shape.observation import Insights
from kopf_core.reactor.streams.readiness import Readiness

INDEXING_THREADS = "kopf-index"
"""The prefix of the names of threads for sync index functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    """The options of an operator. All of them have defaults, suitable for most operators."""

    registry: OperatorRegistry = field(default_factory=get_default_registry)
    settings: OperatorSettings = field(default_factory=OperatorSettings)
    lifecycle: Lifecycle = field(default_factory=get_default_lifecycle)
    memo: AnyMemo = field(default_factory=Memo)
    vault: Vault | None = None
    identity: str | None = None
    clusterwide: bool = False
    namespaces: Collection[NamespacePattern] = ()
    stop_flag: Flag | None = None
    ready_flag: Flag | None = None
    liveness_endpoint: str | None = None
    indices: Indices = field(default_factory=Indices)
    clock: Clock = field(default_factory=get_clock)
    once: Once | None = None
    assigner: Supervision | None = None
    clusters: Clusters | Provider | None = None
    host: Host | None = None
    """The part that serves the endpoints for this operator, if there are several clusters."""

    @property
    def patterns(self) -> Collection[NamespacePattern]:
        """The namespaces to serve one by one; empty if all of them are served at once."""
        patterns = () if self.clusterwide else self.namespaces
        is_selective = self.settings.scanning.namespace_selector is not None
        return patterns or (("*",) if is_selective else ())

    @property
    def is_clusterwide(self) -> bool:
        """Whether all namespaces are served by one stream for a resource."""
        return not self.patterns

    @property
    def is_exact(self) -> bool:
        """Whether the served namespaces are known by their names: no labels matter."""
        if self.is_clusterwide or self.settings.scanning.namespace_selector is not None:
            return False
        return len(select_specific_namespaces(self.patterns)) == len({*self.patterns})


class Essentials:
    """The parts that are made first, of the options, and are given to all other parts."""

    def __init__(self, options: OperatorOptions) -> None:
        self.options = options
        self.registry = options.registry
        self.settings = options.settings
        self.vault = options.vault if options.vault is not None else Vault(clock=options.clock)
        self.client = _make_client(options, self.vault)
        self.free_client = self.client.without_limits()
        self.api = ObjectsAPI(self.client)
        self.recorder = EventRecorder(self.client, self.settings)
        self.memories = ObjectMemories(options.memo)
        self.share: Share | None = None
        """The objects of this process, if other processes handle the rest."""

        self.indices = options.indices
        self.indices.declare(options.registry.index_ids)
        self.arguments = self.indices.as_arguments(options.settings.cluster)
        self.insights = Insights()
        self.readiness = Readiness()
        self.ongoing = Ongoing()
        self.exit = Exit(self.settings, lambda: options.registry.handlers, self.ongoing)
        # Hanging index functions must not take the threads of other functions.
        self.indexing_threads = get_threads().make_pool(name=INDEXING_THREADS)
        self.activities = ActivityRunner(
            self.settings, options.memo, self.arguments, options.clock, self.ongoing, self.is_dry
        )
        self.execution = Execution(
            settings=self.settings,
            lifecycle=options.lifecycle,
            subhandling=run_subhandlers,
            clock=options.clock,
            ongoing=self.ongoing,
            door=Door(lambda: not self.client.is_fenced),
            dryrun=self.is_dry,
        )

    @property
    def is_dry(self) -> bool:
        """Whether this is a rehearsal: the server commits no writes."""
        return self.options.once is not None and self.options.once.dry_run

    def plug_in(self, instruments: Collection[Instruments]) -> None:
        """Let these instruments measure and trace everything from now on."""
        if instruments:
            joint = JointInstruments(instruments)
            chosen = joint if len(instruments) > 1 else next(iter(instruments))
            self.client.on_request = self.free_client.on_request = chosen.on_request
            self.execution.panel.instruments = chosen

    def make_context(self) -> OperatorContext:
        """The context of the operator for all functions that run inside of it."""
        return OperatorContext(
            self.settings,
            self.recorder,
            client=self.client,
            api=self.api,
            loop=asyncio.get_running_loop(),
        )

    async def close(self) -> None:
        """Close everything, as nothing runs anymore."""
        self.activities.close()
        self.settings.execution.close()
        self.indexing_threads.shutdown(wait=False, cancel_futures=True)
        self.vault.close()
        await self.client.close()
        self.exit.end()


def _make_client(options: OperatorOptions, vault: Vault) -> Client:
    if options.once is None or not options.once.dry_run:
        return Client(vault, options.settings, clock=options.clock)
    # Its import takes time, and few operators need it.
    from kopf_cogs.clients.rehearsal.client import RehearsalClient

    return RehearsalClient(vault, options.settings, clock=options.clock)
