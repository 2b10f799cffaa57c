"""The objects of the fake API, and the whole history of their changes.

Nothing is ever forgotten: lists and watches of any moment are made of the history.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import datetime
import itertools
from collections.abc import Callable
from typing import Any

from e2e.chaos.fake import patches
from e2e.chaos.fake.errors import Refusal
from e2e.chaos.fake.kinds import Json, Kind

Key = tuple[tuple[str, str], str, str]
"""An object: its kind (group & plural), its namespace (or an empty string), its name."""


TIMESTAMP = "%Y-%m-%dT%H:%M:%SZ"


@dataclasses.dataclass(frozen=True)
class Change:
    """One change of one object."""

    version: int
    type: str
    """As in watches: ``ADDED``, ``MODIFIED``, ``DELETED``."""

    key: Key
    object: Json
    author: str
    """Who has made it: ``client`` for those who send requests, ``test`` for the test itself."""

    time: float
    """When it was made, by the monotonic clock."""


class Store:
    """All objects by their keys; versions are numbers, common for all kinds."""

    def __init__(self, now: Callable[[], datetime.datetime]) -> None:
        self._now = now
        self.version = 100
        self.compacted = 0
        """The watches from earlier versions are refused."""

        self.history: list[Change] = []
        self.objects: dict[Key, Json] = {}
        self._uids = itertools.count(1)
        self.news = asyncio.Event()
        """Is set at the next change; there is a new one after that."""

    def list(self, kind: Kind, namespace: str, version: int | None = None) -> list[Json]:
        """The objects as they are now, or as they were at some version."""
        objects = self.objects if version is None else self.rebuild(version)
        found = {
            key: obj
            for key, obj in objects.items()
            if key[0] == kind.key and namespace in ("", key[1])
        }
        return [found[key] for key in sorted(found)]

    def rebuild(self, version: int) -> dict[Key, Json]:
        """All objects as they were at some version."""
        objects: dict[Key, Json] = {}
        for change in self.history:
            if change.version <= version:
                if change.type == "DELETED":
                    objects.pop(change.key, None)
                else:
                    objects[change.key] = change.object
        return objects

    def restore(self, version: int) -> None:
        """Bring back the past, as if from a backup: what was later has never happened."""
        self.objects = self.rebuild(version)
        self.history = [change for change in self.history if change.version <= version]
        self.version = version
        self.notify()

    def get(self, key: Key) -> Json:
        if key not in self.objects:
            raise Refusal(404, f"{key[0][1]} {key[2]!r} not found", name=key[2])
        return self.objects[key]

    def create(self, key: Key, obj: Json, *, author: str) -> Json:
        if key in self.objects:
            raise Refusal(409, f"{key[0][1]} {key[2]!r} already exists", "AlreadyExists")
        obj = copy.deepcopy(obj)
        metadata = obj.setdefault("metadata", {})
        metadata["name"] = key[2]
        if key[1]:
            metadata["namespace"] = key[1]
        metadata["uid"] = f"uid-{next(self._uids):06d}"
        metadata["creationTimestamp"] = self._now().strftime(TIMESTAMP)
        metadata["generation"] = 1
        _validate(obj)
        return self._commit("ADDED", key, obj, author)

    def change(
        self, key: Key, transform: Callable[[Json], Json], *, status: bool | None, author: str
    ) -> Json:
        """Replace the object by a transformed one.

        ``status`` is true for requests to the subresource, false for those to the object
        if it has the subresource, and ``None`` if there is no such subresource.
        """
        old = self.get(key)
        new = transform(copy.deepcopy(old))
        _check_preconditions(old, new)
        new = _select(old, new, status)
        for field in ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"):
            if field in old["metadata"]:
                new["metadata"][field] = old["metadata"][field]
            else:
                new["metadata"].pop(field, None)
        _validate(new)
        _check_finalizers(old, new)
        if new == old:
            return old
        if {**new, "metadata": 0, "status": 0} != {**old, "metadata": 0, "status": 0}:
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers"):
            return self._commit("DELETED", key, new, author)
        return self._commit("MODIFIED", key, new, author)

    def delete(self, key: Key, *, author: str) -> Json:
        obj = copy.deepcopy(self.get(key))
        if not obj["metadata"].get("finalizers"):
            return self._commit("DELETED", key, obj, author)
        if "deletionTimestamp" in obj["metadata"]:
            return obj
        obj["metadata"]["deletionTimestamp"] = self._now().strftime(TIMESTAMP)
        obj["metadata"]["deletionGracePeriodSeconds"] = 0
        return self._commit("MODIFIED", key, obj, author)

    def _commit(self, type: str, key: Key, obj: Json, author: str) -> Json:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        if type == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = obj
        self.history.append(
            Change(self.version, type, key, obj, author, asyncio.get_running_loop().time())
        )
        self.notify()
        return obj

    def notify(self) -> None:
        """Wake up all that wait for changes."""
        self.news.set()
        self.news = asyncio.Event()


def merging(patch: Any) -> Callable[[Json], Json]:
    return lambda obj: patches.merge(obj, patch)


def modifying(operations: Any) -> Callable[[Json], Json]:
    return lambda obj: patches.modify(obj, operations)


def _select(old: Json, new: Json, status: bool | None) -> Json:
    """Take only what the endpoint is for."""
    if status is None:
        return new
    source, base = (new, old) if status else (old, new)
    result = {key: copy.deepcopy(value) for key, value in base.items() if key != "status"}
    if "status" in source:
        result["status"] = source["status"]
    return result


def _check_preconditions(old: Json, new: Json) -> None:
    for field in ("uid", "resourceVersion"):
        if new["metadata"].get(field, old["metadata"][field]) != old["metadata"][field]:
            message = f"Precondition failed: {field.upper()} in precondition is another one"
            raise Refusal(409, message)


def _check_finalizers(old: Json, new: Json) -> None:
    added = {*(new["metadata"].get("finalizers") or ())} - {
        *(old["metadata"].get("finalizers") or ())
    }
    if added and "deletionTimestamp" in old["metadata"]:
        raise Refusal(422, f"metadata.finalizers: Forbidden: no new finalizers: {sorted(added)}")


def _validate(obj: Json) -> None:
    annotations = obj["metadata"].get("annotations") or {}
    if not all(isinstance(value, str) for value in annotations.values()):
        raise Refusal(422, "metadata.annotations: Invalid value: must be strings")
    if sum(len(key) + len(value) for key, value in annotations.items()) > 256 * 1024:
        raise Refusal(422, "metadata.annotations: Too long: must have at most 262144 bytes")


def read_clock() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
