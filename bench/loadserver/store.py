"""The objects as raw JSON, the journal of their changes, and the watch-streams to feed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from bench.loadserver.objects import dumps, loads, make_object
from bench.loadserver.views import WHOLE, View

SLICE = 64  # events written before the loop may do anything else


class Watcher:
    """One watch-stream: a chunked response which never ends by itself."""

    def __init__(self, transport: asyncio.Transport, view: View) -> None:
        self.transport = transport
        self.view = view

    def send(self, line: bytes) -> None:
        if self.view != WHOLE:
            line = self.view.narrow_line(line)
            if not line:
                return
        # One chunk per event, as the real API servers do: they flush after every event.
        self.transport.write(b"%x\r\n%b\n\r\n" % (len(line) + 1, line))

    def is_congested(self) -> bool:
        return self.transport.get_write_buffer_size() > 1 << 20


class Store:
    """All objects of one resource, and the versions of everything."""

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []
        self.reset(0)

    def reset(self, count: int) -> None:
        self.objects: dict[str, bytes] = {}
        self.base = self.version = 1000
        self.journal: list[bytes] = []
        for index in range(count):
            body = make_object(index)
            body["metadata"]["resourceVersion"] = str(self.version)
            self.objects[body["metadata"]["name"]] = dumps(body)

    def disconnect(self, transport: asyncio.Transport) -> None:
        self.watchers[:] = [w for w in self.watchers if w.transport is not transport]

    def bump(self) -> str:
        self.version += 1
        return str(self.version)

    def emit(self, kind: bytes, raw: bytes) -> None:
        line = b'{"type":"%b","object":%b}' % (kind, raw)
        self.journal.append(line)  # for those who list first and watch a bit later
        for watcher in self.watchers:
            watcher.send(line)

    def missed(self, version: int) -> Iterable[bytes]:
        return self.journal[max(0, version - self.base) :]

    def create(self, body: dict[str, Any]) -> bytes:
        body["metadata"]["resourceVersion"] = self.bump()
        raw = self.objects[body["metadata"]["name"]] = dumps(body)
        self.emit(b"ADDED", raw)
        return raw

    def replace(self, body: dict[str, Any]) -> bytes:
        """Store the modified object; or forget it if it is deleted and nothing blocks it."""
        meta = body["metadata"]
        meta["resourceVersion"] = self.bump()
        raw = dumps(body)
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            del self.objects[meta["name"]]
            self.emit(b"DELETED", raw)
        else:
            self.objects[meta["name"]] = raw
            self.emit(b"MODIFIED", raw)
        return raw

    def delete(self, name: str) -> bytes:
        body = loads(self.objects[name])
        body["metadata"].setdefault("deletionTimestamp", "2026-01-01T01:00:00Z")
        return self.replace(body)


async def pump(store: Store, steps: Iterator[None]) -> None:
    """Perform the scripted changes as fast as the slowest reader takes them, no faster."""
    for done, _ in enumerate(steps, 1):
        if done % SLICE == 0:
            await asyncio.sleep(0)
            while any(w.is_congested() for w in store.watchers):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
