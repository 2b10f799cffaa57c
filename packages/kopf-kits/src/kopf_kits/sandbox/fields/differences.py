"""Differences between two states of an object, as paths of fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kopf_kits.sandbox.schemas.schemas import OBJECT_META, Node

from .ownership import Key, Path, child_of, is_atomic, is_same, list_keys


@dataclass(slots=True)
class Difference:
    """The fields that a change sets (adds or modifies), and the fields that it removes."""

    set: list[Path] = field(default_factory=list)
    removed: list[Path] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.set or self.removed)


class Comparison:
    """Compares two states; lists are compared item by item where the schema says so.

    ``structs``: whether objects with declared fields always exist, as structures in Go do.
    ``undeclared``: whether a container counts besides its contents only if it is not declared.
    """

    def __init__(self, *, structs: bool, undeclared: bool = False) -> None:
        self.result = Difference()
        self._structs = structs
        self._undeclared = undeclared

    def compare(self, node: Node | None, old: Any, new: Any, path: Path) -> None:
        """Collect the differences of two values."""
        if old is new:
            return
        if isinstance(old, dict) and isinstance(new, dict) and not is_atomic(node):
            self._compare_objects(node, old, new, path)
            return
        key = list_keys(node) if isinstance(old, list) and isinstance(new, list) else None
        if key is not None:
            self._compare_lists(node, old, new, path, key)
        elif not is_same(old, new):
            if isinstance(old, (dict, list)) and old:
                self.result.removed.append(path)
            self.add(node, new, path)

    def add(self, node: Node | None, value: Any, path: Path, *, declared: bool = False) -> None:
        """Collect all the fields of a value that the old state did not have."""
        if isinstance(value, dict) and value and not is_atomic(node):
            if not self._is_implied(node, declared):
                self.result.set.append((*path, "."))
            for name, item in value.items():
                self._add_field(node, name, item, path)
            return
        key = list_keys(node) if isinstance(value, list) and value else None
        if key is None or node is None:
            self.result.set.append(path)
            return
        if not self._structs and not (self._undeclared and declared):
            self.result.set.append((*path, "."))
        for item in value:
            self._add_item(node, item, (*path, key(item)))

    def _is_implied(self, node: Node | None, declared: bool) -> bool:
        if self._undeclared:
            return declared
        return self._structs and node is not None and bool(node.properties)

    def _add_field(self, node: Node | None, name: str, value: Any, path: Path) -> None:
        declared = path in ((), ("f:metadata",)) and name in OBJECT_META | {"metadata"}
        declared = declared or (node is not None and name in node.properties)
        self.add(child_of(node, name), value, (*path, f"f:{name}"), declared=declared)

    def _add_item(self, node: Node, item: Any, path: Path) -> None:
        if isinstance(item, dict):
            self.result.set.append((*path, "."))
            for name, value in item.items():
                self._add_field(node.items, name, value, path)
        else:
            self.result.set.append(path)

    def _compare_objects(
        self, node: Node | None, old: dict[str, Any], new: dict[str, Any], path: Path
    ) -> None:
        for name, value in new.items():
            if name not in old:
                self._add_field(node, name, value, path)
            elif old[name] is not value:  # The unchanged parts are shared between the states.
                self.compare(child_of(node, name), old[name], value, (*path, f"f:{name}"))
        self.result.removed.extend((*path, f"f:{name}") for name in old if name not in new)

    def _compare_lists(
        self, node: Node | None, old: list[Any], new: list[Any], path: Path, key: Key
    ) -> None:
        assert node is not None
        known = {key(item): item for item in old}
        for item in new:
            element = key(item)
            if element not in known:
                self._add_item(node, item, (*path, element))
            elif isinstance(item, dict):
                self.compare(node.items, known[element], item, (*path, element))
        present = {key(item) for item in new}
        self.result.removed.extend((*path, e) for e in known if e not in present)
