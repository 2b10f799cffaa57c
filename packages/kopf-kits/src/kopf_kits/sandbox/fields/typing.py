"""Whether a configuration to apply is as its schema says: server-side apply needs the types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kopf_kits.sandbox.base.jsons import dumps
from kopf_kits.sandbox.schemas.schemas import OBJECT_META, Node

from .ownership import Path, list_keys, show

_SCALARS = {"integer": "numeric (int or float)", "number": "numeric (int or float)",
            "string": "string", "boolean": "boolean"}  # fmt: skip
_CONTAINERS = {"object": "map", "array": "list"}
_GO_TYPES = {str: "string", bool: "bool", list: "[]interface {}"}


def find_untyped(node: Node, value: Any, path: Path = ()) -> Iterator[str]:
    """Tell of the fields that are not declared, of other types than declared, or repeated."""
    if value is None:
        return
    wanted = node.spec.get("type")
    if isinstance(value, dict) and wanted in (None, "object"):
        yield from _find_in_object(node, value, path)
    elif isinstance(value, list) and wanted in (None, "array"):
        yield from _find_in_list(node, value, path)
    elif not _fits(wanted, value):
        yield _describe(path, f"expected {_expected(wanted, value)}")


def _find_in_object(node: Node, value: dict[str, Any], path: Path) -> Iterator[str]:
    for name, item in value.items():
        where = (*path, f"f:{name}")
        if node.embedded and name == "metadata" and isinstance(item, dict):
            odd = next((field for field in item if field not in OBJECT_META), None)
            if odd is not None:
                yield _describe((*where, f"f:{odd}"), "field not declared in schema")
        elif node.embedded and name in ("apiVersion", "kind"):
            continue
        elif (child := node.child(name)) is not None:
            yield from find_untyped(child, item, where)
        elif not node.preserve:
            yield _describe(where, "field not declared in schema")
            return  # API servers do not check the other fields of this object, either.


def _find_in_list(node: Node, value: list[Any], path: Path) -> Iterator[str]:
    key, seen = list_keys(node), set[str]()
    if key is None or node.items is None or not all(_has_keys(node, item) for item in value):
        items = node.items
        for index, item in enumerate(value):
            if items is not None:
                yield from find_untyped(items, item, (*path, f"i:{index}"))
        return
    for item in value:
        element = key(item)
        if element in seen:
            yield _describe(path, f"duplicate entries for key {show((element,))}")
        seen.add(element)
        yield from find_untyped(node.items, item, (*path, element))


def _has_keys(node: Node, item: Any) -> bool:
    return node.spec.get("x-kubernetes-list-type") == "set" or isinstance(item, dict)


def _fits(wanted: str | None, value: Any) -> bool:
    if wanted in ("integer", "number"):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if wanted in ("string", "boolean"):
        return isinstance(value, str if wanted == "string" else bool)
    return wanted is None


def _expected(wanted: str | None, value: Any) -> str:
    """The expectation and the finding, in the words of Go."""
    if wanted in ("integer", "number"):
        return f"{_SCALARS[wanted]}, got {_GO_TYPES.get(type(value), 'map[string]interface {}')}"
    shown = value if isinstance(value, str) else dumps(value).decode()
    if wanted == "string":
        return f"string, got &value.valueUnstructured{{Value:{shown}}}"
    return f"{_CONTAINERS.get(wanted or '', wanted)}, got &{{{shown}}}"


def _describe(path: Path, text: str) -> str:
    return f"{show(path)}: {text}"
