"""Knowledge: whether all objects of some kinds are known. What is not known is not absent.

It is so while they are listed, while this is forbidden, or while their API group is broken.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any, Protocol

from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.engines.desired.relations import Relation
from kopf_core.engines.desired.sources import Name, Source
from kopf_core.intents.handlers import ReconcilingHandler


class Sources(Protocol):
    """The stores of all observed kinds."""

    def get_sources(self, selectors: Iterable[Selector]) -> Mapping[Resource, Source]:
        """The stores of the kinds which are served under these selectors."""

    def refer(self, selector: Selector, holder: Hashable, names: frozenset[Name]) -> None:
        """The holder refers to these objects now, by their names."""

    def is_undiscovered(self, selector: Selector) -> bool:
        """Whether no such kind is known, but only as some API groups cannot be discovered."""


class Knowledge:
    """What is known of the kinds that the reconcilers of one kind own and relate to."""

    def __init__(
        self,
        sources: Sources,
        handlers: Collection[ReconcilingHandler],
        relations: Mapping[tuple[Any, Selector], Relation],
    ) -> None:
        self._sources = sources
        self._relations = relations
        self._owned = tuple(selector for handler in handlers for selector in handler.owns)

    @property
    def owned_sources(self) -> Collection[Source]:
        """Those of all owned kinds, each of them once, however many reconcilers have it."""
        return self._sources.get_sources(self._owned).values()

    def is_complete(self, handler: ReconcilingHandler | None = None) -> bool:
        """Whether all that can be owned is known; or only what this handler can own."""
        selectors = self._owned if handler is None else handler.owns
        are_synced = all(s.is_synced for s in self._sources.get_sources(selectors).values())
        return are_synced and not any(map(self._sources.is_undiscovered, selectors))

    def find_unlisted(
        self, handler: ReconcilingHandler, key: ObjectKey, home: str | None
    ) -> str | None:
        """Which kind is not listed yet, so that it would look as if there are no objects.

        There can be children in other namespaces, but usually there are none: only pruning
        and deletion wait for those.
        """
        for resource, source in self._sources.get_sources(handler.owns).items():
            if source.covers(home) and not source.is_synced_in(home):
                return resource.name
        for selector in handler.related:
            unlisted = self._find_unlisted(selector, self._relations[handler.id, selector], key)
            if unlisted is not None:
                return unlisted
        return None

    def _find_unlisted(self, selector: Selector, relation: Relation, key: ObjectKey) -> str | None:
        if self._sources.is_undiscovered(selector):
            return ".".join(str(part) for part in (*selector.names, selector.group) if part)
        names = relation.get_names(key)
        for resource, source in self._sources.get_sources([selector]).items():
            if not source.knows(names):
                return resource.name
        return None
