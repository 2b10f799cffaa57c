"""Making observations comparable: without names, ids, versions, and times of one moment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

ABSENT = "(absent)"
PATTERNS = [
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "(uid)"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| \+0000 UTC)"), "(time)"),
    (re.compile(r"(resource version: )\d+"), r"\1(version)"),
    (re.compile(r"(, current: )\d+"), r"\1(version)"),
    (re.compile(r"(version: \(version\) )\(\d+\)"), r"\1((version))"),
    (re.compile(r"(ResourceVersion in (the precondition|record) )\(\d+\)"), r"\1(version)"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "(address)"),
]
VOLATILE = {"uid": "(uid)", "resourceVersion": "(version)", "continue": "(token)"}


def normalise(value: Any, namespace: str) -> Any:
    """Replace everything that is different from run to run; keep the rest as it is."""
    if isinstance(value, str):
        value = value.replace(namespace, "(ns)")
        for pattern, replacement in PATTERNS:
            value = pattern.sub(replacement, value)
        return value
    if isinstance(value, Mapping):
        value = sort_causes(value)
        return {
            normalise(key, namespace): (
                VOLATILE[key] if key in VOLATILE and val else normalise(val, namespace)
            )
            for key, val in value.items()
        }
    if isinstance(value, list | tuple):
        return [normalise(item, namespace) for item in value]
    return value


def sort_causes(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sort the causes of a failure, also in its message: they come in a random order."""
    match = re.search(r"is invalid: \[(.*)\]$", str(status.get("message", "")), re.DOTALL)
    if match is None:
        return status
    causes = sorted(
        status["details"]["causes"], key=lambda cause: (cause["field"], cause["message"])
    )
    texts = {f"{cause['field']}: {cause['message']}": None for cause in causes}
    if sorted(match[1]) != sorted(", ".join(texts)):
        return status  # not the same texts as in the causes: to be compared as they are
    message = status["message"][: match.start(1)] + ", ".join(texts) + "]"
    return {**status, "message": message, "details": {**status["details"], "causes": causes}}


def pick(source: Any, path: str) -> Any:
    """Get a field by its dotted path; numbers are for list items; "*" is for all list items."""
    key, _, rest = path.partition(".")
    if key == "*" and isinstance(source, list):
        return [pick(item, rest) if rest else item for item in source]
    if isinstance(source, list) and key.lstrip("-").isdigit():
        index = int(key)
        found = source[index] if -len(source) <= index < len(source) else ABSENT
    elif isinstance(source, Mapping):
        found = source.get(key, ABSENT)
    else:
        found = ABSENT
    return pick(found, rest) if rest and found is not ABSENT else found


def without_messages(value: Any) -> Any:
    """Drop the texts for people: other versions of Kubernetes can put them differently."""
    if isinstance(value, Mapping):
        return {k: without_messages(v) for k, v in value.items() if k not in ("message", "text")}
    if isinstance(value, list):
        return [without_messages(item) for item in value]
    return value
