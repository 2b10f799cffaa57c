"""Families: the objects that an object owns or is related to, by kind, then by name."""

from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Mapping
from typing import Any

from kopf_cogs.helpers import jsons
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.resources import Resource

Wishes = Generator[Any, Any, Any]
"""The result type of a reconciler with ``yield``. It yields objects (or :class:`kopf.Again`),
and gets each of them back as it is in the cluster. This is a dictionary, which can be annotated
with its type.
"""

AsyncWishes = AsyncGenerator[Any, Any]
"""The result type of ``async def`` reconcilers with ``yield``."""


class Family(Mapping[str, Mapping[str, dict[str, Any]]]):
    """Objects by their kinds, then by their names; kinds without objects are there, but empty.

    Kinds are as in manifests (``Deployment``). Plural names work for reading, too. Objects in other
    namespaces than the primary object have names with their namespaces.

    The objects are copies: Kopf does not see changes of them.
    """

    __slots__ = ("_items", "_kinds")

    def __init__(
        self, resources: Iterable[Resource], bodies: Iterable[RawBody], namespace: str | None
    ) -> None:
        self._kinds: dict[str, str] = {}
        self._items: dict[str, _Copies] = {}
        for resource in resources:
            kind = resource.kind or resource.plural
            self._items.setdefault(kind, _Copies())
            self._kinds |= {resource.plural: kind, resource.name: kind}
        for body in bodies:
            self._items.setdefault(body.get("kind") or "", _Copies()).add(
                _name(body, namespace), body
            )

    def __repr__(self) -> str:
        return repr({kind: [*items] for kind, items in self._items.items()})

    def __getitem__(self, kind: str) -> Mapping[str, dict[str, Any]]:
        try:
            return self._items[self._kinds.get(kind, kind)]
        except KeyError:
            text = f"{kind!r} is none of the kinds: {', '.join(self._items) or 'there are none'}"
            raise KeyError(text) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def all(self) -> Iterator[dict[str, Any]]:
        """All objects, of all kinds."""
        for items in self._items.values():
            yield from items.values()


class _Copies(Mapping[str, dict[str, Any]]):
    """Objects by their names. Each object is copied when it is read."""

    __slots__ = ("_copies", "_known")

    def __init__(self) -> None:
        self._known: dict[str, RawBody] = {}
        self._copies: dict[str, dict[str, Any]] = {}

    def __repr__(self) -> str:
        return repr(dict(self))

    def __getitem__(self, name: str) -> dict[str, Any]:
        if name not in self._copies:
            self._copies[name] = jsons.clone(self._known[name])
        return self._copies[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def add(self, name: str, body: RawBody) -> None:
        self._known[name] = body


Related = Family
"""The objects that a reconciler depends on: the same as :class:`kopf.Children`."""


def _name(body: Mapping[str, Any] | RawBody, home: str | None) -> str:
    metadata = body.get("metadata") or {}
    name, namespace = str(metadata.get("name")), metadata.get("namespace")
    return name if not namespace or namespace == home else f"{namespace}/{name}"
