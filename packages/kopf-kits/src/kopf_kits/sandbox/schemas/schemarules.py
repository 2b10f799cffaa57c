"""Rules of schemas: ``x-kubernetes-validations``."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

from kopf_kits.sandbox.base.remarks import Doubt, Remark, Unsupported
from kopf_kits.sandbox.base.statuses import Cause
from kopf_kits.sandbox.base.times import parse_date, parse_duration, parse_time
from kopf_kits.sandbox.cel.errors import EvaluationError
from kopf_kits.sandbox.cel.expressions import compile_expression
from kopf_kits.sandbox.cel.optionals import Optional

from .schemas import Node
from .validation import show

Found = Cause | Doubt | Remark
_BLOCKING = frozenset(
    (
        "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
        "FieldValueTypeInvalid",
    )
)  # fmt: skip
_MISSING: Any = object()
_READERS: dict[str, Callable[[str], Any]] = {
    "byte": base64.b64decode,
    "date": parse_date,
    "date-time": parse_time,
    "duration": parse_duration,
}
_WORDS = {"FieldValueForbidden": "Forbidden", "FieldValueRequired": "Required value",
          "FieldValueDuplicate": "Duplicate value"}  # fmt: skip


def block_rules(causes: list[Cause]) -> bool:
    """Whether the rules cannot be checked because of these problems."""
    return any(cause.reason in _BLOCKING for cause in causes)


def check_rules(
    node: Node, value: Any, old: Any = _MISSING, path: str = "", *, same: bool = False
) -> Iterator[Found]:
    """Tell which rules the value breaks; the rules on changes need the old value, too.

    An unchanged value causes only warnings. ``same`` is whether the parent has not changed;
    it matters for the items of lists that have no old value of their own.
    """
    if not node.ruled or value is None:
        return
    same = same if old is _MISSING else bool(value == old)
    for rule in node.rules:
        found = _check_rule(node, rule, value, old, path)
        if same and isinstance(found, Cause) and "oldSelf" not in rule.get("rule", ""):
            yield Remark(str(found))
        elif found is not None:
            yield found
    if isinstance(value, dict):
        for name, item in value.items():
            child = node.child(name)
            if child is not None:
                was = old.get(name, _MISSING) if isinstance(old, dict) else _MISSING
                where = f"{path}.{name}" if path else name
                yield from check_rules(child, item, was, where, same=same)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            was = _find_old(node, item, old)
            yield from check_rules(node.items, item, was, f"{path}[{index}]", same=same)


def _find_old(node: Node, item: Any, old: Any) -> Any:
    names = node.spec.get("x-kubernetes-list-map-keys")
    if not names or not isinstance(old, list):
        return _MISSING
    for was in old:
        if all(was.get(name) == item.get(name) for name in names):
            return was
    return _MISSING


def _check_rule(node: Node, rule: dict[str, Any], value: Any, old: Any, path: str) -> Found | None:
    text = str(rule.get("rule", ""))
    field = f"{path}{rule.get('fieldPath') or ''}".lstrip(".") or "<nil>"
    if "oldSelf" in text and (old is _MISSING or old is None) and not rule.get("optionalOldSelf"):
        return None
    try:
        scope = {"self": _typed(node, value)}
        if rule.get("optionalOldSelf"):
            is_there = old is not _MISSING and old is not None
            scope["oldSelf"] = Optional((_typed(node, old),) if is_there else ())
        elif "oldSelf" in text:
            scope["oldSelf"] = _typed(node, old)
        if compile_expression(text)(scope):
            return None
        message = _message(rule, scope, text)
    except Unsupported as error:
        return Doubt(field, f"the rule {text}", str(error))
    except EvaluationError as error:
        kind = f'"{node.spec.get("type", "")}": '
        text = f"{kind}{error} evaluating rule: {rule.get('message') or text}"
        return Cause("FieldValueInvalid", path or "<nil>", f"Invalid value: {text}")
    reason = str(rule.get("reason") or "FieldValueInvalid")
    if reason not in _WORDS and not isinstance(value, (dict, list)):
        message = f"{show(value)}: {message}"
    return Cause(reason, field, f"{_WORDS.get(reason, 'Invalid value')}: {message}")


def _typed(node: Node | None, value: Any) -> Any:
    """The value as rules see it: texts can be durations or times, integers can be fractions."""
    if node is None or not node.typed:
        return value
    if isinstance(value, dict):
        return {name: _typed(node.child(name), item) for name, item in value.items()}
    if isinstance(value, list):
        return [_typed(node.items, item) for item in value]
    form = node.spec.get("format")
    if isinstance(value, str) and form in _READERS:
        try:
            return _READERS[form](value)
        except ValueError as error:
            raise Unsupported(str(error)) from None
    if node.spec.get("type") == "number" and isinstance(value, int):
        return float(value)
    return value


def _message(rule: dict[str, Any], scope: dict[str, Any], text: str) -> str:
    expression = rule.get("messageExpression")
    if expression:
        try:
            return str(compile_expression(str(expression))(scope))
        except (Unsupported, EvaluationError):
            pass
    return str(rule.get("message") or f"failed rule: {text}").strip()
