"""Label and field selectors of lists and watches, compiled into predicates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .statuses import bad_request

Predicate = Callable[[dict[str, Any]], bool]

_SET = re.compile(r"^\s*(!?[\w./-]+)\s+(in|notin)\s+\(([^)]*)\)\s*$")
_BINARY = re.compile(r"^\s*([\w./-]+)\s*(==|=|!=|>|<)\s*([\w.-]*)\s*$")
_UNARY = re.compile(r"^\s*(!?)\s*([\w./-]+)\s*$")
_FIELD = re.compile(r"^([^=!]+?)(==|=|!=)(.*)$", re.DOTALL)


def parse_labels(text: str) -> Predicate | None:
    """Compile a label selector; none if it selects everything; 400 if it cannot be read."""
    tests = [_label_test(term, text) for term in _split_terms(text)]
    if not tests:
        return None

    def matches(obj: dict[str, Any]) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


def parse_label_selector(selector: Mapping[str, Any] | None) -> Predicate | None:
    """Compile a ``LabelSelector`` object (``matchLabels`` and ``matchExpressions``)."""
    if not selector:
        return None
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    operators = {"In": "in", "NotIn": "notin"}
    for expression in selector.get("matchExpressions") or []:
        key, operator = expression["key"], expression["operator"]
        if operator in operators:
            terms.append(f"{key} {operators[operator]} ({','.join(expression['values'])})")
        else:
            terms.append(key if operator == "Exists" else f"!{key}")
    return parse_labels(",".join(terms))


def parse_fields(text: str, allowed: Iterable[str]) -> Predicate | None:
    """Compile a field selector; 400 if it is unreadable or the field cannot be selected by."""
    known = {"metadata.name", "metadata.namespace", *allowed}
    tests = [_field_test(term, known) for term in text.split(",") if term]
    if not tests:
        return None
    return lambda obj: all(test(obj) for test in tests)


def combine(*predicates: Predicate | None) -> Predicate | None:
    """All the predicates at once; none if there is nothing to check."""
    present = [predicate for predicate in predicates if predicate is not None]
    if not present:
        return None
    if len(present) == 1:
        return present[0]
    return lambda obj: all(predicate(obj) for predicate in present)


def _split_terms(text: str) -> list[str]:
    terms, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            terms.append(text[start:index])
            start = index + 1
    terms.append(text[start:])
    return [term for term in terms if term.strip()]


def _label_test(term: str, text: str) -> Callable[[Mapping[str, str]], bool]:
    if match := _SET.match(term):
        key, operator, listed = match.groups()
        values = {value.strip() for value in listed.split(",")}
        if operator == "in":
            return lambda labels: key in labels and labels[key] in values
        return lambda labels: key not in labels or labels[key] not in values
    if match := _BINARY.match(term):
        return _binary_test(*match.groups())
    if match := _UNARY.match(term):
        negated, key = match.groups()
        return lambda labels: (key in labels) is not bool(negated)
    raise bad_request(
        f"unable to parse requirement: found '{term}', expected a label selector: {text}"
    )


def _binary_test(key: str, operator: str, value: str) -> Callable[[Mapping[str, str]], bool]:
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    if operator in ("=", "=="):
        return lambda labels: labels.get(key) == value
    sign = 1 if operator == ">" else -1

    def compare(labels: Mapping[str, str]) -> bool:
        try:
            return sign * (int(labels[key]) - int(value)) > 0
        except (KeyError, ValueError):
            return False

    return compare


def _field_test(term: str, known: set[str]) -> Predicate:
    match = _FIELD.match(term)
    if match is None:
        raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
    field, operator, value = match.groups()
    if field not in known:
        raise bad_request(f"field label not supported: {field}")
    path = field.split(".")
    wanted = operator != "!="
    return lambda obj: (_field_value(obj, path) == value) is wanted


def _field_value(obj: dict[str, Any], path: list[str]) -> str:
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
