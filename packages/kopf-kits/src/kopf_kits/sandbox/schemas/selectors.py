"""Label and field selectors of lists and watches, compiled into predicates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kopf_kits.sandbox.base.statuses import StatusError, bad_request

from .labels import compile_labels

Predicate = Callable[[dict[str, Any]], bool]

_FIELD = re.compile(r"^([^=!]+?)(==|=|!=)(.*)$", re.DOTALL)
_BOUND = r"'(0x[0-9a-f]{16}|0x10000000000000000)'"
_RANGE = re.compile(rf"shardRange\(object\.metadata\.uid,\s*{_BOUND},\s*{_BOUND}\)")


def parse_labels(text: str) -> Predicate | None:
    """Compile a label selector, none if it selects everything; 400 if it cannot be read."""
    test = compile_labels(text)
    if test is None:
        return None
    return lambda obj: test(obj["metadata"].get("labels") or {})


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


def parse_shards(text: str) -> Predicate:
    """Compile a shard selector: ranges of the hashes of uids; 500 if it cannot be read."""
    ranges = []
    for term in text.split("||"):
        match = _RANGE.fullmatch(term.strip())
        if match is None:
            raise StatusError(500, "", f"invalid shard selector: {term.strip()}")
        start, end = (int(bound, 16) for bound in match.groups())
        if start >= end:
            raise StatusError(
                500,
                "",
                f"invalid shard selector: shard range start {match[1]} must be less than end "
                f"{match[2]}",
            )
        ranges.append((start, end))

    def selects(obj: dict[str, Any]) -> bool:
        value = _hash(obj["metadata"]["uid"])
        return any(start <= value < end for start, end in ranges)

    return selects


def _hash(text: str) -> int:
    """FNV-1a with 64 bits."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


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
