"""Indices: in-memory overviews of objects, computed by users' functions.

Writing happens only here, in the event loop. Reading happens anywhere, including threads:
the views given to handlers are read-only, and iterating over them goes over a snapshot.
"""

import asyncio
from collections.abc import (
    Collection,
    Hashable,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    ValuesView,
)
from typing import Any, Generic, TypeVar

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.helpers.callbacks import call
from kopf_cogs.structs.bodies import Body, RawEvent
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.execution import Execution
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.retrying import safe_message
from kopf_core.actions.states import HandlerState
from kopf_core.engines.memories import ObjectMemories, ObjectMemory
from kopf_core.intents.causes import IndexingCause
from kopf_core.intents.handlers import IndexingHandler
from kopf_core.intents.matching import matches, may_match
from kopf_core.intents.registries import deduplicate

PATIENCE = 10.0
"""How long (in seconds) one call of an index function can take, while it is not known to hang."""

IMPATIENCE = 0.1
"""The least of that, after it has hung several times in a row: each time is half of the last."""

K = TypeVar("K")
V = TypeVar("V")


class Store(Collection[V], Generic[V]):
    """The values under one key of an index, each one from its own object. Read-only."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: dict[ObjectKey, V] = {}

    def __repr__(self) -> str:
        return repr(list(self))

    def __bool__(self) -> bool:
        return bool(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[V]:
        return iter(list(self._items.values()))

    def __contains__(self, value: object) -> bool:
        return any(value == item for item in self)


class _IndexItems(ItemsView[K, Store[V]]):
    """The items as they were when the iteration began: some can vanish in the course of it."""

    _mapping: "Index[K, V]"

    def __iter__(self) -> Iterator[tuple[K, Store[V]]]:
        return iter(list(self._mapping._stores.items()))


class _IndexValues(ValuesView[Store[V]]):
    """The stores as they were when the iteration began."""

    _mapping: "Index[Any, V]"

    def __iter__(self) -> Iterator[Store[V]]:
        return iter(list(self._mapping._stores.values()))


class Index(Mapping[K, Store[V]], Generic[K, V]):
    """A mapping of arbitrary keys to the stores of values. Read-only.

    It can be read from any thread and iterated for long: what is iterated is a snapshot.
    """

    __slots__ = ("_keys_by_object", "_stores")

    def __init__(self) -> None:
        self._stores: dict[K, Store[V]] = {}
        self._keys_by_object: dict[ObjectKey, tuple[K, ...]] = {}

    def __repr__(self) -> str:
        return repr(dict(self.items()))

    def __bool__(self) -> bool:
        return bool(self._stores)

    def __len__(self) -> int:
        return len(self._stores)

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._stores))

    def __getitem__(self, key: K) -> Store[V]:
        return self._stores[key]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, Hashable) and key in self._stores

    def items(self) -> ItemsView[K, Store[V]]:
        return _IndexItems(self)

    def values(self) -> ValuesView[Store[V]]:
        return _IndexValues(self)

    def _replace(self, owner: ObjectKey, values: Mapping[K, V]) -> None:
        """Put the values of one object in place of its previous ones.

        Raises whatever the keys raise when compared; the object is not in the index then.
        """
        try:
            for key in self._keys_by_object.get(owner, ()):
                if key not in values:
                    self._remove(owner, key)
            for key, value in values.items():
                store = self._stores.get(key)
                if store is None:
                    store = self._stores[key] = Store()
                store._items[owner] = value
            self._keys_by_object[owner] = tuple(values)
        except BaseException:
            self._purge(owner)
            raise

    def _discard(self, owner: ObjectKey) -> None:
        """Remove all values of one object."""
        for key in self._keys_by_object.pop(owner, ()):
            self._remove(owner, key)

    def _remove(self, owner: ObjectKey, key: K) -> None:
        store = self._stores.get(key)
        if store is not None:
            store._items.pop(owner, None)
            if not store._items:
                del self._stores[key]

    def _purge(self, owner: ObjectKey) -> None:
        """Remove the object from everywhere, not relying on its keys: slow, but certain."""
        self._keys_by_object.pop(owner, None)
        for store in self._stores.values():
            store._items.pop(owner, None)
        self._stores = {key: store for key, store in self._stores.items() if store._items}


class Indices(Mapping[str, Index[Any, Any]]):
    """All indices of one operator, as they go to the keyword arguments of handlers."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._items: dict[str, Index[Any, Any]] = {name: Index() for name in names}

    def __getitem__(self, name: str) -> Index[Any, Any]:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class ResourceIndexer:
    """Keeps the indices right for the objects of one resource."""

    def __init__(
        self,
        *,
        resource: Resource,
        handlers: tuple[IndexingHandler, ...],
        indices: Indices,
        memories: ObjectMemories,
        execution: Execution,
    ) -> None:
        self._resource = resource
        self._handlers = deduplicate(handlers)
        self._indices = indices
        self._memories = memories
        self._execution = execution
        self._settings: OperatorSettings = execution.settings
        self._keys: set[ObjectKey] = set()
        self._patience: dict[HandlerId, float] = {}  # of those who were interrupted

    async def index(self, key: ObjectKey, event: RawEvent) -> None:
        """Bring the indices in line with the object's state. Never raises but on cancellation."""
        body = Body(event["object"])
        is_deleted = event["type"] == "DELETED"
        handlers = [] if is_deleted else [h for h in self._handlers if may_match(h, body)]
        for handler in self._handlers:
            if handler not in handlers:
                self._indices[handler.id]._discard(key)
        if not handlers:  # the objects that nobody is interested in leave no trace in the memory
            self._keys.discard(key)
            return
        self._keys.add(key)
        memory = self._memories.recall(key, is_listed=event["type"] is None)
        cause = IndexingCause(
            resource=self._resource,
            body=body,
            patch=Patch(),
            settings=self._settings,
            memo=memory.memo,
            indices=self._indices,
        )
        for handler in handlers:
            try:
                await self._index_one(key, handler, cause, memory)
            except Exception as e:
                self._indices[handler.id]._discard(key)
                cause.logger.error(
                    f"{handler} has failed on this object: {type(e).__name__}: {safe_message(e)}"
                )

    def clear(self) -> None:
        """Forget all the objects: the resource is not served anymore."""
        for key in self._keys:
            for handler in self._handlers:
                self._indices[handler.id]._discard(key)
        self._keys.clear()

    async def _index_one(
        self,
        key: ObjectKey,
        handler: IndexingHandler,
        cause: IndexingCause,
        memory: ObjectMemory,
    ) -> None:
        index = self._indices[handler.id]
        if not matches(handler, cause):
            index._discard(key)
            return
        clock = self._execution.clock
        now = clock.now()
        state = (memory.indexing or {}).get(handler.id)
        state = state or HandlerState(started=now, since=clock.monotonic())
        if not state.is_awake(now):
            return
        outcome = await self._attempt(handler, cause, state)
        if outcome is None:
            index._discard(key)
            return
        self._remember(handler, state, outcome, memory)
        if outcome.exception is not None:
            index._discard(key)
        elif type(outcome.result) is dict:
            call(index._replace, key, outcome.result)  # the keys are compared by users' code
        elif outcome.result is not None:
            index._replace(key, {None: outcome.result})

    async def _attempt(
        self, handler: IndexingHandler, cause: IndexingCause, state: HandlerState
    ) -> Outcome | None:
        """Call the function, but not for ever: the stream of its kind waits for it meanwhile."""
        patience = self._patience.get(handler.id, PATIENCE)
        try:
            async with asyncio.timeout(patience) as scope:
                outcome = await self._execution.attempt(handler, cause, state)
        except TimeoutError:
            if not scope.expired():
                raise
        else:
            if not scope.expired():
                self._patience.pop(handler.id, None)
                return outcome
        cause.logger.warning(
            f"{handler} takes more than {patience:g} seconds on this object: it is interrupted, "
            f"and the object is not indexed. All other objects of the kind wait for it."
        )
        self._patience[handler.id] = max(patience / 2, IMPATIENCE)
        return None

    def _remember(
        self,
        handler: IndexingHandler,
        state: HandlerState,
        outcome: Outcome,
        memory: ObjectMemory,
    ) -> None:
        """Keep the failures only: a success starts everything anew."""
        failures = dict(memory.indexing or {})
        if outcome.exception is None:
            failures.pop(handler.id, None)
        else:
            now = self._execution.clock.now()
            failures[handler.id] = state.with_outcome(outcome, now)
        memory.indexing = failures or None
