"""Mappings of resources to values, as used in the settings."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Generic, TypeAlias, TypeVar

from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import AnyName, Marker, Selector

_V = TypeVar("_V")

SelectorKey: TypeAlias = Selector | AnyName | tuple[AnyName, ...]
"""A key of the mapping: the same notations as in positional arguments of decorators."""


class SelectorMapping(MutableMapping[Any, _V], Generic[_V]):
    """A mapping of resource selectors to arbitrary values, e.g. label selectors.

    The keys can be in any notation of the decorators::

        settings.watching.label_selectors['kopf.dev', 'v1', 'kopfexamples'] = 'x=y'
        settings.watching.label_selectors['kopf.dev/v1/kopfexamples'] = 'x=y'
        settings.watching.label_selectors['kex'] = 'x=y'
        settings.watching.label_selectors[kopf.EVERYTHING] = 'x=y'

    However, when iterated over, the keys are the parsed selectors.
    """

    __slots__ = ("_items",)

    def __init__(self, items: "Mapping[Any, _V] | None" = None, /) -> None:
        super().__init__()
        self._items: dict[Selector, _V] = {}
        self.update(items or {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._items!r})"

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Selector]:
        return iter(self._items)

    def __getitem__(self, key: SelectorKey) -> _V:
        return self._items[_parse_key(key)]

    def __setitem__(self, key: SelectorKey, value: _V) -> None:
        self._items[_parse_key(key)] = value

    def __delitem__(self, key: SelectorKey) -> None:
        del self._items[_parse_key(key)]

    def collect(self, resource: Resource) -> list[_V]:
        """Get the values of all the selectors that match the resource, in the order of adding."""
        return [value for selector, value in self._items.items() if selector.check(resource)]


def _parse_key(key: SelectorKey) -> Selector:
    if isinstance(key, Selector):
        return key
    if isinstance(key, tuple):
        return Selector.of(*key)
    if isinstance(key, (str, Marker)) or (callable(key) and not isinstance(key, Resource)):
        return Selector.of(key)
    raise TypeError(f"Unsupported type of a resource selector: {key!r}")
