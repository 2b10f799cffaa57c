"""Merge patches (RFC 7386) and JSON patches (RFC 6902) as servers apply them, and deltas."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kopf_cogs.structs.jsonpatch import same


class PatchMismatch(Exception):
    """The JSON patch does not fit: a test has failed, or there is nothing at its path."""


def merge(old: Any, patch: Any) -> Any:
    """Make a new structure with the fields of the patch; its nulls remove the fields."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    new = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = merge(new.get(key), value)
    return new


def make_merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Make the patch that turns the old structure into the new one; lists are replaced whole."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        known = old.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            if nested := make_merge_patch(known, value):
                patch[key] = nested
        elif key not in old or not same(known, value):
            patch[key] = value
    return patch


def modify(old: Any, ops: Iterable[Mapping[str, Any]]) -> Any:
    """Apply the operations of a JSON patch to a copy of the structure.

    Raises :class:`PatchMismatch` if any of them cannot be applied.
    """
    new = copy.deepcopy(old)
    for op in ops:
        try:
            new = _apply(new, op)
        except (LookupError, TypeError, ValueError, AttributeError) as e:
            raise PatchMismatch(f"{op.get('op')} {op.get('path')}: {e}") from e
    return new


def _apply(new: Any, op: Mapping[str, Any]) -> Any:
    path = _parse_pointer(op["path"])
    match op["op"]:
        case "test":
            if not same(_get(new, path), op["value"]):
                raise ValueError("the value is different")
            return new
        case "move":
            source = _parse_pointer(op["from"])
            value = _get(new, source)
            return _put(_remove(new, source), path, value, is_new=True)
        case "copy":
            return _put(new, path, copy.deepcopy(_get(new, _parse_pointer(op["from"]))), True)
        case "remove":
            return _remove(new, path)
        case "add" | "replace" as kind:
            return _put(new, path, copy.deepcopy(op["value"]), kind == "add")
        case unknown:
            raise ValueError(f"the operation {unknown!r} is unknown")


def _parse_pointer(path: str) -> Sequence[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _get(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def _put(root: Any, path: Sequence[str], value: Any, is_new: bool) -> Any:
    if not path:
        return value
    parent, key = _get(root, path[:-1]), path[-1]
    if not isinstance(parent, list):
        if not is_new:
            parent[key]  # the key must be there
        parent[key] = value
    elif not is_new:
        parent[int(key)] = value
    elif key != "-" and int(key) > len(parent):
        raise IndexError("the index is out of the list")
    else:
        parent.insert(len(parent) if key == "-" else int(key), value)
    return root


def _remove(root: Any, path: Sequence[str]) -> Any:
    parent, key = _get(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        del parent[int(key)]
    else:
        del parent[key]
    return root
