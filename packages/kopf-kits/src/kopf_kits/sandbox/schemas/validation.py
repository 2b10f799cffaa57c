"""Validation of values by OpenAPI v3 schemas, with the messages that API servers give."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from kopf_kits.sandbox.base import jsons
from kopf_kits.sandbox.base.statuses import Cause

from .formats import is_format
from .schemas import Node

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}
_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("greater than or equal to", lambda value, bound: value >= bound),
    "maximum": ("less than or equal to", lambda value, bound: value <= bound),
}


def validate_changed(node: Node, value: Any, old: Any, path: str = "") -> list[Cause]:
    """Find what is wrong with the new value, except for what was wrong and stays as it was."""
    causes = list(validate(node, value, path))
    if not causes or old is None:
        return causes
    return [cause for cause in causes if not _is_unchanged(cause, value, old, path)]


def _is_unchanged(cause: Cause, value: Any, old: Any, path: str) -> bool:
    steps = _STEP.findall(cause.field[len(path) :])
    for index, name in steps:
        step: Any = int(index) if index else name
        try:
            value, old = value[step], old[step]
        except (KeyError, IndexError, TypeError):
            return False
    return bool(value == old)


def validate(node: Node, value: Any, path: str = "") -> Iterator[Cause]:
    """Find all what is wrong with the value, in the order of its fields."""
    spec = node.spec
    if value is None and node.nullable:
        return
    if not _fits_type(spec, value):
        if spec.get("type") == "integer" and isinstance(value, float):
            text = f"Checked value must be of type integer (default format) in {path}"
            yield Cause("FieldValueInvalid", "<nil>", f'Invalid value: "": {text}')
        yield _wrong_type(path, spec.get("type", ""), value)
        return
    yield from _validate_scalar(spec, value, path)
    if isinstance(value, dict):
        yield from _validate_object(node, value, path)
    elif isinstance(value, list):
        yield from _validate_list(node, value, path)
    yield from _validate_junctions(spec, value, path)


def show(value: Any) -> str:
    """The value as it is quoted in the messages."""
    return jsons.dumps(value).decode()


def invalid_value(path: str, value: Any, text: str) -> Cause:
    return Cause("FieldValueInvalid", path, f"Invalid value: {show(value)}: {text}")


def _in_body(path: str) -> str:
    return f"{path} in body" if path else "in body"


def _fits_type(spec: dict[str, Any], value: Any) -> bool:
    wanted = spec.get("type")
    if spec.get("x-kubernetes-int-or-string"):
        return isinstance(value, str) or _TYPES["integer"](value)
    return wanted is None or wanted not in _TYPES or _TYPES[wanted](value)


def _wrong_type(path: str, wanted: str, value: Any) -> Cause:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}
    found = "null" if value is None else names.get(type(value), "number")
    wanted = wanted or "integer,string"
    text = f'{_in_body(path)} must be of type {wanted}: "{found}"'
    return Cause("FieldValueTypeInvalid", path or "<nil>", f'Invalid value: "{found}": {text}')


def _validate_scalar(spec: dict[str, Any], value: Any, path: str) -> Iterator[Cause]:
    options = spec.get("enum")
    if options is not None and not any(_same(value, option) for option in options):
        listed = ", ".join(show(option) for option in options)
        text = f"Unsupported value: {show(value)}: supported values: {listed}"
        yield Cause("FieldValueNotSupported", path, text)
    if isinstance(value, str):
        yield from _validate_string(spec, value, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _validate_number(spec, value, path)


def _same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) is isinstance(other, bool)


@lru_cache(maxsize=1000)
def _pattern(text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text.replace(r"\z", r"\Z"))
    except re.error:
        return None  # Go's syntax differs in rare cases: better to accept than to misjudge.


def _validate_string(spec: dict[str, Any], value: str, path: str) -> Iterator[Cause]:
    longest, shortest = spec.get("maxLength"), spec.get("minLength")
    if longest is not None and len(value) > longest:
        text = f"Too long: may not be more than {longest} bytes"
        yield Cause("FieldValueTooLong", path, text)
    if shortest is not None and len(value) < shortest:
        text = f"{_in_body(path)} should be at least {shortest} chars long"
        yield invalid_value(path, value, text)
    pattern = _pattern(spec["pattern"]) if "pattern" in spec else None
    if pattern is not None and not pattern.search(value):
        yield invalid_value(path, value, f"{_in_body(path)} should match '{spec['pattern']}'")
    if "format" in spec and not is_format(spec["format"], value):
        text = f"{_in_body(path)} must be of type {spec['format']}: {show(value)}"
        yield Cause("FieldValueTypeInvalid", path, f"Invalid value: {show(value)}: {text}")


def _validate_number(spec: dict[str, Any], value: float, path: str) -> Iterator[Cause]:
    for keyword, (text, holds) in _BOUNDS.items():
        bound = spec.get(keyword)
        if bound is None:
            continue
        exclusive = bool(spec.get(f"exclusive{keyword.capitalize()}"))
        if holds(value, bound) and not (exclusive and value == bound):
            continue
        words = text.removesuffix(" or equal to") if exclusive else text
        yield invalid_value(path, value, f"{_in_body(path)} should be {words} {show(bound)}")
    factor = spec.get("multipleOf")
    if factor and (value / factor) % 1:
        text = f"{_in_body(path)} should be a multiple of {show(factor)}"
        yield invalid_value(path, value, text)


def _validate_object(node: Node, value: dict[str, Any], path: str) -> Iterator[Cause]:
    spec = node.spec
    for name in spec.get("required") or ():
        if name not in value:
            yield Cause("FieldValueRequired", f"{path}.{name}" if path else name, "Required value")
    fewest, most = spec.get("minProperties"), spec.get("maxProperties")
    if fewest is not None and len(value) < fewest:
        text = f"{_in_body(path)} should have at least {fewest} properties"
        yield invalid_value(path, value, text)
    if most is not None and len(value) > most:
        yield _too_many(path, len(value), most)
    if node.opaque:
        return
    for name, item in value.items():
        child = node.child(name)
        if child is not None and not (node.embedded and name in ("apiVersion", "kind")):
            yield from validate(child, item, f"{path}.{name}" if path else name)


def _too_many(path: str, count: int, most: int) -> Cause:
    text = f"Too many: {count}: must have at most {most} items"
    return Cause("FieldValueTooMany", path, text)


def _validate_list(node: Node, value: list[Any], path: str) -> Iterator[Cause]:
    spec = node.spec
    fewest, most = spec.get("minItems"), spec.get("maxItems")
    if fewest is not None and len(value) < fewest:
        text = f"{_in_body(path)} should have at least {fewest} items"
        yield invalid_value(path, value, text)
    if most is not None and len(value) > most:
        yield _too_many(path, len(value), most)
    yield from _find_duplicates(spec, value, path)
    if node.items is not None:
        for index, item in enumerate(value):
            yield from validate(node.items, item, f"{path}[{index}]")


def _find_duplicates(spec: dict[str, Any], value: list[Any], path: str) -> Iterator[Cause]:
    kind = spec.get("x-kubernetes-list-type")
    names = spec.get("x-kubernetes-list-map-keys") or []
    if kind not in ("set", "map"):
        return
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        if kind == "map" and not isinstance(item, dict):
            continue
        identity = item if kind == "set" else {name: item.get(name) for name in names}
        key = jsons.dumps(identity)
        if key in seen:
            text = f"Duplicate value: {key.decode()}"
            yield Cause("FieldValueDuplicate", f"{path}[{index}]", text)
        seen.add(key)


def _validate_junctions(spec: dict[str, Any], value: Any, path: str) -> Iterator[Cause]:
    for child in spec.get("allOf") or ():
        yield from validate(Node(child), value, path)
    if spec.get("anyOf") and not _count_valid(spec["anyOf"], value):
        text = f"{_in_body(path)} must validate at least one schema (anyOf)"
        yield invalid_value(path, value, text)
    if spec.get("oneOf"):
        count = _count_valid(spec["oneOf"], value)
        if count != 1:
            found = "Found none valid" if not count else f"Found {count} valid alternatives"
            text = f"{_in_body(path)} must validate one and only one schema (oneOf). {found}"
            yield invalid_value(path, value, text)
    if spec.get("not") and _count_valid([spec["not"]], value):
        yield invalid_value(path, value, f"{_in_body(path)} must not validate the schema (not)")


def _count_valid(specs: list[dict[str, Any]], value: Any) -> int:
    return sum(next(validate(Node(spec), value), None) is None for spec in specs)
