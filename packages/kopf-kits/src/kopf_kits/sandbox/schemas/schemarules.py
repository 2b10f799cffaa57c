"""Rules of schemas: ``x-kubernetes-validations``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kopf_kits.sandbox.base.statuses import Cause
from kopf_kits.sandbox.cel.expressions import compile_expression
from kopf_kits.sandbox.cel.functions import EvaluationError, Unsupported

from .schemas import Node

_BLOCKING = frozenset(
    (
        "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
        "FieldValueTypeInvalid",
    )
)  # fmt: skip
_MISSING: Any = object()


def block_rules(causes: list[Cause]) -> bool:
    """Whether the rules cannot be checked because of these problems."""
    return any(cause.reason in _BLOCKING for cause in causes)


def check_rules(node: Node, value: Any, old: Any = _MISSING, path: str = "") -> Iterator[Cause]:
    """Tell which rules are broken by the value; those on changes need the old value, too."""
    if not node.ruled or value is None:
        return
    for rule in node.spec.get("x-kubernetes-validations") or ():
        cause = _check_rule(rule, value, old, path)
        if cause is not None:
            yield cause
    if isinstance(value, dict):
        for name, item in value.items():
            child = node.child(name)
            if child is not None:
                was = old.get(name, _MISSING) if isinstance(old, dict) else _MISSING
                yield from check_rules(child, item, was, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            was = _find_old(node, item, old)
            yield from check_rules(node.items, item, was, f"{path}[{index}]")


def _find_old(node: Node, item: Any, old: Any) -> Any:
    names = node.spec.get("x-kubernetes-list-map-keys")
    if not names or not isinstance(old, list):
        return _MISSING
    for was in old:
        if all(was.get(name) == item.get(name) for name in names):
            return was
    return _MISSING


def _check_rule(rule: dict[str, Any], value: Any, old: Any, path: str) -> Cause | None:
    text = str(rule.get("rule", ""))
    scope = {"self": value}
    if "oldSelf" in text:
        if old is _MISSING or old is None:
            return None
        scope["oldSelf"] = old
    try:
        if compile_expression(text)(scope):
            return None
        message = _message(rule, scope, text)
    except Unsupported:
        return None
    except EvaluationError as error:
        message = f"{error} evaluating rule: {rule.get('message') or text}"
    reason = str(rule.get("reason") or "FieldValueInvalid")
    words = {"FieldValueForbidden": "Forbidden", "FieldValueRequired": "Required value",
             "FieldValueDuplicate": "Duplicate value"}  # fmt: skip
    field = f"{path}{rule.get('fieldPath') or ''}".lstrip(".")
    return Cause(reason, field or "<nil>", f"{words.get(reason, 'Invalid value')}: {message}")


def _message(rule: dict[str, Any], scope: dict[str, Any], text: str) -> str:
    expression = rule.get("messageExpression")
    if expression:
        try:
            return str(compile_expression(str(expression))(scope))
        except (Unsupported, EvaluationError):
            pass
    return str(rule.get("message") or f"failed rule: {text}").strip()
