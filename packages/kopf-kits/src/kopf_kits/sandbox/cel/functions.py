"""Functions and operators of CEL that are supported."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

_ESCAPED = {"__dash__": "-", "__dot__": ".", "__slash__": "/", "__underscores__": "__"}


class Unsupported(Exception):
    """An expression that is not understood: nothing can be said about it."""


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
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
    "lowerAscii": str.lower,
    "upperAscii": str.upper,
    "trim": str.strip,
    "split": str.split,
    "replace": str.replace,
    "join": lambda items, by="": by.join(items),
    "indexOf": lambda items, item: (
        items.find(item) if isinstance(items, str) else items.index(item)
    ),
    "substring": lambda text, start, end=None: text[start:end],
    "isSorted": lambda items: items == sorted(items),
    "sum": sum,
    "min": min,
    "max": max,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": len,
    "int": int,
    "double": float,
    "string": lambda value: str(value).lower() if isinstance(value, bool) else str(value),
    "bool": lambda value: value in (True, "true"),
    "dyn": lambda value: value,
    "matches": _METHODS["matches"],
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
    except (TypeError, ValueError, re.error) as error:
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
