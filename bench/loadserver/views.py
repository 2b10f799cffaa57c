"""What a request asks for: some objects or all of them; whole, or only their metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from bench.loadserver.http import Request
from bench.loadserver.objects import dumps, loads

IN_NAMESPACE = re.compile("/namespaces/([^/]+)/[^/]+$")


class View(NamedTuple):
    """What the requester sees of the objects."""

    namespace: str | None = None
    name: str | None = None
    is_metadata: bool = False

    @classmethod
    def of(cls, request: Request) -> View:
        field = unquote(request.param("fieldSelector") or "")
        found = IN_NAMESPACE.search(request.path)
        return cls(
            None if found is None else found[1],
            field.removeprefix("metadata.name=") or None,
            b"as=partialobjectmetadata" in request.head,
        )

    def select(self, objects: Mapping[str, bytes]) -> list[bytes]:
        names = objects if self.name is None else {self.name} & objects.keys()
        raws = [objects[name] for name in names]
        if self.namespace is not None:
            raws = [raw for raw in raws if self.is_here(raw)]
        return [dumps(narrow(loads(raw))) for raw in raws] if self.is_metadata else raws

    def is_here(self, raw: bytes) -> bool:
        """Whether the object, or that of the line, is in the namespace; found with no parsing."""
        return b'"namespace":"%b"' % (self.namespace or "").encode() in raw

    def narrow_line(self, line: bytes) -> bytes:
        """The line of an event as it is seen here; empty if it is of another object."""
        if self.namespace is not None and not self.is_here(line):
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
