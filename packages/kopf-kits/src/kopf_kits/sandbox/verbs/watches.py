"""Watching: the changes of a resource as a stream, from a version on, with bookmarks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from kopf_kits.sandbox.base import jsons
from kopf_kits.sandbox.base.statuses import Cause, StatusError, invalid
from kopf_kits.sandbox.schemas.selectors import Predicate
from kopf_kits.sandbox.store.resources import Endpoint
from kopf_kits.sandbox.store.storage import Change, Stored, Watcher
from kopf_kits.sandbox.store.views import View

from .reads import Query, parse_flag, parse_number, parse_selectors, parse_version

_CHUNK = 500
INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The options of a watch: the version, the objects, the time to watch (in seconds)."""

    version: int | None
    selects: Predicate | None
    bookmarks: bool
    initial: bool | None
    timeout: float

    @classmethod
    def parse(
        cls, endpoint: Endpoint, query: Query, name: str | None, timeout: float
    ) -> WatchOptions:
        """Read the options from the query of a request."""
        initial = parse_flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None
        _check_match(initial, query.get("resourceVersionMatch"))
        return cls(
            version=parse_version(query),
            selects=parse_selectors(endpoint, query, name),
            bookmarks=parse_flag(query, "allowWatchBookmarks"),
            initial=initial,
            timeout=parse_number(query, "timeoutSeconds") or timeout,
        )


def _check_match(initial: bool | None, match: str | None) -> None:
    causes = []
    if initial is None and match:
        text = (
            "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
            "provided"
        )
        causes.append(Cause("FieldValueForbidden", "resourceVersionMatch", text))
    if initial is not None and match != "NotOlderThan":
        text = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(Cause("FieldValueForbidden", "resourceVersionMatch", text))
        if match:
            text = f'Unsupported value: "{match}": supported values: "NotOlderThan"'
            causes.append(Cause("FieldValueNotSupported", "resourceVersionMatch", text))
    if causes:
        raise invalid("meta.k8s.io", "ListOptions", "", causes)


class Watch:
    """One watch-stream: an iterator over chunks of lines, ready to be sent."""

    def __init__(
        self, endpoint: Endpoint, namespace: str | None, view: View, options: WatchOptions
    ) -> None:
        self._store = endpoint.resource.store
        self._view = view
        self._options = options
        self._bookmark_view = view
        self._watcher = Watcher(namespace)
        self._namespace = namespace
        self._ends_at = asyncio.get_running_loop().time() + options.timeout

    async def stream(self, bookmark_interval: float) -> AsyncIterator[bytes]:
        """Yield lines as changes come, until the timeout or the end of the resource."""
        self._store.watchers[self._watcher] = None
        try:
            try:
                start = self._begin()
            except StatusError as error:
                yield b'{"type":"ERROR","object":%b}\n' % error.as_bytes()
                return
            for lines in start:
                yield lines
            async for lines in self._follow(bookmark_interval):
                yield lines
        finally:
            self._store.watchers.pop(self._watcher, None)

    def close(self) -> None:
        """End the stream, from the outside."""
        self._watcher.close()

    def _begin(self) -> Iterator[bytes]:
        options = self._options
        version = options.version
        if options.initial or (options.initial is None and not version):
            return self._initial_events()
        changes = self._store.since(version) if version else []
        lines = b"".join(self._lines(change) for change in changes if self._covers(change))
        return iter((lines,) if lines else ())

    def _covers(self, change: Change) -> bool:
        return self._namespace is None or self._namespace == change.now.key[0]

    def _initial_events(self) -> Iterator[bytes]:
        """The present state, in chunks; the changes that come meanwhile follow after it."""
        objects, version = self._store.select(self._namespace), self._store.versions.current
        view, selects = self._view, self._options.selects
        for start in range(0, len(objects), _CHUNK):
            yield b"".join(
                b'{"type":"ADDED","object":%b}\n' % view.show(stored)
                for stored in objects[start : start + _CHUNK]
                if selects is None or selects(stored.obj)
            )
        if self._options.initial and self._options.bookmarks:
            yield self._bookmark(INITIAL_EVENTS_END, version)

    async def _follow(self, interval: float) -> AsyncIterator[bytes]:
        loop, watcher = asyncio.get_running_loop(), self._watcher
        bookmark_at = loop.time() + interval
        while not watcher.closed:
            until = min(self._ends_at, bookmark_at) if self._options.bookmarks else self._ends_at
            if not watcher.queue and not await _wake(watcher, until):
                if loop.time() >= self._ends_at:
                    break
                bookmark_at = loop.time() + interval
                yield self._drain() + self._bookmark()
                continue
            lines = self._drain()
            if lines:
                yield lines
        if self._options.bookmarks and not watcher.closed:
            yield self._drain() + self._bookmark()

    def _drain(self) -> bytes:
        """The changes so far; they go right before a bookmark, too, as clients continue from it."""
        queue = self._watcher.queue
        lines = []
        while queue:
            lines.append(self._lines(queue.popleft()))
        self._watcher.wake.clear()
        return b"".join(lines)

    def _lines(self, change: Change) -> bytes:
        options = self._options
        if options.version is not None and change.version <= options.version:
            return b""
        selects = options.selects
        if selects is None:
            return self._view.line(change, change.type)
        before = change.old is not None and selects(change.old.obj)
        after = change.type != "DELETED" and selects(change.now.obj)
        if before and after:
            return self._view.line(change, "MODIFIED")
        if after:
            return self._view.line(change, "ADDED")
        if before:
            return self._gone(change)
        return b""

    def _gone(self, change: Change) -> bytes:
        """The line of an object that is not selected any more: its old state at the new version."""
        if change.type == "DELETED" or change.old is None:
            return self._view.line(change, "DELETED")
        obj = dict(change.old.obj)
        obj["metadata"] = {**obj["metadata"], "resourceVersion": str(change.version)}
        stored = Stored(change.now.key, change.version, obj)
        return b'{"type":"DELETED","object":%b}\n' % self._view.show(stored)

    def _bookmark(
        self, annotations: dict[str, str] | None = None, version: int | None = None
    ) -> bytes:
        metadata: dict[str, object] = {
            "resourceVersion": str(version or self._store.versions.current)
        }
        if annotations:
            metadata["annotations"] = annotations
        view = self._view
        obj = {"kind": view.kind, "apiVersion": view.api_version, "metadata": metadata}
        return b'{"type":"BOOKMARK","object":%b}\n' % jsons.dumps(obj)


async def _wake(watcher: Watcher, until: float) -> bool:
    """Wait until the watcher gets a change or is closed; false if it is too late."""
    try:
        async with asyncio.timeout_at(until):
            await watcher.wake.wait()
    except TimeoutError:
        return False
    return True
