"""The admission engine: a webhook server, its handlers, and its configurations in the cluster."""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping
from concurrent.futures import Executor
from typing import Any

from kopf_cogs.aiokits.clocks import TimeLimit
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.resources import MUTATING_WEBHOOK, VALIDATING_WEBHOOK, Resource
from kopf_cogs.structs.reviews import WebhookClientConfig, WebhookFn
from kopf_core.actions.errors import ErrorsMode
from kopf_core.actions.execution import Execution
from kopf_core.actions.threads import Door
from kopf_core.engines.admission.configurations import Served, build_webhooks
from kopf_core.engines.admission.conversion_keeping import ConversionKeeper
from kopf_core.engines.admission.converting import Converter
from kopf_core.engines.admission.managing import ConfigurationKeeper, make_manager
from kopf_core.engines.admission.replica_marks import ReplicaMarks
from kopf_core.engines.admission.reviewing import ReviewContext, Reviewer, Tally, make_threads
from kopf_core.engines.admission.routes import Routes
from kopf_core.intents.conversions import group_by_kind
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.intents.webhooks import WebhookHandler, WebhookType

logger = logging.getLogger("kopf._core.engines.admission")

_RESOURCES = {
    WebhookType.VALIDATING: VALIDATING_WEBHOOK,
    WebhookType.MUTATING: MUTATING_WEBHOOK,
}


class AdmissionSetupError(Exception):
    """The webhooks cannot be served as they are declared."""

    expected = True


def get_webhook_handlers(registry: OperatorRegistry) -> list[WebhookHandler]:
    return [h for h in registry.resource_handlers if isinstance(h, WebhookHandler)]


def check_admission(registry: OperatorRegistry, settings: OperatorSettings) -> None:
    """Raise :class:`AdmissionSetupError` if there are webhooks, but no server for them."""
    are_there = get_webhook_handlers(registry) or registry.conversions
    if are_there and settings.admission.server is None:
        raise AdmissionSetupError(
            "Admission handlers exist, but no admission server/tunnel is configured "
            "in `settings.admission.server`."
        )


class AdmissionEngine:
    """Serves the webhooks of one operator.

    Kopf calls no handlers until the resources are known and the operator is ready, i.e. until all
    its indices are full. Nor does it write the configurations before that.
    """

    def __init__(
        self,
        *,
        client: Client,
        registry: OperatorRegistry,
        context: ReviewContext,
        execution: Execution,
        identity: str,
        until_ready: Callable[[], Awaitable[None]],
    ) -> None:
        handlers = get_webhook_handlers(registry)
        self._client = client
        self._settings = context.settings
        self._handlers = handlers
        self._conversions = registry.conversions
        self._routes = Routes(handlers)
        self._context = context
        self._execution = execution
        self._identity = identity
        self._until_ready = until_ready
        self._threads: Executor | None = None
        self._reviewer: Reviewer | None = None
        self._keepers: Mapping[WebhookType, ConfigurationKeeper] = {}
        self._conversion_keepers: Collection[ConversionKeeper] = ()
        self._served: Served | None = None
        self._is_ready = False
        self._client_config: WebhookClientConfig | None = None

    @property
    def tallies(self) -> Mapping[WebhookHandler, Tally]:
        """The counts of reviews of each webhook since the start."""
        known = {} if self._reviewer is None else self._reviewer.tallies
        return {handler: known.get(handler, Tally()) for handler in self._handlers}

    @property
    def is_serving(self) -> bool:
        """Whether the server listens, if there is any."""
        return self._settings.admission.server is None or self._client_config is not None

    def observe(self, resources: Collection[Resource]) -> None:
        """Take the resources that exist in the cluster now."""
        self._served = {
            handler: frozenset(handler.selector.resolve(resources).resources)
            for handler in self._handlers
            if handler.selector is not None
        }
        self._revise()

    async def run(self) -> None:
        """Serve until cancelled.

        Raises the error of the webhook server, or an error if the server ends by itself.
        """
        server = self._settings.admission.server
        self._keepers = self._make_keepers()
        self._conversion_keepers = self._make_conversion_keepers()
        parts: list[Coroutine[Any, Any, None]] = [
            self._open_when_ready(),
            *(keeper.run() for keeper in self._keepers.values()),
            *(keeper.run() for keeper in self._conversion_keepers),
        ]
        if server is not None:
            parts.append(self._run_server(server))
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)
        for task in done:
            task.result()

    async def release(self, limit: TimeLimit) -> float:
        """Ask the API to call this server no more; return for how many seconds it still may do so.

        The webhooks are removed from the cluster only if there are no other replicas.
        """
        if self._reviewer is not None:
            self._reviewer.is_leaving = True
        delays = await asyncio.gather(
            *(
                keeper.release(self._build(type, persistent=True), limit)
                for type, keeper in self._keepers.items()
            )
        )
        return max(delays, default=0.0)

    async def drain(self, delay: float) -> None:
        """Serve for that many seconds, and then for as long as there are requests."""
        await asyncio.sleep(delay)
        if self._reviewer is not None:
            await self._reviewer.drain()

    async def _run_server(self, server: Any) -> None:
        if self._settings.admission.managed is None and (self._handlers or self._conversions):
            logger.info(
                "Kopf does not configure the cluster to call the webhooks, as "
                "`settings.admission.managed` is not set: an administrator has to do this."
            )
        self._threads = make_threads(self._settings)
        execution = dataclasses.replace(
            self._execution,
            errors=ErrorsMode.PERMANENT,
            subhandling=None,
            executor=self._threads,
            endures=False,  # the API waits no longer than the timeout of a webhook
            door=Door(),  # reviews are judged without the lease, too
        )
        converter = Converter(self._conversions, self._threads) if self._conversions else None
        self._reviewer = Reviewer(self._context, execution, self._routes, converter)
        self._revise()
        async for config in _iterate(server, self._reviewer):
            self._client_config = config
            for keeper in self._conversion_keepers:  # the API needs them even for lists of objects
                keeper.want(config)
            self._revise()
        raise AdmissionSetupError("The webhook server has exited unexpectedly.")

    async def _open_when_ready(self) -> None:
        await self._until_ready()
        self._is_ready = True
        self._revise()
        await asyncio.Event().wait()

    def _make_keepers(self) -> Mapping[WebhookType, ConfigurationKeeper]:
        name = self._settings.admission.managed
        if name is None:
            return {}
        manager = make_manager(self._handlers)
        return {
            type: ConfigurationKeeper(
                self._client,
                type,
                resource,
                name=name,
                manager=manager,
                replica_marks=ReplicaMarks(manager, self._identity, self._execution.clock),
            )
            for type, resource in _RESOURCES.items()
        }

    def _make_conversion_keepers(self) -> Collection[ConversionKeeper]:
        if self._settings.admission.managed is None:
            return ()
        kinds = group_by_kind(self._conversions).items()
        return [ConversionKeeper(self._client, kind, ways) for kind, ways in kinds]

    def _revise(self) -> None:
        """Pass the known resources and the address of the server to all parts that need them."""
        if self._served is None or not self._is_ready:
            return
        if self._reviewer is not None:
            self._reviewer.serve(self._served)
        if self._client_config is not None or not self._handlers:
            for type, keeper in self._keepers.items():
                keeper.want(self._build(type))

    def _build(self, type: WebhookType, *, persistent: bool = False) -> list[dict[str, Any]]:
        served = {
            handler: resources
            for handler, resources in (self._served or {}).items()
            if handler.persistent or not persistent
        }
        return build_webhooks(
            type,
            served,
            self._routes,
            client_config=self._client_config or {},
            suffix=self._settings.admission.managed or "",
        )


async def _iterate(server: Any, fn: WebhookFn) -> AsyncIterator[WebhookClientConfig]:
    """Run the server inside of its own context manager, if it is one."""
    async with contextlib.AsyncExitStack() as stack:
        if hasattr(type(server), "__aenter__"):
            server = await stack.enter_async_context(server)
        configs = server(fn)
        if hasattr(configs, "aclose"):
            configs = await stack.enter_async_context(contextlib.aclosing(configs))
        async for config in configs:
            yield config
