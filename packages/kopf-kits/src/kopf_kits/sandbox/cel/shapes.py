"""Shapes by schemas for expressions: the types of values, and their largest sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Schema = Mapping[str, Any]

REQUEST = 3 * 1024 * 1024
"""The largest request to an API server, in bytes: the limit of values without other limits."""

_TEXT = {"duration": ("duration", 3, 32), "date": ("timestamp", 12, 12),
         "date-time": ("timestamp", 21, 32)}  # fmt: skip
_ROOT = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    },
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of a value, and its largest size."""

    kind: str
    """As in expressions: ``string``, ``list``, ``map``, ``object``, ``dyn``, and so on."""

    size: int = 0
    """The largest number of items or characters; zero for values that have neither."""

    shortest: int = 2
    """The least number of bytes that the value takes in JSON."""

    item: Shape | None = None
    fields: Mapping[str, Shape] = field(default_factory=dict)


def make_shape(schema: Schema, *, root: bool = False) -> Shape | None:
    """The shape by the schema; none if expressions cannot see such values."""
    if schema.get("x-kubernetes-int-or-string"):
        return Shape("dyn", _measure_text(schema, REQUEST - 2), shortest=1)
    match schema.get("type"):
        case "array":
            return _make_list(schema)
        case "object":
            values = schema.get("additionalProperties")
            if isinstance(values, Mapping) and not root:
                return _make_map(schema, values)
            return _make_object(schema, root=root)
        case "string":
            return _make_text(schema)
        case "boolean":
            return Shape("bool", shortest=4)
        case "number":
            return Shape("double", shortest=1)
        case "integer":
            return Shape("int", shortest=1)
    return None


def is_root(schema: Schema) -> bool:
    """Whether the value is a whole object inside of another one."""
    return bool(schema.get("x-kubernetes-embedded-resource"))


def _make_list(schema: Schema) -> Shape | None:
    items = schema.get("items") or {}
    item = make_shape(items, root=is_root(items))
    if item is None:
        return None
    most = schema.get("maxItems", (REQUEST - 2) // (item.shortest + 1))
    return Shape("list", max(0, most), item=item)


def _make_map(schema: Schema, values: Schema) -> Shape | None:
    item = make_shape(values, root=is_root(values))
    if item is None:
        return None
    most = schema.get("maxProperties", (REQUEST - 2) // (item.shortest + 6))
    return Shape("map", max(0, most), item=item)


def _make_object(schema: Schema, *, root: bool) -> Shape:
    fields: dict[str, Shape] = {}
    shortest = 2
    properties = {**(schema.get("properties") or {}), **(_ROOT if root else {})}
    for name, inner in properties.items():
        shape = make_shape(inner, root=is_root(inner))
        if shape is None:
            continue
        if _NAME.fullmatch(name):
            fields[name] = shape
        if name in (schema.get("required") or ()) and "default" not in inner:
            shortest += len(name) + shape.shortest + 4
    return Shape("object", shortest=shortest, fields=fields)


def _make_text(schema: Schema) -> Shape:
    form = schema.get("format")
    if form == "byte":
        return Shape("bytes", max(0, schema.get("maxLength", REQUEST - 2)))
    if form in _TEXT:
        kind, shortest, size = _TEXT[form]
        return Shape(kind, size, shortest)
    values = [len(value.encode()) for value in schema.get("enum") or () if isinstance(value, str)]
    return Shape("string", _measure_text(schema, max(values, default=REQUEST - 2)))


def _measure_text(schema: Schema, most: int) -> int:
    """The largest size: limits are in characters, and sizes are in bytes."""
    length = schema.get("maxLength")
    return most if length is None else 4 * max(0, length)
