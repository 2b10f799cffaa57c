"""Knowledge: whether all objects of some kinds are known. Unknown objects are not absent ones.

Objects are unknown while they are being listed, while that is forbidden, and while their API group
is broken.
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
        """The stores of the kinds that are served under these selectors."""

    def refer(self, selector: Selector, holder: Hashable, names: frozenset[Name]) -> None:
        """The holder refers to these objects now, by their names."""

    def is_undiscovered(self, selector: Selector) -> bool:
        """Whether no such kind is known only because some API groups cannot be discovered."""


class Knowledge:
    """The known kinds that the reconcilers of one kind own and relate to."""

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
        """The stores of all owned kinds, each of them once."""
        return self._sources.get_sources(self._owned).values()

    def is_complete(self, handler: ReconcilingHandler | None = None) -> bool:
        """Whether all objects that the handlers (or only this one) can own are known."""
        selectors = self._owned if handler is None else handler.owns
        are_synced = all(s.is_synced for s in self._sources.get_sources(selectors).values())
        return are_synced and not any(map(self._sources.is_undiscovered, selectors))

    def find_unlisted(
        self, handler: ReconcilingHandler, key: ObjectKey, home: str | None
    ) -> str | None:
        """Find a kind that is not listed yet, and so looks as if it had no objects.

        Children can be in other namespaces, but usually are not: only pruning and deletion wait for
        them.
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
