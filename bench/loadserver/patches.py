"""Merge patches (RFC 7386) and JSON patches (RFC 6902), as much of them as operators use."""

from __future__ import annotations

from typing import Any


class PatchTestFailed(Exception):
    """An operation ``test`` of a JSON patch did not hold."""


def merge(target: dict[str, Any], patch: dict[str, Any]) -> bool:
    """Apply the merge patch in place; tell if anything has changed."""
    changed = False
    for key, value in patch.items():
        if value is None:
            changed |= target.pop(key, None) is not None
        elif isinstance(value, dict):
            inner = target.get(key)
            if not isinstance(inner, dict):
                inner = target[key] = {}
                changed = True
            changed |= merge(inner, value)
        elif key not in target or target[key] != value:
            target[key] = value
            changed = True
    return changed


def apply_json_patch(target: dict[str, Any], operations: list[dict[str, Any]]) -> bool:
    """Apply the operations in place; tell if there were any but tests."""
    for operation in operations:
        apply_operation(target, operation)
    return any(operation["op"] != "test" for operation in operations)


def apply_operation(target: Any, operation: dict[str, Any]) -> None:
    *parents, last = (
        part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
    )
    for part in parents:
        target = target[int(part)] if isinstance(target, list) else target[part]
    value = operation.get("value")
    match operation["op"]:
        case "test":
            actual = target[int(last)] if isinstance(target, list) else target.get(last)
            if actual != value:
                raise PatchTestFailed(operation["path"])
        case "remove":
            del target[int(last) if isinstance(target, list) else last]
        case "add" if isinstance(target, list):
            target.insert(len(target) if last == "-" else int(last), value)
        case "add" | "replace":
            target[int(last) if isinstance(target, list) else last] = value
        case other:
            raise ValueError(f"Unsupported operation: {other}")
