"""Custom resource definitions: their defaults and checks, and the resources made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kopf_kits.sandbox.base.patterns import BadPattern, compile_pattern
from kopf_kits.sandbox.base.remarks import Doubt, Unsupported
from kopf_kits.sandbox.base.statuses import Cause
from kopf_kits.sandbox.schemas.names import check_name
from kopf_kits.sandbox.schemas.rulecosts import (
    KIND_BUDGET,
    RULE_BUDGET,
    describe_excess,
    estimate_rules,
    sum_costs,
)
from kopf_kits.sandbox.schemas.schemas import compile_schema
from kopf_kits.sandbox.schemas.validation import invalid_value
from kopf_kits.sandbox.store.resources import Resource, Scale, Served, version_priority
from kopf_kits.sandbox.store.rules import Obj
from kopf_kits.sandbox.store.storage import Store

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
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


def check_definition(obj: Obj, old: Obj | None) -> Iterable[Cause | Doubt]:
    """Tell what is wrong with a CRD."""
    spec = obj["spec"]
    names, group = spec["names"], spec.get("group") or ""
    wanted = f"{names.get('plural', '')}.{group}"
    if old is None and obj["metadata"].get("name") != wanted:
        text = 'must be spec.names.plural+"."+spec.group'
        yield invalid_value("metadata.name", obj["metadata"].get("name"), text)
    if "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    if group.endswith((".k8s.io", ".kubernetes.io")):
        yield from _check_approval(obj)
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        text = f'Unsupported value: "{spec.get("scope", "")}": supported values: "Cluster", "Namespaced"'  # noqa: E501
        yield Cause("FieldValueNotSupported", "spec.scope", text)
    for field in ("plural", "kind"):
        if not names.get(field):
            yield Cause("FieldValueRequired", f"spec.names.{field}", "Required value")
    causes = list(_check_versions(spec))
    yield from causes or _check_costs(spec, old["spec"] if old is not None else None)
    if old is not None:
        yield from _check_changes(obj, old)
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        why = "the sandbox calls no webhook for them, and only changes apiVersion"
        yield Doubt("spec.conversion", "conversions", why)


def _check_approval(obj: Obj) -> Iterator[Cause]:
    name = "api-approved.kubernetes.io"
    if not (obj["metadata"].get("annotations") or {}).get(name):
        text = (
            "Required value: protected groups must have approval annotation "
            '"api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111'
        )
        yield Cause("FieldValueRequired", f"metadata.annotations[{name}]", text)


def _check_changes(obj: Obj, old: Obj) -> Iterator[Cause]:
    spec, was = obj["spec"], old["spec"]
    plural, old_plural = spec["names"].get("plural"), was["names"].get("plural")
    fixed = [("spec.group", spec.get("group"), was.get("group"))]
    fixed.append(("spec.names.plural", plural, old_plural))
    if is_established(old):
        fixed.append(("spec.scope", spec.get("scope"), was.get("scope")))
    for path, value, old_value in fixed:
        if value != old_value:
            yield invalid_value(path, value, "field is immutable")
    names = [version.get("name") for version in spec.get("versions") or []]
    for index, name in enumerate((obj.get("status") or {}).get("storedVersions") or []):
        if name not in names:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            yield invalid_value(f"status.storedVersions[{index}]", name, text)


def _check_versions(spec: Obj) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    stored = [version["name"] for version in versions if version.get("storage")]
    if len(stored) != 1:
        text = "must have exactly one version marked as storage version"
        yield invalid_value("spec.versions", versions, text)
        text = "must have exactly one stored version"
        yield invalid_value("status.storedVersions", stored, text)
    for index, version in enumerate(versions):
        causes = list(check_name(str(version.get("name", "")), "label1035",
                                 f"spec.versions[{index}].name"))  # fmt: skip
        yield from causes
        if causes and index == 0:
            yield from check_name(str(version.get("name", "")), "label1035", "spec.version")
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            yield Cause("FieldValueRequired", path, "Required value: schemas are required")
        else:
            yield from _check_schema(schema, path)


def _check_costs(spec: Obj, old: Obj | None) -> Iterator[Cause]:
    """Rules that can be too expensive, except in the schemas that the CRD has already."""
    known = [version.get("schema") for version in (old or {}).get("versions") or ()]
    for index, version in enumerate(spec.get("versions") or ()):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None or version.get("schema") in known:
            continue
        is_only = len(spec["versions"]) == 1
        path = "spec.validation" if is_only else f"spec.versions[{index}].schema"
        costs = [*estimate_rules(schema)]
        for cost in costs:
            if cost.cost > RULE_BUDGET:
                yield _make_excess(f"{path}.openAPIV3Schema{cost.pointer}", cost.cost, RULE_BUDGET)
        total = sum_costs(costs)
        if total > KIND_BUDGET:
            what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
            yield _make_excess(f"{path}.openAPIV3Schema", total, KIND_BUDGET, what)


def _make_excess(path: str, cost: int, budget: int, what: str = "estimated rule cost") -> Cause:
    if path.endswith(".messageExpression"):
        what = "estimated messageExpression cost"
    hint = "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared"  # noqa: E501
    text = f"{what} exceeds budget by factor of {describe_excess(cost, budget)} ({hint})"
    return Cause("FieldValueForbidden", path, f"Forbidden: {text}")


def _check_schema(schema: Obj, path: str) -> Iterator[Cause]:
    if not schema.get("type"):
        text = "Required value: must not be empty at the root"
        yield Cause("FieldValueRequired", f"{path}.type", text)
    elif schema["type"] != "object":
        yield invalid_value(f"{path}.type", schema["type"], "must be object at the root")
    meta = (schema.get("properties") or {}).get("metadata") or {}
    odd = set(meta) - {"type", "properties", "description"}
    if odd:
        text = "Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"  # noqa: E501
        yield Cause("FieldValueForbidden", f"{path}.properties[metadata]", text)
    yield from _check_structure(schema, path)


def _check_pattern(schema: Obj, path: str) -> Iterator[Cause]:
    try:
        compile_pattern(str(schema.get("pattern") or ""))
    except Unsupported:
        pass  # The validation of objects reports it.
    except BadPattern as error:
        text = f"must be a valid regular expression, but isn't: {error}"
        yield invalid_value(f"{path}.pattern", schema["pattern"], text)


def _check_structure(schema: Obj, path: str) -> Iterator[Cause]:
    yield from _check_pattern(schema, path)
    if schema.get("uniqueItems"):
        text = "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"  # noqa: E501
        yield Cause("FieldValueForbidden", f"{path}.uniqueItems", text)
    for name, child in (schema.get("properties") or {}).items():
        where = f"{path}.properties[{name}]"
        untyped = not child.get("type") and not child.get("x-kubernetes-int-or-string")
        if untyped and not child.get("x-kubernetes-preserve-unknown-fields") and name != "metadata":
            text = "Required value: must not be empty for specified object fields"
            yield Cause("FieldValueRequired", f"{where}.type", text)
        elif child.get("type") not in (*_TYPES, None):
            listed = ", ".join(f'"{name}"' for name in _TYPES)
            text = f'Unsupported value: "{child["type"]}": supported values: {listed}'
            yield Cause("FieldValueNotSupported", f"{where}.type", text)
        yield from _check_structure(child, where)
    additional, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(additional, dict):
        yield from _check_structure(additional, f"{path}.additionalProperties")
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
        warning = f"{spec['group']}/{version['name']} {kind} is deprecated"
        better = _find_better(spec, version["name"])
        if better:
            warning += f"; use {spec['group']}/{better} {kind}"
        warning = version.get("deprecationWarning") or warning
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


def _find_better(spec: Obj, name: str) -> str | None:
    """The version that is preferred to the deprecated one."""
    names = [v["name"] for v in spec["versions"] if v.get("served") and not v.get("deprecated")]
    best = min(names, key=version_priority, default=None)
    return best if best and version_priority(best) < version_priority(name) else None


def _make_scale(scale: Obj | None) -> Scale | None:
    if scale is None:
        return None
    return Scale(
        scale.get("specReplicasPath", ".spec.replicas"),
        scale.get("statusReplicasPath", ".status.replicas"),
        scale.get("labelSelectorPath"),
    )
