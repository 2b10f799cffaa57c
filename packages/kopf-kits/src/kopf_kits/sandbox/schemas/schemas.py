"""Structural schemas: pruning of unknown fields and defaulting.

A schema is compiled once into a tree of nodes. Pruning and defaulting do not modify the
given value: the input and the output share their equal parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kopf_kits.sandbox.base import jsons

OBJECT_META = frozenset(
    (
        "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation",
        "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "labels",
        "annotations", "ownerReferences", "finalizers", "managedFields",
    )
)  # fmt: skip
_TYPED = frozenset(("duration", "date", "date-time", "byte"))
_IDENTITY = ("apiVersion", "kind", "metadata")
_MISSING: Any = object()


class Node:
    """One level of a structural schema, with the keywords kept aside for validation."""

    __slots__ = (
        "additional",
        "default",
        "embedded",
        "items",
        "nullable",
        "opaque",
        "preserve",
        "properties",
        "ruled",
        "rules",
        "spec",
        "trivial",
        "typed",
    )  # fmt: skip

    def __init__(
        self,
        spec: dict[str, Any],
        *,
        root: bool = False,
        resolve: Callable[[str], Node] | None = None,
    ) -> None:
        self.spec = spec

        def make(child: dict[str, Any]) -> Node:
            if resolve is not None and "$ref" in child:
                return resolve(child["$ref"])
            return Node(child, resolve=resolve)

        properties = spec.get("properties") or {}
        additional, items = spec.get("additionalProperties"), spec.get("items")
        self.properties = {name: make(child) for name, child in properties.items()}
        self.additional = make(additional) if isinstance(additional, dict) else None
        self.items = make(items) if isinstance(items, dict) else None
        self.preserve = bool(spec.get("x-kubernetes-preserve-unknown-fields")) or (
            additional is True
        )
        self.embedded = root or bool(spec.get("x-kubernetes-embedded-resource"))
        self.nullable = bool(spec.get("nullable"))
        self.default = spec.get("default", _MISSING)
        self.opaque = not self.properties and self.additional is None and self.items is None
        children = [*self.properties.values(), self.additional, self.items]
        self.rules: list[dict[str, Any]] = [
            rule
            for part in (spec, *(spec.get("allOf") or ()))
            for rule in part.get("x-kubernetes-validations") or ()
        ]
        self.ruled: bool = bool(self.rules) or any(c is not None and c.ruled for c in children)
        self.typed: bool = (
            spec.get("type") == "number"
            or spec.get("format") in _TYPED
            or any(child is not None and child.typed for child in children)
        )
        self.trivial: bool = all(
            child is None or (child.trivial and child.default is _MISSING) for child in children
        )

    @property
    def has_default(self) -> bool:
        return self.default is not _MISSING

    def child(self, name: str) -> Node | None:
        """The schema of a field; none if the field is not known."""
        return self.properties.get(name) or self.additional


def compile_schema(spec: dict[str, Any]) -> Node:
    """Compile the ``openAPIV3Schema`` of one version of a custom resource."""
    return Node(spec, root=True)


def prune(node: Node, value: Any, unknown: list[str], path: str = "") -> Any:
    """Drop the fields that the schema does not know; their paths are added to ``unknown``."""
    if node.opaque and node.preserve and not node.embedded:
        return value
    if isinstance(value, dict):
        return _prune_object(node, value, unknown, path)
    if isinstance(value, list) and node.items is not None:
        items = node.items
        pruned = [
            prune(items, item, unknown, f"{path}[{index}]") for index, item in enumerate(value)
        ]
        same = all(new is old for new, old in zip(pruned, value, strict=True))
        return value if same else pruned
    return value


def _prune_object(node: Node, value: dict[str, Any], unknown: list[str], path: str) -> Any:
    result: dict[str, Any] | None = None
    for name, item in value.items():
        child = node.child(name)
        if child is None or (node.embedded and name in _IDENTITY):
            pruned = _prune_unspecified(node, name, item, unknown, path)
        elif isinstance(item, (dict, list)):
            pruned = prune(child, item, unknown, f"{path}.{name}" if path else name)
        else:
            continue
        if pruned is not item:
            result = dict(value) if result is None else result
            if pruned is _MISSING:
                del result[name]
            else:
                result[name] = pruned
    return value if result is None else result


def _prune_unspecified(node: Node, name: str, item: Any, unknown: list[str], path: str) -> Any:
    where = f"{path}.{name}" if path else name
    if node.embedded and name in _IDENTITY:
        return _prune_metadata(item, unknown, where) if name == "metadata" else item
    if node.preserve:
        return item
    unknown.append(where)
    return _MISSING


def _prune_metadata(meta: Any, unknown: list[str], path: str) -> Any:
    if not isinstance(meta, dict) or OBJECT_META.issuperset(meta):
        return meta
    unknown.extend(f"{path}.{name}" for name in meta if name not in OBJECT_META)
    return {name: item for name, item in meta.items() if name in OBJECT_META}


def apply_defaults(node: Node, value: Any) -> Any:
    """Add the defaults of the schema where the fields are absent (or null, but not nullable)."""
    if node.trivial:
        return value
    if isinstance(value, dict):
        return _default_object(node, value)
    if isinstance(value, list) and node.items is not None:
        items = node.items
        defaulted = [apply_defaults(items, item) for item in value]
        same = all(new is old for new, old in zip(defaulted, value, strict=True))
        return value if same else defaulted
    return value


def _default_object(node: Node, value: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] | None = None
    names = value if node.additional is not None else node.properties
    for name in list(names):
        child = node.child(name)
        if child is None:
            continue
        item = value.get(name, _MISSING)
        absent = item is _MISSING or (item is None and not child.nullable)
        if absent and child.default is not _MISSING:
            defaulted = apply_defaults(child, jsons.clone(child.default))
        elif absent:
            continue
        else:
            defaulted = apply_defaults(child, item)
        if defaulted is not item:
            result = dict(value) if result is None else result
            result[name] = defaulted
    return value if result is None else result
