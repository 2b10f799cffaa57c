"""The overlay: the predicted states of objects over the real ones."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kopf_cogs.clients.rehearsal.addresses import Address, ObjectKey
from kopf_cogs.structs.labels import matches_labels

Obj = dict[str, Any]

StreamId = tuple[str, str | None, str, str]
"""The reader of a collection: its URL, the namespace, and the selectors of labels and fields."""


@dataclass(slots=True)
class Entry:
    """One object that would be changed."""

    base: Obj | None
    """The object as it is in the cluster; ``None`` if it is not there."""

    current: Obj | None
    """The object as it would be; ``None`` if it would not exist."""

    applied: dict[str, Obj] = field(default_factory=dict)
    """The replies of the server to server-side applies, by managers and subresources."""


class Happening(NamedTuple):
    """A change that would come by the watch-streams."""

    number: int
    key: ObjectKey
    type: str
    body: Obj
    was_matching: Mapping[str, str]
    """The labels before the change."""


class Difference(NamedTuple):
    """One object before and after the rehearsal; ``None`` if it is absent."""

    address: ObjectKey
    before: Obj | None
    after: Obj | None


class Overlay:
    """The predicted states of objects so far, for all readers of one cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[ObjectKey, Entry] = {}
        self._happenings: list[Happening] = []
        self._positions: dict[StreamId, int] = {}
        self._listeners: list[Callable[[], object]] = []
        self._highest = 0
        self._minted: set[str] = set()
        self._real: dict[StreamId, str] = {}

    # Versions: predicted states are newer than everything seen, and never leave the process.

    def see_version(self, version: object) -> None:
        if isinstance(version, str) and version.isascii() and version.isdigit():
            self._highest = max(self._highest, int(version))

    def mint(self) -> str:
        self._highest += 1
        version = str(self._highest)
        self._minted.add(version)
        return version

    def is_minted(self, version: str | None) -> bool:
        return version in self._minted

    def see_list_version(self, reader: StreamId, version: object) -> None:
        """The reader is going to watch since this version."""
        self.see_version(version)
        if isinstance(version, str):
            self._real[reader] = version

    def get_real_version(self, reader: StreamId) -> str:
        """The version to watch from in the cluster. All changes since that version come again."""
        return self._real.get(reader, "0")

    @property
    def highest(self) -> str:
        return str(self._highest)

    # Predicting.

    def get(self, key: ObjectKey) -> Entry | None:
        return self.entries.get(key)

    def put(self, key: ObjectKey, entry: Entry, new: Obj | None) -> Obj | None:
        """Keep the new state, if it differs from the known one; get the state that is kept."""
        old = entry.current
        if key not in self.entries:
            self.entries[key] = entry
        if new is not None and old is not None and strip(old) == strip(new):
            return old
        if new is not None:
            new = {**new, "metadata": {**new["metadata"], "resourceVersion": self.mint()}}
        entry.current = new
        kind = "DELETED" if new is None else "ADDED" if old is None else "MODIFIED"
        if body := new or old:
            labels = ((old or {}).get("metadata") or {}).get("labels") or {}
            self._tell(Happening(len(self._happenings) + 1, key, kind, body, labels))
        return new

    def get_differences(self) -> list[Difference]:
        """The objects that differ in the end, in a stable order; each one is one difference."""
        found = [
            Difference(key, entry.base, entry.current)
            for key, entry in self.entries.items()
            if not _is_same(entry.base, entry.current) and key.collection not in _EVENTS
        ]
        return sorted(found, key=lambda one: tuple(map(str, one.address)))

    # Reading.

    def cover(
        self, reader: StreamId, items: Iterable[Obj], *, is_first: bool, is_last: bool
    ) -> list[Obj]:
        """The items of a page as they would be; the last page ends with the new objects."""
        if is_first:
            self._positions[reader] = len(self._happenings)
        result = []
        for item in items:
            self.see_version(item["metadata"].get("resourceVersion"))
            entry = self.entries.get(identify(reader[0], item))
            if entry is None:
                result.append(item)
            elif entry.current is not None and _is_read_by(reader, entry.current):
                result.append(copy.deepcopy(entry.current))
        if is_last:
            result.extend(self._iter_new(reader))
        return result

    def rewind(self, reader: StreamId) -> None:
        """The stream is going to send all objects anew, from the initial state."""
        self._positions[reader] = 0

    def take(self, reader: StreamId) -> Iterator[tuple[str, Obj]]:
        """The events for the stream since the last time: the types, and the objects."""
        start = self._positions.setdefault(reader, len(self._happenings))
        self._positions[reader] = len(self._happenings)
        for happening in self._happenings[start:]:
            if _is_in_scope(reader, happening.key):
                if _is_read_by(reader, happening.body):
                    yield happening.type, happening.body
                elif matches_labels(reader[2], happening.was_matching):
                    yield "DELETED", happening.body

    def listen(self, listener: Callable[[], object]) -> None:
        """Call the listener whenever there is a new predicted change."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], object]) -> None:
        self._listeners.remove(listener)

    def _iter_new(self, reader: StreamId) -> Iterator[Obj]:
        for key, entry in self.entries.items():
            is_new = entry.base is None and entry.current is not None
            if is_new and _is_in_scope(reader, key) and _is_read_by(reader, entry.current or {}):
                yield copy.deepcopy(entry.current or {})

    def _tell(self, happening: Happening) -> None:
        self._happenings.append(happening)
        for listener in self._listeners:
            listener()


def identify(collection: str, body: Mapping[str, Any]) -> ObjectKey:
    """The key of an object of this collection."""
    metadata = body["metadata"]
    return ObjectKey(collection, metadata.get("namespace"), metadata.get("name") or "")


def make_reader(address: Address, params: Mapping[str, str]) -> StreamId:
    labels, fields = params.get("labelSelector", ""), params.get("fieldSelector", "")
    return address.collection, address.namespace, labels, fields


_EVENTS = ("/api/v1/events", "/apis/events.k8s.io/v1/events")
"""Kubernetes events are only about objects: they do not count as differences."""

_VOLATILE = ("managedFields", "resourceVersion", "generation")
"""The fields that servers keep for themselves: they differ even if no wanted field does."""


def strip(body: Mapping[str, Any]) -> dict[str, Any]:
    """The object without the fields that only servers need."""
    metadata = {key: val for key, val in body["metadata"].items() if key not in _VOLATILE}
    return {**body, "metadata": metadata}


def _is_same(one: Obj | None, other: Obj | None) -> bool:
    if one is None or other is None:
        return one is other
    return strip(one) == strip(other)


def _is_in_scope(reader: StreamId, key: ObjectKey) -> bool:
    return key.collection == reader[0] and reader[1] in (None, key.namespace)


def _is_read_by(reader: StreamId, body: Mapping[str, Any]) -> bool:
    """Whether the selectors match the object; of fields, only the name and the namespace count."""
    metadata = body["metadata"]
    for part in filter(None, reader[3].split(",")):
        name, _, value = part.partition("=")
        is_wanted = not name.endswith("!")
        known = {"metadata.name": "name", "metadata.namespace": "namespace"}.get(name.rstrip("!"))
        if known is not None and (metadata.get(known) == value.lstrip("=")) is not is_wanted:
            return False
    return matches_labels(reader[2], metadata.get("labels") or {})
