"""Functions and operators of CEL that are supported."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Sequence
from typing import Any

from kopf_kits.sandbox.base.patterns import compile_pattern
from kopf_kits.sandbox.base.remarks import Unsupported
from kopf_kits.sandbox.base.times import parse_duration, parse_time

from .quantities import Quantity, is_quantity

_ESCAPED = {"__dash__": "-", "__dot__": ".", "__slash__": "/", "__underscores__": "__"}


class EvaluationError(Exception):
    """An expression that has no value, e.g. because a field is absent."""


def _contains(item: Any, values: Any) -> bool:
    return item in values


def _divide(one: Any, other: Any) -> Any:
    if isinstance(one, int) and isinstance(other, int):
        quotient = abs(one) // abs(other)
        return quotient if (one < 0) == (other < 0) else -quotient
    return one / other


def _equals(one: Any, other: Any) -> bool:
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _matches(text: str, pattern: str) -> bool:
    return compile_pattern(pattern).search(text) is not None


def _find(items: Any, item: Any) -> int:
    if isinstance(items, str):
        return items.find(item)
    return items.index(item) if item in items else -1


def _cut(text: str, start: int, end: int | None = None) -> str:
    if not 0 <= start <= (len(text) if end is None else end) <= len(text):
        raise EvaluationError("index out of range")
    return text[start:end]


def _string(value: Any) -> str:
    if isinstance(value, (bool, int, str)):
        return str(value).lower() if isinstance(value, bool) else str(value)
    raise Unsupported(f"string() of a {type(value).__name__}")


def _int(value: Any) -> int:
    if isinstance(value, (datetime.datetime, datetime.timedelta)):
        raise Unsupported(f"int() of a {type(value).__name__}")
    return int(value)


_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code + 32: code for code in _LOWER}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "==": _equals,
    "!=": lambda one, other: not _equals(one, other),
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": _contains,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": lambda one, other: one - other * _divide(one, other),
}
_METHODS: dict[str, Callable[..., Any]] = {
    "size": len,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": lambda text, part: part in text,
    "matches": _matches,
    "lowerAscii": lambda text: text.translate(_LOWER),
    "upperAscii": lambda text: text.translate(_UPPER),
    "trim": str.strip,
    "split": str.split,
    "replace": str.replace,
    "join": lambda items, by="": by.join(items),
    "indexOf": _find,
    "substring": _cut,
    "isSorted": lambda items: items == sorted(items),
    "sum": sum,
    "min": min,
    "max": max,
    "add": Quantity.add,
    "sub": Quantity.sub,
    "isInteger": Quantity.is_integer,
    "asInteger": Quantity.as_integer,
    "asApproximateFloat": Quantity.__float__,
    "compareTo": Quantity.compare,
    "isLessThan": lambda one, other: one < other,
    "isGreaterThan": lambda one, other: one > other,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": len,
    "int": _int,
    "double": float,
    "string": _string,
    "bool": lambda value: value in (True, "true"),
    "dyn": lambda value: value,
    "matches": _matches,
    "duration": parse_duration,
    "timestamp": parse_time,
    "quantity": Quantity.parse,
    "isQuantity": is_quantity,
}


def unescape_name(name: str) -> str:
    """The real name of a field: some of them cannot be written as they are."""
    if name.startswith("__") and name.endswith("__") and name not in _ESCAPED:
        return name.strip("_")  # a reserved word
    for escaped, text in _ESCAPED.items():
        name = name.replace(escaped, text)
    return name


def call_method(name: str, target: Any, arguments: list[Any]) -> Any:
    """Call a function of a value, e.g. ``text.startsWith("a")``."""
    return _call(_METHODS, name, [target, *arguments])


def call_function(name: str, arguments: list[Any]) -> Any:
    """Call a global function, e.g. ``size(items)``."""
    return _call(_FUNCTIONS, name, arguments)


def _call(known: dict[str, Callable[..., Any]], name: str, arguments: list[Any]) -> Any:
    if name not in known:
        raise Unsupported(f"unknown function {name}")
    try:
        return known[name](*arguments)
    except (TypeError, ValueError, AttributeError) as error:
        raise EvaluationError(str(error)) from None


def call_macro(
    name: str, items: Any, scopes: list[Any], bodies: Sequence[Callable[[Any], Any]]
) -> Any:
    """Call a macro over the items, e.g. ``items.all(item, item > 0)``."""
    first = bodies[0]
    match name:
        case "all":
            return all(first(scope) for scope in scopes)
        case "exists":
            return any(first(scope) for scope in scopes)
        case "exists_one":
            return sum(bool(first(scope)) for scope in scopes) == 1
        case "filter":
            found = zip(items, scopes, strict=True)
            return [item for item, scope in found if first(scope)]
        case _:
            chosen = [scope for scope in scopes if len(bodies) == 1 or first(scope)]
            return [bodies[-1](scope) for scope in chosen]
