"""Custom resource definitions: their defaults and checks, and the resources made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .resources import Resource, Scale, Served
from .rules import Obj
from .schemas import compile_schema
from .statuses import Cause
from .storage import Store
from .validation import invalid_value

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


def complete_definition(obj: Obj, old: Obj | None) -> None:
    """Add the defaults to a CRD, in place."""
    spec = dict(obj.get("spec") or {})
    names = dict(spec.get("names") or {})
    kind = str(names.get("kind", ""))
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec["names"] = names
    spec.setdefault("conversion", {"strategy": "None"})
    obj["spec"] = spec
    stored = _storage_version(spec)
    if old is None:
        accepted = {"plural": "", "kind": ""}
        obj["status"] = {"conditions": [], "acceptedNames": accepted, "storedVersions": [stored]}
        return
    status = dict(obj.get("status") or {})
    known = status.get("storedVersions") or []
    if stored and stored not in known:
        status["storedVersions"] = [*known, stored]
    obj["status"] = status


def _storage_version(spec: Obj) -> str:
    for version in spec.get("versions") or []:
        if version.get("storage"):
            return str(version.get("name"))
    return ""


def check_definition(obj: Obj, old: Obj | None) -> Iterable[Cause]:
    """Tell what is wrong with a CRD."""
    spec = obj["spec"]
    names, group = spec["names"], spec.get("group") or ""
    wanted = f"{names.get('plural', '')}.{group}"
    if obj["metadata"].get("name") != wanted:
        text = 'must be spec.names.plural+"."+spec.group'
        yield invalid_value("metadata.name", obj["metadata"].get("name"), text)
    if "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        text = f'Unsupported value: "{spec.get("scope", "")}": supported values: "Cluster", "Namespaced"'  # noqa: E501
        yield Cause("FieldValueNotSupported", "spec.scope", text)
    for field in ("plural", "kind"):
        if not names.get(field):
            yield Cause("FieldValueRequired", f"spec.names.{field}", "Required value")
    yield from _check_versions(spec)
    if old is not None and is_established(old) and old["spec"].get("scope") != spec.get("scope"):
        yield invalid_value("spec.scope", spec.get("scope"), "field is immutable")


def _check_versions(spec: Obj) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        yield invalid_value("spec.versions", versions, text)
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            yield Cause("FieldValueRequired", path, "Required value: schemas are required")
        elif not schema.get("type"):
            text = "Required value: must not be empty at the root"
            yield Cause("FieldValueRequired", f"{path}.type", text)
        else:
            yield from _check_structure(schema, path)


def _check_structure(schema: Obj, path: str) -> Iterator[Cause]:
    for name, child in (schema.get("properties") or {}).items():
        where = f"{path}.properties[{name}]"
        untyped = not child.get("type") and not child.get("x-kubernetes-int-or-string")
        if untyped and not child.get("x-kubernetes-preserve-unknown-fields"):
            text = "Required value: must not be empty for specified object fields"
            yield Cause("FieldValueRequired", f"{where}.type", text)
        yield from _check_structure(child, where)
    items = schema.get("items")
    if schema.get("type") == "array" and not items:
        text = "Required value: must be specified"
        yield Cause("FieldValueRequired", f"{path}.items", text)
    elif isinstance(items, dict):
        yield from _check_structure(items, f"{path}.items")


def is_established(obj: Obj) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def make_resource(obj: Obj, store: Store) -> Resource:
    """The resource that the CRD defines."""
    spec = obj["spec"]
    names = spec["names"]
    served = {
        version["name"]: _make_version(spec, version)
        for version in spec["versions"]
        if version.get("served")
    }
    return Resource(
        group=spec["group"],
        plural=names["plural"],
        kind=names["kind"],
        singular=names["singular"],
        list_kind=names["listKind"],
        namespaced=spec["scope"] == "Namespaced",
        store=store,
        versions=served,
        storage_version=_storage_version(spec),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        custom=True,
    )


def _make_version(spec: Obj, version: Obj) -> Served:
    subresources: dict[str, Any] = version.get("subresources") or {}
    warning = None
    if version.get("deprecated"):
        kind = spec["names"]["kind"]
        default = f"{spec['group']}/{version['name']} {kind} is deprecated"
        warning = version.get("deprecationWarning") or default
    fields = (field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ())
    return Served(
        version["name"],
        compile=lambda: compile_schema(version["schema"]["openAPIV3Schema"]),
        status="status" in subresources,
        scale=_make_scale(subresources.get("scale")),
        columns=tuple(version.get("additionalPrinterColumns") or ()),
        selectable=tuple(fields),
        warning=warning,
    )


def _make_scale(scale: Obj | None) -> Scale | None:
    if scale is None:
        return None
    return Scale(
        scale.get("specReplicasPath", ".spec.replicas"),
        scale.get("statusReplicasPath", ".status.replicas"),
        scale.get("labelSelectorPath"),
    )
