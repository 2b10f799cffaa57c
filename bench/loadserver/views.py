"""What a request asks for: one object or all of them; whole, or only their metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from bench.loadserver.http import Request
from bench.loadserver.objects import dumps, loads


class Event:
    """One event of the watch-streams."""

    __slots__ = ("line", "raw", "type")

    def __init__(self, type: bytes, raw: bytes) -> None:
        self.type, self.raw = type, raw
        self.line = make_line(type, raw)


class View(NamedTuple):
    """What the requester sees of the objects."""

    name: str | None = None
    is_metadata: bool = False

    @classmethod
    def of(cls, request: Request) -> View:
        field = unquote(request.param("fieldSelector") or "")
        name = field.removeprefix("metadata.name=") if field else None
        return cls(name, b"as=partialobjectmetadata" in request.head)

    def select(self, objects: Mapping[str, bytes]) -> list[bytes]:
        names = objects if self.name is None else {self.name} & objects.keys()
        raws = [objects[name] for name in names]
        return [narrow(raw) for raw in raws] if self.is_metadata else raws

    def narrow(self, event: Event) -> bytes | None:
        """The line of the event; ``None`` if it is of another object."""
        if self.name is not None and loads(event.raw)["metadata"]["name"] != self.name:
            return None
        return make_line(event.type, narrow(event.raw)) if self.is_metadata else event.line


WHOLE = View()


def make_line(type: bytes, raw: bytes) -> bytes:
    return b'{"type":"%b","object":%b}' % (type, raw)


def narrow(raw: bytes) -> bytes:
    """Only the metadata of the object."""
    head = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
    return dumps({**head, "metadata": loads(raw)["metadata"]})
