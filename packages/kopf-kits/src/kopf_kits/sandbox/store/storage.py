"""The storage: objects by their keys, one counter of versions, and a bounded history of changes.

Objects are kept as serialised bytes, which lists and watches send as they are; the parsed form is
kept only for recently used objects. A parsed object is shared and therefore never modified: every
write makes a new one.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable
from typing import Any

from kopf_kits.sandbox.base import jsons
from kopf_kits.sandbox.base.nature import Nature
from kopf_kits.sandbox.base.statuses import expired

Key = tuple[str, str]
"""A namespace (an empty string for cluster-scoped objects) and a name."""
START: Key = ("", "")


class Stored:
    """One version of one object, unchangeable: its key, resource version, and serialised form."""

    __slots__ = ("_obj", "_renderings", "data", "key", "version")

    def __init__(self, key: Key, version: int, obj: dict[str, Any]) -> None:
        self.key = key
        self.version = version
        # The serialiser gives away its buffer with all the spare room, so this keeps a copy.
        self.data = bytes(memoryview(jsons.dumps(obj)))
        self._obj: dict[str, Any] | None = obj
        self._renderings: dict[str, bytes] | None = None

    @property
    def obj(self) -> dict[str, Any]:
        """The parsed object: to be read, never to be modified."""
        obj = self._obj
        return jsons.loads(self.data) if obj is None else obj

    @property
    def uid(self) -> str:
        return str(self.obj["metadata"].get("uid", ""))

    def forget(self) -> None:
        """Drop the parts that the serialised form can make again."""
        self._obj = None
        self._renderings = None

    def rendered(self, view: str, render: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
        """The bytes of another view on the object (another version, a table row), made once."""
        if self._renderings is None:
            self._renderings = {}
        data = self._renderings.get(view)
        if data is None:
            data = self._renderings[view] = jsons.dumps(render(self.obj))
        return data


class Change:
    """One change of one object, as watchers see it: ``ADDED``, ``MODIFIED``, or ``DELETED``."""

    __slots__ = ("lines", "now", "old", "type", "version")

    def __init__(self, type: str, version: int, now: Stored, old: Stored | None) -> None:
        self.type = type
        self.version = version
        self.now = now
        self.old = old
        self.lines: dict[str, bytes] = {}


class Versions:
    """The counter of resource versions: one for all resources, as it is in etcd."""

    def __init__(self, nature: Nature) -> None:
        self.nature = nature
        self.current = 1

    def next(self) -> int:
        self.current += 1
        return self.current


class Watcher:
    """The place where changes wait until one watch-stream sends them."""

    __slots__ = ("closed", "namespace", "queue", "wake")

    def __init__(self, namespace: str | None) -> None:
        self.namespace = namespace
        self.queue: deque[Change] = deque()
        self.wake = asyncio.Event()
        self.closed = False

    def push(self, change: Change) -> None:
        if self.namespace is None or self.namespace == change.now.key[0]:
            self.queue.append(change)
            self.wake.set()

    def close(self) -> None:
        self.closed = True
        self.wake.set()


class Store:
    """All objects of one resource, with the recent history of their changes.

    The history holds at most ``history`` changes; watching or listing from before it fails with
    410 Gone, as it does after a compaction of a real storage.
    """

    def __init__(self, versions: Versions, *, history: int = 20_000, warm: int = 2_000) -> None:
        self.versions = versions
        self.objects: dict[Key, Stored] = {}
        self.watchers: dict[Watcher, None] = {}  # as a set, but in the order of their arrival
        self.listeners: list[Callable[[Change], None]] = []
        self.outdated: set[Key] = set()
        """The objects stored in an earlier version of the kind: any next write changes them."""

        self.deleting: set[Key] = set()
        self.compacted = self.versions.current
        self._keys: list[Key] = []
        self._history: deque[Change] = deque()
        self._history_size = history
        self._warm: deque[Stored] = deque()
        self._warm_size = warm

    def get(self, key: Key) -> Stored | None:
        return self.objects.get(key)

    def put(self, key: Key, obj: dict[str, Any]) -> Stored:
        """Store a new object or a new version of it; its resource version is set here."""
        old = self.objects.get(key)
        stored = self._stamp(key, obj)
        if old is None:
            insort(self._keys, key)
        self.objects[key] = stored
        self.outdated.discard(key)
        if "deletionTimestamp" in obj["metadata"]:
            self.deleting.add(key)
        self._publish(Change("ADDED" if old is None else "MODIFIED", stored.version, stored, old))
        return stored

    def remove(self, key: Key, obj: dict[str, Any] | None = None) -> Stored:
        """Remove an object; its last state gets a resource version of its own."""
        old = self.objects.pop(key)
        self.deleting.discard(key)
        self.outdated.discard(key)
        self._keys.pop(bisect_left(self._keys, key))
        last = dict(old.obj if obj is None else obj)
        last["metadata"] = dict(last["metadata"])
        stored = self._stamp(key, last)
        self._publish(Change("DELETED", stored.version, stored, old))
        return stored

    def rewrite(self, convert: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Change how the objects are represented, silently (e.g. for a changed schema)."""
        for key, stored in list(self.objects.items()):
            obj = convert(stored.obj)
            if obj is not stored.obj:
                self.objects[key] = Stored(key, stored.version, obj)
                if obj.get("apiVersion") != stored.obj.get("apiVersion"):
                    self.outdated.add(key)

    def select(self, namespace: str | None, after: Key = START) -> list[Stored]:
        """The current objects of the namespace (of all if none), ordered as in etcd."""
        low, high = self._span(namespace, after)
        return [self.objects[key] for key in self._keys[low:high]]

    def select_at(self, version: int, namespace: str | None, after: Key = START) -> list[Stored]:
        """The objects as they were at that version; 410 if it is not remembered any more."""
        past: dict[Key, Stored | None] = {}
        for change in reversed(self.since(version)):
            if change.now.key > after and namespace in (None, change.now.key[0]):
                past[change.now.key] = change.old
        if not past:
            return self.select(namespace, after)
        low, high = self._span(namespace, after)
        keys = sorted({*self._keys[low:high], *past})
        chosen = (past[key] if key in past else self.objects[key] for key in keys)
        return [stored for stored in chosen if stored is not None]

    def since(self, version: int) -> list[Change]:
        """The changes after that version, oldest first; 410 if some are already forgotten."""
        if version < self.compacted:
            raise expired(f"too old resource version: {version} ({self.compacted})")
        changes: list[Change] = []
        for change in reversed(self._history):
            if change.version <= version:
                break
            changes.append(change)
        changes.reverse()
        return changes

    def compact(self) -> None:
        """Forget the history: only the current version can be watched from now on."""
        self._history.clear()
        self.compacted = self.versions.current

    def close(self) -> None:
        """End all watches, as when the resource is gone."""
        for watcher in list(self.watchers):
            watcher.close()

    def _stamp(self, key: Key, obj: dict[str, Any]) -> Stored:
        version = self.versions.next()
        obj["metadata"]["resourceVersion"] = str(version)
        stored = Stored(key, version, obj)
        self._warm.append(stored)
        if len(self._warm) > self._warm_size:
            self._warm.popleft().forget()
        return stored

    def _publish(self, change: Change) -> None:
        self._history.append(change)
        if len(self._history) > self._history_size:
            self.compacted = self._history.popleft().version
        for watcher in self.watchers:
            watcher.push(change)
        for listener in self.listeners:
            listener(change)

    def _span(self, namespace: str | None, after: Key) -> tuple[int, int]:
        low = bisect_right(self._keys, after)
        if namespace is None:
            return low, len(self._keys)
        low = max(low, bisect_left(self._keys, (namespace, "")))
        return low, bisect_left(self._keys, (namespace + "\0", ""))
