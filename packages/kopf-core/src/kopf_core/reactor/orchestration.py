"""Orchestration: which watches run now, in accordance with what exists in the cluster."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from kopf_cogs.clients.errors import APINotFoundError
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.intents.registries import OperatorRegistry, ResourceHandlers
from kopf_core.reactor.informers import Informer
from kopf_core.reactor.observation import Insights
from kopf_core.reactor.readiness import Readiness
from kopf_core.reactor.warnings import warn_of_exposed_secrets

logger = logging.getLogger("kopf.reactor.orchestration")

InformerKey = tuple[Resource, str | None]


@dataclass(slots=True)
class _Stream:
    informer: Informer
    task: asyncio.Task[None] | None = None
    is_lost: bool = False
    """The resource was not there anymore; it is to be started anew if it is discovered again."""


class Orchestrator:
    """Starts and stops the informers when resources and namespaces come and go.

    ``make_informer`` is given the resource, its handlers, and the namespace.
    ``on_removed`` is told when a resource is not served in a namespace anymore.
    ``on_lost`` is told when a resource is found absent before it is known from the discovery.
    """

    def __init__(
        self,
        *,
        registry: OperatorRegistry,
        settings: OperatorSettings,
        insights: Insights,
        readiness: Readiness,
        make_informer: Callable[[Resource, ResourceHandlers, str | None], Informer],
        on_removed: Callable[[Resource, str | None], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._insights = insights
        self._readiness = readiness
        self._make_informer = make_informer
        self._on_removed = on_removed
        self._on_lost = on_lost
        self._streams: dict[InformerKey, _Stream] = {}
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._paused = False
        self._complaints: set[str] = set()

    @property
    def informers(self) -> Collection[Informer]:
        return [stream.informer for stream in self._streams.values()]

    async def run(self) -> None:
        """Follow the changes for as long as the operator runs.

        Raises an error if any of the streams fails in a way that it cannot be restarted:
        an operator that is blind to some of the resources must not pretend to work.
        """
        opener = asyncio.create_task(self._open_when_ready(), name="kopf-readiness")
        waiter: asyncio.Task[None] | None = None
        try:
            while True:
                waiter = asyncio.create_task(self._insights.wait(), name="kopf-insights")
                await asyncio.wait([waiter, self._failed], return_when=asyncio.FIRST_COMPLETED)
                if self._failed.done():
                    self._failed.result()
                await self._adjust()
                self._readiness.arm()
        finally:
            opener.cancel()
            if waiter is not None:
                waiter.cancel()

    async def stop(self, timeout: float) -> None:
        """Stop all the streams, and let the objects in work be finished within the time."""
        tasks = [stream.task for stream in self._streams.values() if stream.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.gather(*(stream.informer.close(timeout) for stream in self._streams.values()))

    def abort(self) -> None:
        """Cancel all the work that is being done now, so that stopping is not delayed by it."""
        for stream in self._streams.values():
            stream.informer.queue.abort()

    async def pause(self) -> None:
        """Stop handling, but remember everything that is needed to continue."""
        self._paused = True
        await self.stop(self._settings.queueing.exit_timeout)
        for stream in self._streams.values():
            stream.task = None

    def resume(self) -> None:
        """List and watch everything anew after a pause."""
        self._paused = False
        for key, stream in self._streams.items():
            self._start(key, stream)

    async def _open_when_ready(self) -> None:
        await self._readiness.wait()
        if not self._paused:
            for stream in self._streams.values():
                stream.informer.queue.open()

    async def _adjust(self) -> None:
        served = self._select_served()
        wanted: dict[InformerKey, ResourceHandlers] = {
            (resource, namespace): handlers
            for resource, handlers in served.items()
            for namespace in self._get_namespaces(resource)
        }
        for key in [key for key in self._streams if key not in wanted]:
            await self._remove(key)
        for key in [key for key, stream in self._streams.items() if stream.is_lost]:
            await self._remove(key)
        for key, handlers in wanted.items():
            if key not in self._streams:
                resource, namespace = key
                if handlers.changing:
                    warn_of_exposed_secrets(
                        resource, self._settings.persistence.diffbase_storage, logger
                    )
                stream = _Stream(self._make_informer(resource, handlers, namespace))
                self._streams[key] = stream
                if not self._paused:
                    self._start(key, stream)

    def _start(self, key: InformerKey, stream: _Stream) -> None:
        if self._readiness.is_ready:
            stream.informer.queue.open()
        stream.task = asyncio.create_task(
            stream.informer.run(), name=f"kopf-informer-{key[0]}-{key[1]}"
        )
        stream.task.add_done_callback(lambda task: self._on_stream_ended(key, stream, task))

    def _on_stream_ended(
        self,
        key: InformerKey,
        stream: _Stream,
        task: asyncio.Task[None],
    ) -> None:
        if task.cancelled():
            return
        exc = task.exception()
        if isinstance(exc, APINotFoundError):
            logger.debug(f"The resource {key[0]} is gone, it is not watched anymore.")
            stream.is_lost = True
            self._on_lost()
        elif not self._failed.done():
            self._failed.set_exception(
                exc or RuntimeError(f"The watch-stream for {key[0]} has ended unexpectedly.")
            )

    async def _remove(self, key: InformerKey) -> None:
        stream = self._streams.pop(key)
        if stream.task is not None:
            stream.task.cancel()
            await asyncio.wait([stream.task])
        await stream.informer.close(self._settings.queueing.exit_timeout)
        stream.informer.forget()
        self._on_removed(*key)

    def _get_namespaces(self, resource: Resource) -> Collection[str | None]:
        return self._insights.namespaces if resource.namespaced else [None]

    def _select_served(self) -> Mapping[Resource, ResourceHandlers]:
        """The resources that are meant by the selectors, with their handlers."""
        resources = self._insights.resources
        chosen: dict[Selector, Collection[Resource]] = {}
        for selector in self._registry.selectors:
            resolution = selector.resolve(resources)
            chosen[selector] = resolution.resources
            if resolution.rivals:
                rivals = ", ".join(sorted(str(rival) for rival in resolution.rivals))
                self._complain(
                    f"Ambiguous resources will not be served: {selector} is all of "
                    f"these: {rivals}. Specify the API group for the handlers."
                )
            elif not resolution.resources:
                self._complain(
                    f"Unresolved resources cannot be served (try creating their CRDs): {selector}"
                )
        served: dict[Resource, ResourceHandlers] = {}
        for resource in {res for found in chosen.values() for res in found}:
            handlers = self._registry.get_resource_handlers(
                resource,
                lambda selector, res=resource: res in chosen[selector],  # type: ignore[misc]
            )
            if self._is_servable(resource, handlers):
                served[resource] = handlers
        return served

    def _is_servable(self, resource: Resource, handlers: ResourceHandlers) -> bool:
        if not handlers:
            return False
        if not {"list", "watch"} <= resource.verbs:
            self._complain(f"Non-watchable resources will not be served: {resource}")
            return False
        if handlers.requires_patching and not resource.patchable:
            self._complain(f"Non-patchable resources will not be served: {resource}")
            return False
        return True

    def _complain(self, message: str) -> None:
        if message not in self._complaints:
            self._complaints.add(message)
            logger.warning(message)
