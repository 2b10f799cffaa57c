"""Markers of types, turned into keywords of schemas."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kopf_cogs.structs import markers as known
from kopf_kits.definitions.expressions import make_group_rule, make_rule
from kopf_kits.definitions.places import Place

Schema = dict[str, Any]

_BOUNDS: Final = ("ge", "gt", "le", "lt", "multiple_of")
_LENGTHS: Final = {"string": "Length", "array": "Items", "object": "Properties"}
_OPERATORS: Final = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
RULES: Final = "x-kubernetes-validations"


def add_limits(schema: Schema, markers: Iterable[Any], place: Place) -> None:
    """Add the keywords of all the markers to the schema, in place."""
    for marker in markers:
        if isinstance(marker, known.Marker) and not isinstance(marker, known.Limits):
            _add_marker(schema, marker, place)
        else:
            _add_foreign(schema, marker, place)


def add_rule(schema: Schema, rule: Mapping[str, Any]) -> None:
    """Add a rule of CEL, if it is not there."""
    rules = schema.setdefault(RULES, [])
    if rule not in rules:
        rules.append(dict(rule))


def _add_foreign(schema: Schema, marker: Any, place: Place) -> None:
    """Add limits of pydantic, of annotated-types, or ours: their attributes tell the limits."""
    for name in _BOUNDS:
        if (bound := getattr(marker, name, None)) is not None:
            _add_bound(schema, name, bound, place)
    for name, prefix in (("min_length", "min"), ("max_length", "max")):
        if (length := getattr(marker, name, None)) is not None:
            _add_length(schema, prefix, length, place)
    pattern = getattr(marker, "pattern", None)
    if isinstance(pattern, re.Pattern):
        pattern = pattern.pattern
    if isinstance(pattern, str):
        schema["pattern"] = pattern
    if type(marker).__name__ in ("EncodedBytes", "EncodedStr"):
        schema["format"] = "byte"


def _add_bound(schema: Schema, name: str, bound: Any, place: Place) -> None:
    if isinstance(bound, float) and not math.isfinite(bound):
        raise place.error(f"the limit {name}={bound!r} is no number of JSON: leave it out.")
    if schema.get("type") not in ("integer", "number"):
        add_rule(schema, {"rule": _compare(schema, name, bound, place)})
    elif name == "multiple_of":
        schema["multipleOf"] = bound
    else:
        keyword = "minimum" if name in ("ge", "gt") else "maximum"
        schema[keyword] = bound
        if bound % 1:  # the API compares integers of JSON with the bound without its fraction
            add_rule(schema, {"rule": f"self {_OPERATORS[name]} {float(bound)!r}"})
        elif name in ("gt", "lt"):
            schema[f"exclusive{keyword.capitalize()}"] = True


def _compare(schema: Schema, name: str, bound: Any, place: Place) -> str:
    """The expression for a limit without a keyword: the values are not numbers in JSON."""
    operator = _OPERATORS.get(name)
    if operator and isinstance(bound, datetime.timedelta) and schema.get("format") == "duration":
        return f'self {operator} duration("{bound.total_seconds():f}s")'
    if operator and isinstance(bound, datetime.datetime):
        return f'self {operator} timestamp("{bound.isoformat()}")'
    if operator and schema.get("x-kubernetes-int-or-string") and _is_number(bound):
        return f"double(self) {operator} {float(bound)!r}"
    raise place.error(f"the limit {name}={bound!r} cannot be written for this type.")


def _is_number(bound: Any) -> bool:
    try:
        return not isinstance(bound, str) and float(bound) is not None
    except (TypeError, ValueError):
        return False


def _add_length(schema: Schema, prefix: str, length: int, place: Place) -> None:
    if schema.get("format") == "byte":  # the length is of the decoded bytes
        add_rule(schema, {"rule": f"size(self) {'>=' if prefix == 'min' else '<='} {length}"})
    elif schema.get("type") in _LENGTHS:
        if length or prefix == "max":
            schema[f"{prefix}{_LENGTHS[schema['type']]}"] = length
    elif schema.get("x-kubernetes-int-or-string"):
        schema[f"{prefix}Length"] = length
    else:
        raise place.error("there are limits of length for what has no length.")


def _add_marker(schema: Schema, marker: known.Marker, place: Place) -> None:
    match marker:
        case known.Rule():
            add_rule(schema, make_rule(marker))
        case known.Immutable():
            add_rule(schema, {"rule": "self == oldSelf", "message": marker.message})
        case known.ExactlyOneOf() | known.AtMostOneOf() | known.AtLeastOneOf():
            add_rule(schema, make_group_rule(marker))
        case known.MapKeys():
            schema["x-kubernetes-list-type"] = "map"
            schema["x-kubernetes-list-map-keys"] = list(marker.names)
        case known.Schema():
            schema.update(marker.keywords)
        case known.Enumerated():
            schema["enum"] = list(marker.values)
        case known.Nullable():
            schema.pop("nullable", None)
            schema.update({"nullable": True} if marker.allowed else {})
        case known.ListType() if schema.get("type") != "array":
            raise place.error("ListType() is for lists only.")
        case known.MapType() if schema.get("type") != "object":
            raise place.error("MapType() is for mappings and structures only.")
        case _:
            schema.update(_make_keywords(marker))


def _make_keywords(marker: known.Marker) -> Schema:
    match marker:
        case known.Title():
            return {"title": marker.text}
        case known.Description():
            return {"description": marker.text}
        case known.Example():
            return {"example": marker.value}
        case known.Format():
            return {"format": marker.name}
        case known.ListType():
            return {"x-kubernetes-list-type": marker.type}
        case known.MapType():
            return {"x-kubernetes-map-type": marker.type}
        case known.PreserveUnknown():
            return {"x-kubernetes-preserve-unknown-fields": True}
    return {}
