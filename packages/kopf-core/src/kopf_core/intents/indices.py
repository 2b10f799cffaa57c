"""Indices, as handlers get them: mappings of keys to the values of many objects.

Only the event loop writes to them. Any code can read them, even in threads: for handlers, they are
read-only, and an iteration goes over a snapshot.
"""

from collections.abc import (
    Callable,
    Collection,
    Hashable,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    ValuesView,
)
from typing import Any, Generic, TypeVar

from kopf_cogs.structs.keys import ObjectKey

K = TypeVar("K")
V = TypeVar("V")


class Store(Collection[V], Generic[V]):
    """The values under one key of an index, each from its own object. Read-only."""

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
    """The items at the beginning of the iteration: some can vanish meanwhile."""

    _mapping: "Index[K, V]"

    def __iter__(self) -> Iterator[tuple[K, Store[V]]]:
        return iter(list(self._mapping._stores.items()))


class _IndexValues(ValuesView[Store[V]]):
    """The stores at the beginning of the iteration."""

    _mapping: "Index[Any, V]"

    def __iter__(self) -> Iterator[Store[V]]:
        return iter(list(self._mapping._stores.values()))


class Index(Mapping[K, Store[V]], Generic[K, V]):
    """A mapping of any keys to the stores of values. Read-only.

    Any thread can read it, and iterate over it for long: the iteration goes over a snapshot.
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

    def _get_values(self, owner: ObjectKey) -> list[V]:
        """The values of the object in this index."""
        keys = self._keys_by_object.get(owner, ())
        return [self._stores[key]._items[owner] for key in keys if key in self._stores]

    def _replace(self, owner: ObjectKey, values: Mapping[K, V]) -> None:
        """Put the values of one object in place of its previous ones.

        Raises the errors of keys that fail to be compared; the object is not in the index then.
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
        """Remove the object from everywhere without its keys: slow, but certain."""
        self._keys_by_object.pop(owner, None)
        for store in self._stores.values():
            store._items.pop(owner, None)
        self._stores = {key: store for key, store in self._stores.items() if store._items}


Listener = Callable[[str, Collection[Any]], None]
"""A function that gets the name of the index, and the values of one object before and after
the change.
"""


class Indices(dict[str, Index[Any, Any]]):
    """All indices of one operator, as in the keyword arguments of handlers."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__()
        self._listeners: dict[str, Listener] = {}
        self.declare(names)

    def declare(self, names: Iterable[str]) -> None:
        """Make the indices that do not exist yet."""
        for name in names:
            self.setdefault(name, Index())

    def as_arguments(self, cluster: str | None) -> Mapping[str, Any]:
        """The indices as arguments of handlers, with the name of the cluster if it has one."""
        return self if cluster is None else {"cluster": cluster, **self}

    def replace(self, name: str, owner: ObjectKey, values: Mapping[Any, Any]) -> None:
        """Put the values of one object into that index in place of its previous ones.

        Raises the errors of keys that fail to be compared; the object is not in the index then.
        """
        if name not in self._listeners:
            self[name]._replace(owner, values)
            return
        old = self[name]._get_values(owner)
        self[name]._replace(owner, values)
        self._listeners[name](name, [*old, *values.values()])

    def discard(self, name: str, owner: ObjectKey) -> None:
        """Remove all values of one object from that index."""
        old = self[name]._get_values(owner) if name in self._listeners else None
        self[name]._discard(owner)
        if old:
            self._listeners[name](name, old)

    def listen(self, name: str, listener: Listener) -> None:
        """Let the only listener know of each change of that index.

        The values can be the same as before.
        """
        self._listeners[name] = listener
