"""Default values as they are in JSON."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import math
from collections.abc import Mapping
from typing import Any

from kopf_cogs.structs.quantities import format_duration
from kopf_kits.definitions.errors import SchemaError
from kopf_kits.definitions.fields import list_init_fields, read_structure
from kopf_kits.definitions.places import Place


def make_plain(value: Any, schema: Mapping[str, Any], place: Place) -> Any:
    """The value in JSON, as the schema wants it. Raises :class:`SchemaError` for no JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        raise SchemaError(f"{place}: the default {value} is no JSON; use None, or no default.")
    if value is None or isinstance(value, bool | int | float | str):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, enum.Enum):
        return make_plain(value.value, schema, place)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _dump(value, schema, place)
    if isinstance(value, Mapping):
        inner = schema.get("additionalProperties")
        known = schema.get("properties") or {}
        return {
            str(key): make_plain(item, known.get(key) or inner or {}, place)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        items = [make_plain(item, schema.get("items") or {}, place) for item in value]
        return sorted(items, key=str) if isinstance(value, set | frozenset) else items
    return _write(value, schema)


def _dump(value: Any, schema: Mapping[str, Any], place: Place) -> dict[str, Any]:
    known = schema.get("properties") or {}
    found = {}
    fields = read_structure(type(value)).fields
    for attribute, field in zip(list_init_fields(type(value)), fields, strict=True):
        item = getattr(value, attribute.name)
        if item is not None:
            found[field.name] = make_plain(item, known.get(field.name) or {}, place)
    return found


def _write(value: Any, schema: Mapping[str, Any]) -> Any:
    match value:
        case datetime.datetime():
            return value.isoformat().replace("+00:00", "Z")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            is_go = schema.get("format") == "duration"
            return format_duration(value) if is_go else f"PT{value.total_seconds():g}S"
        case bytes():
            is_encoded = schema.get("format") == "byte"
            return base64.b64encode(value).decode() if is_encoded else value.decode()
    return str(value)
