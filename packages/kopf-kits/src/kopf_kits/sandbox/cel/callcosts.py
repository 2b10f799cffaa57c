"""The costs of functions in expressions, and the sizes of their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from . import syntax
from .sizes import MOST, Size, Value, limit, scale

_KINDS = {
    "size": "int", "int": "int", "double": "double", "string": "string", "bytes": "bytes",
    "bool": "bool", "duration": "duration", "timestamp": "timestamp", "type": "type",
    "startsWith": "bool", "endsWith": "bool", "contains": "bool", "matches": "bool",
    "isSorted": "bool", "indexOf": "int", "lastIndexOf": "int", "charAt": "string",
    "lowerAscii": "string", "upperAscii": "string", "substring": "string", "trim": "string",
    "replace": "string", "split": "list", "join": "string", "find": "string", "findAll": "list",
    "isIP": "bool", "isCIDR": "bool", "isURL": "bool", "isQuantity": "bool", "isSemver": "bool",
    "ip.isCanonical": "bool", "containsIP": "bool", "containsCIDR": "bool", "family": "int",
    "prefixLength": "int", "isInteger": "bool", "asInteger": "int", "compareTo": "int",
    "isGreaterThan": "bool", "isLessThan": "bool", "asApproximateFloat": "double",
    "hasValue": "bool", "sets.contains": "bool", "sets.equivalent": "bool",
    "sets.intersects": "bool", "ip": "opaque", "cidr": "opaque", "url": "opaque",
    "quantity": "opaque", "semver": "opaque", "masked": "opaque", "add": "opaque",
    "sub": "opaque", "getScheme": "string", "getHost": "string", "getHostname": "string",
    "getPort": "string", "getEscapedPath": "string", "getQuery": "map",
}  # fmt: skip
_PARTS = ("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear",
          "getHours", "getMinutes", "getSeconds")  # fmt: skip
_TEXT = 0.1  # the cost to go through one character
_PATTERN = 0.25  # the cost of one character of a pattern
_FORMAT = 128  # the length of the longest pattern of a format of names, as servers assume
_ADDRESS = 16  # bytes of the longest address


class Call(NamedTuple):
    """A call of a function, with the estimates of its arguments."""

    name: str
    target: Value | None
    arguments: Sequence[Value]
    nodes: Sequence[syntax.Node]

    def measure(self, index: int) -> Size:
        """The size of an argument; of the target, if the index is -1."""
        value = self.target if index < 0 else self.arguments[index]
        return Size(0, MOST) if value is None else value.measure()


def estimate_call(call: Call) -> Value:
    """The cost of the call itself, and the estimate of its result."""
    estimate = _ESTIMATES.get(call.name)
    needed = _ARGUMENTS.get(call.name, 0)
    if estimate is None or len(call.arguments) < needed:
        return Value(_find_kind(call), 1, item=_find_item(call), size=None)
    return estimate(call)


def _find_kind(call: Call) -> str:
    if call.name in _PARTS:
        return "int"
    if call.name in ("value", "orValue") and call.target is not None and call.target.item:
        return call.target.item.kind
    if call.name.startswith("optional.") or call.name == "or":
        return "optional"
    return _KINDS.get(call.name, "dyn")


def _find_item(call: Call) -> Value | None:
    """The estimate of the value inside of an optional, or of the items of a list."""
    if call.name in ("value", "orValue") and call.target is not None and call.target.item:
        return call.target.item.item
    if call.name == "or" and call.target is not None:
        return call.target.item
    if call.name.startswith("optional.") and call.arguments:
        return call.arguments[0]
    return None


def _by_text(index: int, factor: float = _TEXT, *, sized: bool = False) -> Callable[[Call], Value]:
    """For functions that go through a text. If ``sized``, the result is as large as the text."""

    def estimate(call: Call) -> Value:
        size = call.measure(index)
        kept = Size(size.least, size.most) if sized else None
        return Value(_KINDS.get(call.name, "dyn"), scale(size.most, factor), size=kept)

    return estimate


def _dyn(call: Call) -> Value:
    value = call.arguments[0]
    return Value("dyn", 1, size=value.measure(), item=value.item)


def _contains(call: Call) -> Value:
    cost = scale(call.measure(-1).most, _TEXT) * scale(call.measure(0).most, _TEXT)
    return Value("bool", limit(cost))


def _matches(call: Call) -> Value:
    if call.target is None:
        return Value("bool", 1)  # servers do not estimate the function of two arguments
    return Value("bool", _find_cost(call))


def _find_cost(call: Call) -> int:
    text = scale(limit(call.measure(-1).most + 1), _TEXT)
    return limit(text * scale(call.measure(0).most, _PATTERN))


def _find(call: Call) -> Value:
    size = Size(0, call.measure(-1).most)
    item = Value("string", 0) if call.name == "findAll" else None
    return Value(_KINDS[call.name], _find_cost(call), size=size, item=item)


def _through_list(call: Call) -> Value:
    target = call.target or Value("dyn", 0)
    size = target.measure().most
    item = target.item
    if target.type is not None and target.type.item is not None:
        path = target.path.item if target.path else None
        item = Value(target.type.item.kind, 0, path, target.type.item)
    if target.kind != "list" or item is None:
        return Value(_KINDS.get(call.name, "dyn"), scale(size, _TEXT))
    # Servers do not know the sizes of texts in lists that are no part of the object.
    known = item.measure() if item.path is not None or item.kind not in ("string", "bytes") else (
        Size(0, MOST))  # fmt: skip
    each = 1 + (scale(known.most, _TEXT) if item.kind in ("string", "bytes") else 0)
    return Value(_KINDS.get(call.name, item.kind), limit(size * each))


def _replace(call: Call) -> Value:
    size, old, new = call.measure(-1), call.measure(0), call.measure(1)
    if old.least == 0:
        most = limit(size.most + 1) * new.most + size.most
    elif new.most <= old.least:
        most = size.most
    else:
        most = -(-size.most // old.least) * new.most
    return Value("string", scale(size.most, 2 * _TEXT), size=Size(0, limit(most)))


def _split(call: Call) -> Value:
    size = call.measure(-1)
    most = size.most
    if len(call.nodes) > 1 and isinstance(call.nodes[1], syntax.Literal):
        most = int(call.nodes[1].value)
    cost = scale(size.most, 2 * _TEXT)
    return Value("list", cost, size=Size(0, most), item=Value("string", 0))


def _join(call: Call) -> Value:
    target = call.target or Value("dyn", 0)
    count = target.measure().most
    path = target.path.item if target.path else None
    each = path.size if path is not None else MOST
    by = call.measure(0).most if call.arguments else 0
    most = limit(count * each + by * max(0, count - 1))
    return Value("string", scale(most, _TEXT), size=Size(0, most))


def _ip(call: Call) -> Value:
    return Value("opaque", 1 if call.target is not None else scale(call.measure(0).most, _TEXT))


def _contains_ip(call: Call) -> Value:
    cost = scale(2 * _ADDRESS, _TEXT)
    if call.name == "containsCIDR":
        cost += scale(_ADDRESS, _TEXT) + 1
    is_text = call.arguments[0].kind in ("string", "dyn")
    return Value("bool", limit(cost + (scale(call.measure(0).most, _TEXT) if is_text else 0)))


def _validate(call: Call) -> Value:
    text = scale(call.measure(0).most, _TEXT)
    return Value("optional", scale(text, _FORMAT * _PATTERN))


def _sets(factor: int) -> Callable[[Call], Value]:
    def estimate(call: Call) -> Value:
        cost = call.measure(0).most * call.measure(1).most * factor + 1
        return Value("bool", limit(cost))

    return estimate


_ESTIMATES: dict[str, Callable[[Call], Value]] = {
    "dyn": _dyn,
    "startsWith": _by_text(0),
    "endsWith": _by_text(0),
    "contains": _contains,
    "matches": _matches,
    "find": _find,
    "findAll": _find,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _through_list),
    **{name: _by_text(-1, sized=True)
       for name in ("lowerAscii", "upperAscii", "substring", "trim")},
    "replace": _replace,
    "split": _split,
    "join": _join,
    "url": _by_text(0, sized=True),
    "ip": _ip,
    **{name: _by_text(0) for name in ("cidr", "isIP", "isCIDR", "quantity", "isQuantity",
                                      "semver", "isSemver")},
    "ip.isCanonical": _by_text(0, 2 * _TEXT),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_ip,
    "validate": _validate,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
}  # fmt: skip
_ARGUMENTS = {"matches": 1, "find": 1, "findAll": 1, "contains": 1, "replace": 2, "startsWith": 1,
              "endsWith": 1, "dyn": 1, "containsIP": 1, "containsCIDR": 1, "sets.contains": 2,
              "sets.intersects": 2, "sets.equivalent": 2, "url": 1, "cidr": 1, "isIP": 1,
              "isCIDR": 1, "quantity": 1, "isQuantity": 1, "semver": 1, "isSemver": 1,
              "ip.isCanonical": 1, "validate": 1}  # fmt: skip
