"""The metadata of objects: what clients may set, what the server sets, and what never changes."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from typing import Any

from .names import check_annotations, check_labels, check_name, check_qualified, generate_name
from .resources import Endpoint
from .statuses import Cause, StatusError, bad_request, conflict, invalid
from .validation import invalid_value, show

Obj = dict[str, Any]
_SYSTEM = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion")
_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def now(shift: float = 0) -> str:
    """The current time as it is written in objects: in UTC, in whole seconds."""
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=shift)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def prepare_new(endpoint: Endpoint, namespace: str, obj: Obj) -> Obj:
    """The new object with the metadata as the server makes it."""
    meta = dict(_metadata_of(endpoint, obj))
    if endpoint.resource.namespaced:
        if meta.get("namespace") not in (None, "", namespace):
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on "
                "the request"
            )
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)
    if meta.get("resourceVersion") not in (None, "", "0"):
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    for name in _SYSTEM:
        meta.pop(name, None)
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = now()
    meta.pop("generation", None)
    if endpoint.resource.rules.generation:
        meta["generation"] = 1
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generate_name(meta["generateName"])
    return _identified(endpoint, obj, meta)


def prepare_changed(endpoint: Endpoint, old: Obj, new: Obj, *, replaced: bool) -> Obj:
    """The changed object with the system's part of the metadata restored from the old state.

    Raises 409 if the resource version or the uid are those of another state or object.
    """
    was = old["metadata"]
    meta = dict(_metadata_of(endpoint, new))
    _check_identity(meta, was)
    _check_versions(endpoint, meta, was, replaced=replaced)
    for name in _KEPT:
        if meta.get(name) is None:
            meta.pop(name, None)
            if name in was:
                meta[name] = was[name]
    for name in ("generation", "resourceVersion"):
        meta.pop(name, None)
        if name in was:
            meta[name] = was[name]
    meta["name"] = was["name"]
    if "namespace" in was:
        meta["namespace"] = was["namespace"]
    return _identified(endpoint, new, meta)


def _metadata_of(endpoint: Endpoint, obj: Obj) -> Obj:
    meta = obj.get("metadata")
    if meta is None:
        return {}
    if not isinstance(meta, dict):
        raise _undecodable(endpoint, "metadata", "ObjectMeta", meta)
    for field in ("labels", "annotations"):
        values = meta.get(field)
        if values is None:
            continue
        if not isinstance(values, dict):
            raise _undecodable(endpoint, f"metadata.{field}", "map[string]string", values)
        for value in values.values():
            if not isinstance(value, str) and value is not None:
                raise _undecodable(endpoint, f"metadata.{field}", "string", value)
    return meta


def _undecodable(endpoint: Endpoint, path: str, wanted: str, value: Any) -> StatusError:
    names = {dict: "object", list: "array", str: "string", bool: "bool"}
    found = names.get(type(value), "number")
    kind, version = endpoint.resource.kind, endpoint.served.name
    return bad_request(
        f'{kind} in version "{version}" cannot be handled as a {kind}: json: cannot unmarshal '
        f"{found} into Go struct field ObjectMeta.{path} of type {wanted}"
    )


def _identified(endpoint: Endpoint, obj: Obj, meta: Obj) -> Obj:
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in meta and not meta[name]:
            del meta[name]
    for name in ("labels", "annotations"):
        if name in meta and None in meta[name].values():
            meta[name] = {key: value or "" for key, value in meta[name].items()}
    group_version, kind = endpoint.api_version, endpoint.resource.kind
    if obj.get("apiVersion", group_version) != group_version:
        raise bad_request(
            f"the API version in the data ({obj['apiVersion']}) does not match the expected API "
            f"version ({group_version})"
        )
    if obj.get("kind", kind) != kind:
        raise bad_request(
            f'{obj["kind"]} in version "{endpoint.served.name}" cannot be handled as a {kind}: '
            f"converting ({group_version}, Kind={obj['kind']}) to ({group_version}, "
            f"Kind={kind}): unknown conversion"
        )
    return {**obj, "apiVersion": group_version, "kind": kind, "metadata": meta}


def _check_identity(meta: Obj, was: Obj) -> None:
    if meta.get("name") not in (None, "", was["name"]):
        raise bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL "
            f"({was['name']})"
        )
    if meta.get("namespace") not in (None, "", was.get("namespace")):
        raise bad_request(
            f"the namespace of the object ({meta['namespace']}) does not match the namespace on "
            f"the URL ({was.get('namespace', '')})"
        )


def _check_versions(endpoint: Endpoint, meta: Obj, was: Obj, *, replaced: bool) -> None:
    resource = endpoint.resource
    version = meta.get("resourceVersion") or ""
    if not version and replaced and not resource.rules.unconditional:
        cause = Cause(
            "FieldValueInvalid",
            "metadata.resourceVersion",
            "Invalid value: 0x0: must be specified for an update",
        )
        raise invalid(resource.group, resource.plural, was["name"], [cause])
    if version and version != was["resourceVersion"]:
        raise conflict(resource.group, resource.plural, was["name"])
    uid = meta.get("uid")
    if uid and uid != was.get("uid"):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {was['uid']}"
        raise conflict(resource.group, resource.plural, was["name"], why)


def check_metadata(endpoint: Endpoint, obj: Obj, old: Obj | None) -> Iterator[Cause]:
    """Tell what is wrong with the metadata of a new state of an object."""
    meta = obj["metadata"]
    name = meta.get("name") or ""
    if not name:
        text = "Required value: name or generateName is required"
        yield Cause("FieldValueRequired", "metadata.name", text)
    elif old is None:
        yield from check_name(name, endpoint.resource.rules.names)
    yield from check_labels(meta.get("labels") or {})
    yield from check_annotations(meta.get("annotations") or {})
    for finalizer in meta.get("finalizers") or ():
        yield from check_qualified(finalizer, "metadata.finalizers")
    yield from _check_owners(meta.get("ownerReferences") or ())
    if old is not None:
        yield from _check_changes(meta, old["metadata"])


def _check_owners(owners: Any) -> Iterator[Cause]:
    path = "metadata.ownerReferences"
    for owner in owners:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                text = f"{field if field != 'apiVersion' else 'version'} must not be empty"
                yield invalid_value(f"{path}.{field}", owner.get(field, ""), text)
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        text = "Only one reference can have Controller set to true."
        yield invalid_value(path, controllers, text)


def _check_changes(meta: Obj, was: Obj) -> Iterator[Cause]:
    if was.get("deletionTimestamp"):
        known = was.get("finalizers") or ()
        added = [name for name in meta.get("finalizers") or () if name not in known]
        if added:
            listed = ", ".join(show(name) for name in added)
            text = (
                "Forbidden: no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            yield Cause("FieldValueForbidden", "metadata.finalizers", text)
    for name in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if meta.get(name) != was.get(name):
            yield invalid_value(f"metadata.{name}", meta.get(name), "field is immutable")
