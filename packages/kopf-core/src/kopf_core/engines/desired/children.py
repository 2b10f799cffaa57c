"""What is owned by an object and related to it, as reconcilers see it: by kind, then by name."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from kopf_cogs.helpers import jsons
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.resources import Resource


class Source(Protocol):
    """The newest states of all objects of one kind."""

    @property
    def resource(self) -> Resource: ...

    @property
    def is_synced(self) -> bool:
        """Whether all objects that exist are known, wherever they are observed."""

    @property
    def is_observed(self) -> bool:
        """Whether its objects are known anywhere: not anymore if the kind is not served."""

    def is_synced_in(self, namespace: str | None) -> bool:
        """Whether all objects that exist in this namespace are known."""

    def covers(self, namespace: str | None) -> bool:
        """Whether the objects of this namespace are known, too."""

    def find(self, namespace: str | None, name: str) -> RawBody | None:
        """The object by its name, if it exists."""

    def values(self) -> Iterable[RawBody]:
        """All objects of the kind."""

    def owned_by(self, uid: str) -> Iterable[RawBody]:
        """All objects of this owner."""

    def put(self, body: RawBody) -> None:
        """Take the state returned by our own request: it is newer than what was streamed."""

    async def wait_for_others(self, namespace: str | None, name: str) -> None:
        """Wait until nobody else is writing the object: it can be theirs since then."""

    def writing(self, namespace: str | None, name: str) -> AbstractContextManager[None]:
        """What to hold while the object is being written: our own changes are no news to us."""


class Family(Mapping[str, Mapping[str, RawBody]]):
    """Objects by their kinds, then by their names; kinds with no objects are there, but empty.

    Kinds are as in manifests (``Deployment``); plural names can be used for reading, too. The
    objects of other namespaces than the primary object's one are named with their namespaces.

    Those who ask get copies: nothing that is known of the cluster changes with these.
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

    def __getitem__(self, kind: str) -> Mapping[str, RawBody]:
        return self._items[self._kinds.get(kind, kind)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def all(self) -> Iterator[RawBody]:
        """All objects, of all kinds."""
        for items in self._items.values():
            yield from items.values()


class _Copies(Mapping[str, RawBody]):
    """Objects by their names; each of them is copied when it is looked at."""

    __slots__ = ("_copies", "_known")

    def __init__(self) -> None:
        self._known: dict[str, RawBody] = {}
        self._copies: dict[str, RawBody] = {}

    def __repr__(self) -> str:
        return repr(dict(self))

    def __getitem__(self, name: str) -> RawBody:
        if name not in self._copies:
            self._copies[name] = jsons.clone(self._known[name])
        return self._copies[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def add(self, name: str, body: RawBody) -> None:
        self._known[name] = body


def _name(body: Mapping[str, Any] | RawBody, home: str | None) -> str:
    metadata = body.get("metadata") or {}
    name, namespace = str(metadata.get("name")), metadata.get("namespace")
    return name if not namespace or namespace == home else f"{namespace}/{name}"
