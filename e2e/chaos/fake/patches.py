"""Merge patches (RFC 7386) and JSON patches (RFC 6902), as the API applies them."""

from __future__ import annotations

import copy
from typing import Any

from e2e.chaos.fake.errors import Refusal


def merge(target: Any, patch: Any) -> Any:
    """Apply a merge patch: nulls remove, objects are merged, all the rest is replaced."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def modify(target: Any, operations: list[dict[str, Any]]) -> Any:
    """Apply a JSON patch, as a whole or not at all."""
    result = copy.deepcopy(target)
    for operation in operations:
        try:
            _apply(result, operation)
        except (LookupError, TypeError, ValueError) as e:
            message = f"the patch cannot be applied: {operation['op']} {operation['path']}: {e!r}"
            raise Refusal(422, message) from e
    return result


def _apply(root: Any, operation: dict[str, Any]) -> None:
    parent, key = _locate(root, operation["path"])
    match operation["op"], parent:
        case "test", _:
            if parent[key] != operation["value"]:
                raise ValueError("the values are different")
        case "add", list():
            parent.insert(len(parent) if key == "-" else key, operation["value"])
        case "add", dict():
            parent[key] = operation["value"]
        case "replace", _:
            parent[key]  # it must be there
            parent[key] = operation["value"]
        case "remove", _:
            del parent[key]
        case _:
            raise ValueError("the operation is not supported")


def _locate(root: Any, path: str) -> tuple[Any, Any]:
    """Find the container that the path leads to, and the key or index in it."""
    *parents, last = [
        part.replace("~1", "/").replace("~0", "~") for part in path.removeprefix("/").split("/")
    ]
    for part in parents:
        root = root[_to_key(root, part)]
    return root, _to_key(root, last)


def _to_key(container: Any, part: str) -> str | int:
    return int(part) if isinstance(container, list) and part != "-" else part
