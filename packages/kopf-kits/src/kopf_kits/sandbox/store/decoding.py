"""Reading of incoming objects: their kinds, versions, and metadata must make sense."""

from __future__ import annotations

from typing import Any

from kopf_kits.sandbox.base.statuses import Cause, StatusError, bad_request, invalid
from kopf_kits.sandbox.schemas.schemas import Node
from kopf_kits.sandbox.schemas.validation import invalid_value

from .resources import Endpoint

Obj = dict[str, Any]
_SHOWN = 30


def check_present_kind(endpoint: Endpoint, obj: Obj, text: str) -> None:
    """Custom objects must name their kinds and versions themselves; 400 if they do not."""
    if not endpoint.resource.custom:
        return
    if not obj.get("kind"):
        short = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
        raise bad_request(
            f"the object provided is unrecognized (must be of type {endpoint.resource.kind}): "
            f"Object 'Kind' is missing in '{text}' ({short})"
        )
    if not obj.get("apiVersion"):
        raise _other_version(endpoint, "")


def identify(endpoint: Endpoint, obj: Obj, *, patched: bool) -> Obj:
    """The object with the kind and version of the endpoint; an error if it has others."""
    version, kind = endpoint.api_version, endpoint.resource.kind
    found_version, found_kind = obj.get("apiVersion") or version, obj.get("kind") or kind
    if found_version != version or found_kind != kind:
        if endpoint.resource.custom:
            raise _wrong_custom(endpoint, obj, found_version, found_kind, patched=patched)
        raise _wrong_builtin(endpoint, found_version, found_kind)
    if obj.get("apiVersion") == version and obj.get("kind") == kind:
        return obj
    return {**obj, "apiVersion": version, "kind": kind}


def _other_version(endpoint: Endpoint, version: str) -> StatusError:
    return bad_request(
        f"the API version in the data ({version}) does not match the expected API version "
        f"({endpoint.api_version})"
    )


def _wrong_custom(
    endpoint: Endpoint, obj: Obj, version: str, kind: str, *, patched: bool
) -> StatusError:
    if version != endpoint.api_version and not patched:
        return _other_version(endpoint, version)
    causes = []
    if kind != endpoint.resource.kind:
        causes.append(invalid_value("kind", kind, f"must be {endpoint.resource.kind}"))
    if version != endpoint.api_version:
        causes.append(invalid_value("apiVersion", version, f"must be {endpoint.api_version}"))
    name = str((obj.get("metadata") or {}).get("name", ""))
    return invalid(version.rpartition("/")[0], kind, name, causes)


def _wrong_builtin(endpoint: Endpoint, version: str, kind: str) -> StatusError:
    wanted, short = endpoint.resource.kind, version.rpartition("/")[2]
    if version == endpoint.api_version:
        package = endpoint.group.partition(".")[0] or "core"
        why = f"converting ({short}.{kind}) to ({package}.{wanted}): unknown conversion"
    else:
        why = (
            f'no kind "{kind}" is registered for version "{version}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )
    return bad_request(f'{kind} in version "{short}" cannot be handled as a {wanted}: {why}')


def read_metadata(endpoint: Endpoint, obj: Obj) -> Obj:
    """The metadata of the object; 400 if the values are of wrong types."""
    meta = obj.get("metadata")
    if meta is None:
        return {}
    if not isinstance(meta, dict):
        raise _undecodable(endpoint, "", "ObjectMeta", meta)
    for field in ("labels", "annotations"):
        values = meta.get(field)
        if values is None:
            continue
        if not isinstance(values, dict):
            raise _undecodable(endpoint, field, "map[string]string", values)
        for value in values.values():
            if not isinstance(value, str) and value is not None:
                raise _undecodable(endpoint, field, "string", value)
    return meta


def _undecodable(endpoint: Endpoint, field: str, wanted: str, value: Any) -> StatusError:
    names = {dict: "object", list: "array", str: "string", bool: "bool"}
    found = names.get(type(value), "number")
    kind, version = endpoint.resource.kind, endpoint.served.name
    path = ".".join(
        name for name in ("" if endpoint.resource.custom else "metadata", field) if name
    )
    return bad_request(
        f'{kind} in version "{version}" cannot be handled as a {kind}: json: cannot unmarshal '
        f"{found} into Go struct field ObjectMeta.{path} of type {wanted}"
    )


def drop_nulls(node: Node, value: Any) -> Any:
    """Drop the nulls of known fields that can neither be null nor have defaults."""
    if node.opaque:
        return value
    if isinstance(value, list) and node.items is not None:
        items = [drop_nulls(node.items, item) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    result: Obj | None = None
    for name, item in value.items():
        child = node.child(name)
        if child is None:
            continue
        if item is not None:
            kept = drop_nulls(child, item)
        elif child.nullable or child.has_default:
            continue
        else:
            kept = None
        if kept is not item or kept is None:
            result = dict(value) if result is None else result
            if kept is None:
                del result[name]
            else:
                result[name] = kept
    return value if result is None else result


def warn_about_finalizers(obj: Obj) -> list[str]:
    """The warnings about names of finalizers that can clash with the names of other writers."""
    return [
        f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name to avoid '
        "accidental conflicts with other finalizer writers"
        for name in obj["metadata"].get("finalizers") or ()
        if isinstance(name, str) and "/" not in name
    ]


def unchecked_rules() -> Cause:
    """The error of an object whose other errors prevent the check of some rules."""
    text = (
        "Invalid value: null: some validation rules were not checked because the object was "
        "invalid; correct the existing errors to complete validation"
    )
    return Cause("FieldValueInvalid", "<nil>", text)
