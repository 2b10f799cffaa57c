"""Tables for ``kubectl get``: columns of the built-in kinds, and columns that CRDs declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kopf_kits.sandbox.base import jsons
from kopf_kits.sandbox.schemas.jsonpaths import compile_path
from kopf_kits.sandbox.store.resources import Endpoint
from kopf_kits.sandbox.store.views import View

from .ages import Since, show_age
from .columns import BUILTIN_COLUMNS, Column

Obj = dict[str, Any]
_NAME = (
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically."
)
_CREATED = "CreationTimestamp is a timestamp representing the server time when it was created."


def table_view(endpoint: Endpoint, include: str) -> View:
    """The objects as rows; ``include`` is which objects go with them: Metadata, Object, None."""
    columns = find_columns(endpoint)

    def make_row(obj: Obj) -> Obj:
        now = endpoint.nature.clock()
        cells = [column.cell(obj) for column in columns]
        row: Obj = {
            "cells": [show_age(x.timestamp, now) if isinstance(x, Since) else x for x in cells]
        }
        if include == "Object":
            row["object"] = endpoint.encode(obj)
        elif include != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj["metadata"],
            }
        return row

    return View(
        name="",
        convert=make_row,
        kind="Table",
        api_version="meta.k8s.io/v1",
        list_kind="Table",
        media_type="application/json;as=Table;g=meta.k8s.io;v=v1",
        table={"columnDefinitions": [column.definition() for column in columns]},
    )


def find_columns(endpoint: Endpoint) -> list[Column]:
    """The columns of the resource: its own columns, or just the name and the age."""
    name = Column("Name", lambda obj: obj["metadata"]["name"], format="name", description=_NAME)
    declared = endpoint.served.columns
    if declared:
        return [name, *(_make_column(column) for column in declared)]
    if endpoint.resource.custom:
        age = Column("Age", _created_ago, type="date", description=_CREATED)
        return [name, age]
    own = BUILTIN_COLUMNS.get(endpoint.resource.plural, ())
    age = Column("Age", _created_ago, description=_CREATED)
    if endpoint.resource.plural == "events":
        return list(own)
    if any(column.name == "Created At" for column in own):
        return [name, *own]
    return [name, *own, age]


def _created_ago(obj: Obj) -> Since:
    return Since(obj["metadata"].get("creationTimestamp"))


def _make_column(column: Obj) -> Column:
    kind = column.get("type", "string")
    find = compile_path(column["jsonPath"])
    return Column(
        column["name"],
        _cell_finder(find, kind),
        type=kind,
        format=column.get("format", ""),
        priority=int(column.get("priority") or 0),
        description=column.get("description")
        or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
    )


def _cell_finder(find: Callable[[Any], list[Any]], kind: str) -> Callable[[Obj], Any]:
    def cell(obj: Obj) -> Any:
        found = find(obj)
        if not found:
            return None
        value = found[0]
        if kind == "date":
            return Since(value) if isinstance(value, str) else "<invalid>"
        if kind in ("integer", "number"):
            return value if isinstance(value, (int, float)) else None
        if kind == "boolean":
            return value if isinstance(value, bool) else None
        if len(found) > 1:
            return ",".join(str(item) for item in found)
        return value if isinstance(value, str) else _show_plain(value)

    return cell


def _show_plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return jsons.dumps(value).decode() if isinstance(value, (dict, list)) else str(value)
