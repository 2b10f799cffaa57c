"""What a request asks for: some objects or all of them; whole, or only their metadata.

Servers select objects by shards only with ``BENCH_SELECTING``, as few API servers do it.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, unquote_plus

from bench.loadserver.http import Request
from bench.loadserver.objects import dumps, loads

IN_NAMESPACE = re.compile("/namespaces/([^/]+)/[^/]+$")

UID = re.compile(rb'"uid":"([^"]+)"')
RANGE = re.compile(r"'0x([0-9a-f]+)', '0x([0-9a-f]+)'")


class View(NamedTuple):
    """What the requester sees of the objects."""

    namespace: str | None = None
    name: str | None = None
    is_metadata: bool = False
    ranges: tuple[tuple[int, int], ...] = ()
    """The hashes of the uids; empty for all objects."""

    @classmethod
    def of(cls, request: Request) -> View:
        field = unquote(request.param("fieldSelector") or "")
        found = IN_NAMESPACE.search(request.path)
        return cls(
            None if found is None else found[1],
            field.removeprefix("metadata.name=") or None,
            b"as=partialobjectmetadata" in request.head,
            _parse_ranges(request) if os.environ.get("BENCH_SELECTING") else (),
        )

    def select(self, objects: Mapping[str, bytes]) -> list[bytes]:
        names = objects if self.name is None else {self.name} & objects.keys()
        raws = [objects[name] for name in names]
        if self.namespace is not None:
            raws = [raw for raw in raws if self.is_here(raw)]
        if self.ranges:
            raws = [raw for raw in raws if self.is_in_shards(raw)]
        return [dumps(narrow(loads(raw))) for raw in raws] if self.is_metadata else raws

    def is_here(self, raw: bytes) -> bool:
        """Whether the object, or that of the line, is in the namespace; found with no parsing."""
        return b'"namespace":"%b"' % (self.namespace or "").encode() in raw

    def is_in_shards(self, raw: bytes) -> bool:
        """Whether the object, or that of the line, is in the requested shards."""
        found = UID.search(raw)
        value = 0 if found is None else hash_uid(found[1])
        return any(start <= value < end for start, end in self.ranges)

    def narrow_line(self, line: bytes) -> bytes:
        """The line of an event as it is seen here; empty if it is of another object."""
        if self.namespace is not None and not self.is_here(line):
            return b""
        if self.ranges and not self.is_in_shards(line):
            return b""
        if self.name is None and not self.is_metadata:
            return line
        event = loads(line)
        if self.name not in (None, event["object"]["metadata"]["name"]):
            return b""
        return dumps({**event, "object": narrow(event["object"])}) if self.is_metadata else line


WHOLE = View()


def narrow(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Only the metadata of the object."""
    head = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
    return {**head, "metadata": body["metadata"]}


@functools.lru_cache(100_000)
def hash_uid(uid: bytes) -> int:
    """FNV-1a with 64 bits, as in API servers."""
    value = 0xCBF29CE484222325
    for byte in uid:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def _parse_ranges(request: Request) -> tuple[tuple[int, int], ...]:
    text = unquote_plus(request.param("shardSelector") or "")
    return tuple((int(start, 16), int(end, 16)) for start, end in RANGE.findall(text))
