"""Doubts: objects that were applied without an answer can exist, though no stream has shown them.

This matters only if Kubernetes does not garbage-collect them: they must not outlive their owners.
"""

from typing import NamedTuple, cast

from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.structs.bodies import RawBody
from kopf_core.engines.desired.sources import Source


class DoubtedChild(NamedTuple):
    """The address of a child that was applied, but possibly does not exist."""

    source: Source
    namespace: str | None
    name: str

    def is_same(self, other: "DoubtedChild") -> bool:
        """Whether it is the same object, even if from another source."""
        return self[1:] == other[1:] and self.source.resource.name == other.source.resource.name


class Doubts:
    """The objects that can exist, by the uids of their owners; usually, there are none."""

    def __init__(self) -> None:
        self._children: dict[str, set[DoubtedChild]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._children

    def add(self, uid: str, child: DoubtedChild) -> None:
        """The object is about to be applied."""
        self._children.setdefault(uid, set()).add(child)

    def discard(self, uid: str, child: DoubtedChild) -> None:
        """It is known whether the object exists, even if its kind was not served for a while."""
        left = {other for other in self._children.get(uid, ()) if not other.is_same(child)}
        if left:
            self._children[uid] = left
        else:
            self.forget(uid)

    def forget(self, uid: str) -> None:
        """The owner is gone."""
        self._children.pop(uid, None)

    async def settle(self, uid: str, api: ObjectsAPI) -> None:
        """List the doubtful objects, so that it is known whether they exist. Raises
        :class:`APIError`.

        It lists them because the right to list is surely there.
        """
        for child in list(self._children.get(uid, ())):
            source, namespace, name = child
            if source.is_observed:
                fields = {"metadata.name": name}
                for body in await api.list(source.resource, namespace, fields=fields):
                    source.put(cast(RawBody, body))
            self.discard(uid, child)
