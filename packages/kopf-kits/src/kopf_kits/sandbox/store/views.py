"""Views on objects: as they are, only their metadata, or rows of tables for ``kubectl get``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kopf_kits.sandbox.base import jsons

from .resources import Endpoint
from .storage import Change, Stored

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """How objects are shown: a name for caching (if any), and a function from the stored form."""

    name: str
    convert: Callable[[Obj], Obj] | None
    kind: str
    api_version: str
    list_kind: str
    media_type: str = "application/json"
    table: Obj | None = None
    bare_items: bool = False

    def show(self, stored: Stored) -> bytes:
        """One object as bytes; made once for all readers."""
        if self.convert is None:
            return stored.data
        if not self.name:
            return jsons.dumps(self.convert(stored.obj))
        return stored.rendered(self.name, self.convert)

    def item(self, stored: Stored) -> bytes:
        """One object in a list: objects of built-in kinds have no kind and version there."""
        if self.table is not None or not self.bare_items:
            return self.show(stored)
        return stored.rendered(f"item:{self.name}", self._strip)

    def _strip(self, obj: Obj) -> Obj:
        shown = obj if self.convert is None else self.convert(obj)
        return {k: v for k, v in shown.items() if k not in ("kind", "apiVersion")}

    def line(self, change: Change, type: str) -> bytes:
        """One line of a watch-stream; made once for all watchers."""
        if not self.name:
            return b'{"type":"%b","object":%b}\n' % (type.encode(), self.show(change.now))
        key = f"{type}:{self.name}"
        line = change.lines.get(key)
        if line is None:
            data = self.show(change.now)
            line = change.lines[key] = b'{"type":"%b","object":%b}\n' % (type.encode(), data)
        return line

    def watched(self) -> View:
        """The same view for a watch-stream: there, every row is in a table of its own."""
        if self.table is None or self.convert is None:
            return self
        make_row, table = self.convert, self.table

        def make_table(obj: Obj) -> Obj:
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            head = {"kind": self.kind, "apiVersion": self.api_version, "metadata": metadata}
            return {**head, **table, "rows": [make_row(obj)]}

        return replace(self, convert=make_table)

    def envelope(self, metadata: Obj) -> tuple[bytes, bytes]:
        """The bytes before and after the items of a list."""
        head = {"kind": self.list_kind, "apiVersion": self.api_version, "metadata": metadata}
        if self.table is not None:
            head.update(self.table)
        field = "rows" if self.table is not None else "items"
        return jsons.dumps(head)[:-1] + b',"%b":[' % field.encode(), b"]}\n"


def object_view(endpoint: Endpoint) -> View:
    """The objects as they are, in the version of the endpoint."""
    return View(
        name=endpoint.view,
        convert=None if endpoint.native else endpoint.encode,
        kind=endpoint.resource.kind,
        api_version=endpoint.api_version,
        list_kind=endpoint.resource.list_kind,
        bare_items=not endpoint.resource.custom,
    )


def metadata_view(endpoint: Endpoint) -> View:
    """Only the metadata of the objects: ``PartialObjectMetadata``."""
    kind, version = "PartialObjectMetadata", "meta.k8s.io/v1"

    def convert(obj: Obj) -> Obj:
        return {"kind": kind, "apiVersion": version, "metadata": obj["metadata"]}

    return View(
        name="metadata",
        convert=convert,
        kind=kind,
        api_version=version,
        list_kind=f"{kind}List",
        media_type=f"application/json;as={kind};g=meta.k8s.io;v=v1",
    )


def choose_view(endpoint: Endpoint, accept: str, tables: Callable[[Endpoint], View]) -> View | None:
    """The first known view that the client accepts; none if the client accepts no known view."""
    if accept in ("", "*/*", "application/json"):
        return object_view(endpoint)
    for choice in accept.split(","):
        parts = [part.strip() for part in choice.split(";")]
        shape = next((part[3:] for part in parts if part.startswith("as=")), "")
        if parts[0] not in ("application/json", "*/*", "application/*"):
            continue
        if not shape:
            return object_view(endpoint)
        if shape == "Table":
            return tables(endpoint)
        if shape.startswith("PartialObjectMetadata"):
            return metadata_view(endpoint)
    return None
