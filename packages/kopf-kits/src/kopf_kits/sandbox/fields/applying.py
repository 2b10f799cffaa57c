"""Merging of applied configurations into objects, as server-side apply does."""

from __future__ import annotations

from typing import Any

from kopf_kits.sandbox.base import jsons
from kopf_kits.sandbox.schemas.schemas import Node

from .ownership import Key, Path, child_of, is_atomic, list_keys


def merge_applied(node: Node | None, live: Any, applied: Any) -> Any:
    """Merge the configuration into the live state; nothing is removed by that."""
    if isinstance(live, dict) and isinstance(applied, dict) and not is_atomic(node):
        result = dict(live)
        for name, value in applied.items():
            child = child_of(node, name)
            if name in live:
                result[name] = merge_applied(child, live[name], value)
            else:
                result[name] = jsons.clone(value)
        return result
    key = list_keys(node) if isinstance(live, list) and isinstance(applied, list) else None
    if key is not None and node is not None:
        return _merge_lists(node, live, applied, key)
    return live if live == applied else jsons.clone(applied)


def _merge_lists(node: Node, live: list[Any], applied: list[Any], key: Key) -> list[Any]:
    """The order is of the configuration; other items stay before the items that they precede."""
    wanted = {key(item): item for item in applied}
    known = {key(item): item for item in live}
    result, queue = [], list(wanted)

    def take(element: str) -> None:
        queue.remove(element)
        found = wanted[element]
        if element in known:
            result.append(merge_applied(node.items, known[element], found))
        else:
            result.append(jsons.clone(found))

    for item in live:
        element = key(item)
        if element not in wanted:
            result.append(item)
            continue
        while element in queue:
            take(queue[0])
    while queue:
        take(queue[0])
    return result


def remove_abandoned(node: Node | None, value: Any, path: Path) -> Any:
    """The value without the field."""
    head, rest = path[0], path[1:]
    if head.startswith("f:"):
        name = head[2:]
        if not isinstance(value, dict) or name not in value:
            return value
        if rest:
            return {**value, name: remove_abandoned(child_of(node, name), value[name], rest)}
        return {key: item for key, item in value.items() if key != name}
    key = list_keys(node)
    if not isinstance(value, list) or key is None or node is None:
        return value
    items = []
    for item in value:
        if key(item) != head:
            items.append(item)
        elif rest:
            items.append(remove_abandoned(node.items, item, rest))
    return items
