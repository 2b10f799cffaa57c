"""JSON patches (RFC 6902): the operations that turn one structure into another."""

import marshal
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypedDict

from kopf_cogs.structs.dicts import SCALARS, is_mapping


class _JSONPatchItem(TypedDict):
    op: Literal["add", "replace", "remove", "test"]
    path: str


class JSONPatchItem(_JSONPatchItem, total=False):
    """A single operation of a JSON patch. There is no value in ``remove``."""

    value: Any


JSONPatch = list[JSONPatchItem]


def escape_pointer(key: str) -> str:
    """Escape a key for use in a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def make_json_patch(old: Any, new: Any, path: str = "") -> JSONPatch:
    """List the operations which turn the old structure into the new one.

    Only the differences are mentioned. The order of the operations is stable.
    """
    return list(_iter_ops(old, new, path))


def same(a: Any, b: Any) -> bool:
    """Compare as JSON does: ``1`` and ``true`` are different, unlike in Python."""
    if _are_same_scalars(a, b):  # as most of the values are
        return True
    if is_mapping(a) and is_mapping(b):
        return len(a) == len(b) and _has_all(a, b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _are_same_scalars(a: Any, b: Any) -> bool:
    return type(a) is type(b) and type(a) in SCALARS and bool(a == b)


def _has_all(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> bool:
    for key, val in a.items():  # noqa: SIM110 - it is faster than with a generator
        if key not in b or not same(val, b[key]):
            return False
    return True


def _are_surely_same(a: Any, b: Any) -> bool:
    """A quick check, with no loops in Python: functions change only a small part of an object.

    The second version of the format depends on nothing but the values, their types and order.
    """
    try:
        return bool(a == b) and marshal.dumps(a, 2) == marshal.dumps(b, 2)
    except ValueError:
        return False  # these are not plain values, but e.g. views to them


def _iter_ops(old: Any, new: Any, path: str) -> Iterator[JSONPatchItem]:
    if _are_surely_same(old, new):
        return
    if is_mapping(old) and is_mapping(new):
        yield from _iter_mapping_ops(old, new, path)
    elif isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        yield from _iter_list_ops(old, new, path)
    elif not same(old, new):
        yield {"op": "replace", "path": path, "value": new}


def _iter_mapping_ops(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str
) -> Iterator[JSONPatchItem]:
    for key in old:
        if key not in new:
            yield {"op": "remove", "path": f"{path}/{escape_pointer(key)}"}
    for key, val in new.items():
        if key not in old:
            yield {"op": "add", "path": f"{path}/{escape_pointer(key)}", "value": val}
    for key, val in new.items():
        if key in old and not _are_same_scalars(old[key], val):
            yield from _iter_ops(old[key], val, f"{path}/{escape_pointer(key)}")


def _iter_list_ops(
    old: list[Any] | tuple[Any, ...], new: list[Any] | tuple[Any, ...], path: str
) -> Iterator[JSONPatchItem]:
    limit = min(len(old), len(new))
    head = 0
    while head < limit and same(old[head], new[head]):
        head += 1
    tail = 0
    while tail < limit - head and same(old[-1 - tail], new[-1 - tail]):
        tail += 1

    # The rest is the changed middle: change it item by item, then cut or extend it.
    old_end, new_end = len(old) - tail, len(new) - tail
    for idx in range(head, min(old_end, new_end)):
        yield from _iter_ops(old[idx], new[idx], f"{path}/{idx}")
    for idx in range(old_end - 1, new_end - 1, -1):
        yield {"op": "remove", "path": f"{path}/{idx}"}
    for idx in range(old_end, new_end):
        yield {"op": "add", "path": f"{path}/{idx}", "value": new[idx]}
