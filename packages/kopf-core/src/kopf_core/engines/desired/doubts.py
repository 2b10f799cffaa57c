"""Doubts: what was applied with no answer can exist, though nobody knows of it yet.

It only matters out of reach of garbage collection: such objects must not outlive their owners.
"""

from typing import NamedTuple, cast

from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.structs.bodies import RawBody
from kopf_core.engines.desired.children import Source


class Place(NamedTuple):
    """Where the object is, if it is."""

    source: Source
    namespace: str | None
    name: str

    def is_same(self, other: "Place") -> bool:
        """Whether it is the same object, wherever it is known from."""
        return self[1:] == other[1:] and self.source.resource.name == other.source.resource.name


class Doubts:
    """The objects that can exist, by the uids of their owners; usually, there are none."""

    def __init__(self) -> None:
        self._places: dict[str, set[Place]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._places

    def add(self, uid: str, place: Place) -> None:
        """The object is going to be applied."""
        self._places.setdefault(uid, set()).add(place)

    def discard(self, uid: str, place: Place) -> None:
        """It is known whether the object exists, also if its kind was not served in between."""
        left = {other for other in self._places.get(uid, ()) if not other.is_same(place)}
        if left:
            self._places[uid] = left
        else:
            self.forget(uid)

    def forget(self, uid: str) -> None:
        """The owner is gone."""
        self._places.pop(uid, None)

    async def settle(self, uid: str, api: ObjectsAPI) -> None:
        """Look at what is there, so that it is known. Raises :class:`APIError`.

        The objects are listed: it needs no other rights than there are for sure.
        """
        for place in list(self._places.get(uid, ())):
            source, namespace, name = place
            if source.is_observed:
                fields = {"metadata.name": name}
                for body in await api.list(source.resource, namespace, fields=fields):
                    source.put(cast(RawBody, body))
            self.discard(uid, place)
