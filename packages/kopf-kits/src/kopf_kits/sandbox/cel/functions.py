"""Functions and operators of CEL that are supported."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Sequence
from typing import Any

from kopf_kits.sandbox.base.patterns import compile_pattern
from kopf_kits.sandbox.base.remarks import Unsupported
from kopf_kits.sandbox.base.times import parse_duration, parse_time

from . import networks, types
from .errors import EvaluationError
from .optionals import Optional, make_nonzero
from .quantities import Quantity, is_quantity


def _contains(item: Any, values: Any) -> bool:
    return item in values


def _divide(one: Any, other: Any) -> Any:
    if isinstance(one, int) and isinstance(other, int):
        quotient = abs(one) // abs(other)
        return quotient if (one < 0) == (other < 0) else -quotient
    return one / other


def _bounded(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Integers are of 64 bits."""

    def compute(one: Any, other: Any) -> Any:
        result = apply(one, other)
        if isinstance(result, int) and not -(2**63) <= result < 2**63:
            raise EvaluationError("integer overflow")
        return result

    return compute


def _equals(one: Any, other: Any) -> bool:
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _matches(text: str, pattern: str) -> bool:
    return compile_pattern(pattern).search(text) is not None


def _find(items: Any, item: Any) -> int:
    if isinstance(items, str):
        return items.find(item)
    return items.index(item) if item in items else -1


def _find_last(items: Any, item: Any) -> int:
    if isinstance(items, str):
        return items.rfind(item)
    found = [index for index, other in enumerate(items) if other == item]
    return found[-1] if found else -1


def _split(text: str, by: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not by:
        return [*text] if limit < 0 else [*text[: limit - 1], text[limit - 1 :]]
    return text.split(by, limit - 1 if limit > 0 else -1)


def _find_all(text: str, pattern: str, limit: int) -> list[str]:
    found = [match[0] for match in compile_pattern(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


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
    "+": _bounded(operator.add),
    "-": _bounded(operator.sub),
    "*": _bounded(operator.mul),
    "/": _bounded(_divide),
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
    "split": _split,
    "replace": str.replace,
    "charAt": lambda text, index: _cut(text, index, index + 1) if index < len(text) else "",
    "lastIndexOf": _find_last,
    "reverse": lambda items: items[::-1],
    "find": lambda text, pattern: (_find_all(text, pattern, 1) or [""])[0],
    "findAll": lambda text, pattern, limit=-1: _find_all(text, pattern, limit),
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
    "hasValue": Optional.has_value,
    "value": Optional.value,
    "orValue": Optional.or_value,
    "or": Optional.or_other,
    **networks.METHODS,
    **types.METHODS,
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
    "optional.of": lambda value: Optional((value,)),
    "optional.none": Optional,
    "optional.ofNonZeroValue": make_nonzero,
    "sets.contains": lambda items, others: all(item in items for item in others),
    "sets.equivalent": lambda items, others: (
        all(item in items for item in others) and all(item in others for item in items)
    ),
    "sets.intersects": lambda items, others: any(item in items for item in others),
    "type": types.get_type,
    **networks.FUNCTIONS,
}


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
        case "optMap":
            return Optional(tuple(first(scope) for scope in scopes))
        case "optFlatMap":
            return first(scopes[0]) if scopes else Optional()
        case _:
            chosen = [scope for scope in scopes if len(bodies) == 1 or first(scope)]
            return [bodies[-1](scope) for scope in chosen]
