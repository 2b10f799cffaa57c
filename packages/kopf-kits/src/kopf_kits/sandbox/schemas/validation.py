"""Validation of values by OpenAPI v3 schemas, with the messages that API servers give."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from kopf_kits.sandbox.base import jsons
from kopf_kits.sandbox.base.patterns import BadPattern, compile_pattern
from kopf_kits.sandbox.base.remarks import Doubt, Unsupported
from kopf_kits.sandbox.base.statuses import Cause

from .formats import is_format
from .multiples import is_multiple
from .schemas import Node

Found = Cause | Doubt
_QUOTED = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t",
           "\v": r"\v", '"': r"\"", "\\": r"\\"}  # fmt: skip
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_INT64 = range(-(2**63), 2**63)
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool) and value in _INT64)
        or (isinstance(value, float) and value.is_integer() and abs(value) <= jsons.LARGEST)
    ),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}
_NAMES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    type(None): "null",
}
_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("greater than or equal to", lambda value, bound: value >= bound),
    "maximum": ("less than or equal to", lambda value, bound: value <= bound),
}


def validate_changed(node: Node, value: Any, old: Any, path: str = "") -> list[Found]:
    """Find the errors of the new value, except for the errors in its unchanged parts."""
    causes = list(validate(node, value, path))
    if not causes or old is None:
        return causes
    return [cause for cause in causes if not _is_unchanged(cause, value, old, path)]


def _is_unchanged(cause: Found, value: Any, old: Any, path: str) -> bool:
    steps = _STEP.findall(cause.field[len(path) :])
    for index, name in steps:
        step: Any = int(index) if index else name
        try:
            value, old = value[step], old[step]
        except (KeyError, IndexError, TypeError):
            return False
    return bool(value == old)


def validate(node: Node, value: Any, path: str = "") -> Iterator[Found]:
    """Find all errors and all doubts about the value, in the order of its fields."""
    spec = node.spec
    if value is None and node.nullable:
        return
    if not _fits_type(spec, value):
        if spec.get("type") == "integer" and _is_fraction(value):
            form = f"with format {spec['format']}" if _is_sized(spec) else "(default format)"
            text = f"Checked value must be of type integer {form} in {path}"
            yield Cause("FieldValueInvalid", "<nil>", f'Invalid value: "": {text}')
        yield _wrong_type(path, spec, value)
        return
    yield from _validate_scalar(spec, value, path)
    if isinstance(value, dict):
        yield from _validate_object(node, value, path)
    elif isinstance(value, list):
        yield from _validate_list(node, value, path)
    yield from _validate_junctions(spec, value, path)


def show(value: Any) -> str:
    """The value as it is quoted in the messages: texts as in Go, all the rest as in JSON."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if not isinstance(value, str):
        return jsons.dumps(value).decode()
    return '"' + "".join(_QUOTED.get(char) or _quote(char) for char in value) + '"'


def _quote(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def invalid_value(path: str, value: Any, text: str) -> Cause:
    return Cause("FieldValueInvalid", path, f"Invalid value: {show(value)}: {text}")


def _in_body(path: str) -> str:
    return f"{path} in body" if path else "in body"


def _fits_type(spec: dict[str, Any], value: Any) -> bool:
    wanted = spec.get("type")
    if spec.get("x-kubernetes-int-or-string"):
        return isinstance(value, str) or _TYPES["integer"](value)
    return wanted is None or wanted not in _TYPES or _TYPES[wanted](value)


def _is_fraction(value: Any) -> bool:
    """API servers parse an integer beyond 64 bits as a fraction."""
    return isinstance(value, float) or (isinstance(value, int) and value not in _INT64)


def _is_sized(spec: dict[str, Any]) -> bool:
    return spec.get("type") == "integer" and spec.get("format") in ("int32", "int64")


def _wrong_type(path: str, spec: dict[str, Any], value: Any) -> Cause:
    found = "number" if _is_fraction(value) else _NAMES[type(value)]
    wanted = spec.get("type") or "integer,string"
    if _is_sized(spec) and _is_fraction(value):
        wanted, found = spec["format"], "float64"
    text = f'{_in_body(path)} must be of type {wanted}: "{found}"'
    return Cause("FieldValueTypeInvalid", path or "<nil>", f'Invalid value: "{found}": {text}')


def _validate_scalar(spec: dict[str, Any], value: Any, path: str) -> Iterator[Found]:
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


def _validate_string(spec: dict[str, Any], value: str, path: str) -> Iterator[Found]:
    longest, shortest = spec.get("maxLength"), spec.get("minLength")
    if longest is not None and len(value) > longest:
        text = f"Too long: may not be more than {longest} bytes"
        yield Cause("FieldValueTooLong", path, text)
    if shortest is not None and len(value) < shortest:
        text = f"{_in_body(path)} should be at least {shortest} chars long"
        yield invalid_value(path, value, text)
    if spec.get("pattern"):
        yield from _validate_pattern(spec["pattern"], value, path)
    try:
        good = "format" not in spec or is_format(spec["format"], value)
    except Unsupported as error:
        yield Doubt(path, f"the format {spec['format']}", str(error))
        return
    if not good:
        text = f"{_in_body(path)} must be of type {spec['format']}: {show(value)}"
        yield Cause("FieldValueTypeInvalid", path, f"Invalid value: {show(value)}: {text}")


def _validate_pattern(pattern: str, value: str, path: str) -> Iterator[Found]:
    try:
        if compile_pattern(pattern).search(value):
            return
    except Unsupported as error:
        yield Doubt(path, f"the pattern {pattern}", str(error))
        return
    except BadPattern as error:
        pattern += f", but pattern is invalid: {error}"
    yield invalid_value(path, value, f"{_in_body(path)} should match '{pattern}'")


def _validate_number(spec: dict[str, Any], value: float, path: str) -> Iterator[Cause]:
    if (
        spec.get("type") == "integer"
        and spec.get("format") == "int32"
        and not -(2**31) <= value < 2**31
    ):
        text = f"Checked value must be of type integer with format int32 in {path}"
        yield Cause("FieldValueInvalid", "<nil>", f'Invalid value: "": {text}')
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
    if factor and isinstance(value, int) and factor < 1:
        text = f"factor MultipleOf declared for {path} must be positive: 0"
        yield invalid_value(path, 0, text)  # API servers make the factor an integer.
    elif factor and not is_multiple(value, factor):
        text = f"{_in_body(path)} should be a multiple of {show(factor)}"
        yield invalid_value(path, value, text)


def _validate_object(node: Node, value: dict[str, Any], path: str) -> Iterator[Found]:
    spec = node.spec
    for name in spec.get("required") or ():
        if name not in value:
            yield Cause("FieldValueRequired", f"{path}.{name}" if path else name, "Required value")
    if spec.get("x-kubernetes-embedded-resource"):
        for name in ("apiVersion", "kind"):
            if not value.get(name):
                text = "Required value: must not be empty"
                yield Cause("FieldValueRequired", f"{path}.{name}", text)
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


def _validate_list(node: Node, value: list[Any], path: str) -> Iterator[Found]:
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


def _validate_junctions(spec: dict[str, Any], value: Any, path: str) -> Iterator[Found]:
    for child in spec.get("allOf") or ():
        yield from validate(Node(child), value, path)
    unclear: list[Doubt] = []
    if spec.get("anyOf") and not _count_valid(spec["anyOf"], value, path, unclear):
        text = f"{_in_body(path)} must validate at least one schema (anyOf)"
        yield invalid_value(path, value, text)
    if spec.get("oneOf"):
        before = len(unclear)
        count = _count_valid(spec["oneOf"], value, path, unclear)
        if count != 1 and len(unclear) == before:
            found = "Found none valid" if not count else f"Found {count} valid alternatives"
            text = f"{_in_body(path)} must validate one and only one schema (oneOf). {found}"
            yield invalid_value(path, value, text)
    if spec.get("not"):
        before = len(unclear)
        if _count_valid([spec["not"]], value, path, unclear) and len(unclear) == before:
            yield invalid_value(path, value, f"{_in_body(path)} must not validate the schema (not)")
    yield from unclear


def _count_valid(specs: list[dict[str, Any]], value: Any, path: str, unclear: list[Doubt]) -> int:
    """How many of the schemas may fit; unclear schemas count, too, and add their doubts."""
    count = 0
    for spec in specs:
        found = list(validate(Node(spec), value, path))
        if all(isinstance(one, Doubt) for one in found):
            count += 1
            unclear.extend(one for one in found if isinstance(one, Doubt))
    return count
