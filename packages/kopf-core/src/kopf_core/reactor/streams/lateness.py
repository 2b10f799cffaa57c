"""Lateness: kinds that cannot be listed at the start must not hold up other kinds."""

import asyncio
import logging
from collections.abc import Collection, Mapping

from kopf_cogs.structs.resources import Resource
from kopf_core.intents.handlers import IndexingHandler, ReconcilingHandler
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.streams.informers import StreamKey
from kopf_core.reactor.streams.observed import ObservedKinds
from kopf_core.reactor.streams.pool import InformerPool
from kopf_core.reactor.streams.readiness import Readiness

logger = logging.getLogger("kopf.reactor.lateness")

PATIENCE = 10.0
"""How long (in seconds), at least, to wait for a kind that shows no signs of life."""


class Lateness:
    """Stops the wait for observed kinds that show no signs of life, and logs which reconcilers
    wait.

    The reconcilers of such kinds wait further: an object that is not listed can exist. Indexed
    kinds hold up everything, as it is unknown which functions use their indices.
    """

    def __init__(
        self,
        registry: OperatorRegistry,
        readiness: Readiness,
        pool: InformerPool,
        observed: ObservedKinds,
    ) -> None:
        self._registry = registry
        self._readiness = readiness
        self._pool = pool
        self._observed = observed
        self._told: set[Resource] = set()

    async def run(self) -> None:
        """Check the kinds until the operator waits for none of them."""
        before: Mapping[StreamKey, float] = {}
        while not self._readiness.is_ready:
            await asyncio.sleep(PATIENCE)
            now = self._see_unlisted()
            self._give_up([key for key, life in now.items() if life == before.get(key)])
            before = now

    def _see_unlisted(self) -> Mapping[StreamKey, float]:
        """The times of the latest signs of life of the streams that are not listed yet."""
        if self._pool.is_suspended:
            return {}
        informers = self._pool.informers.items()
        return {key: informer.freshness for key, informer in informers if not informer.is_listed}

    def _give_up(self, late: Collection[StreamKey]) -> None:
        for key in late:
            self._observed.on_interrupted(key)
        for key in late:
            if key.resource not in self._told:
                self._told.add(key.resource)
                self._tell(key)

    def _tell(self, key: StreamKey) -> None:
        """Log which reconcilers wait for the kind, if any do; once for all its namespaces."""
        held = self._describe_held(key.resource)
        if held:
            reason = self._pool.informers[key].complaint or "No list has come so far."
            logger.warning(f"{key} are not listed yet, so {held}. {reason}")

    def _describe_held(self, resource: Resource) -> str:
        handlers = self._registry.resource_handlers
        indexers = [
            f"{handler.id!r}"
            for handler in handlers
            if isinstance(handler, IndexingHandler)
            and handler.selector is not None
            and handler.selector.check(resource)
        ]
        if indexers:
            title = "the index" if len(indexers) == 1 else "the indices"
            return f"no handlers are called: {title} {', '.join(indexers)} must be filled first"
        needy = [
            f"{handler}"
            for handler in handlers
            if isinstance(handler, ReconcilingHandler)
            and any(selector.check(resource) for selector in (*handler.owns, *handler.related))
        ]
        verb = "waits" if len(needy) == 1 else "wait"
        return f"{', '.join(needy)} {verb}; all other handlers go on" if needy else ""
