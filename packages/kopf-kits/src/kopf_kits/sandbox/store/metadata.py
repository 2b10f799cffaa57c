"""The metadata of objects: fields of clients, fields of the server, and immutable fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kopf_kits.sandbox.base.statuses import Cause, StatusError, bad_request, conflict, invalid
from kopf_kits.sandbox.schemas.names import (
    check_annotations,
    check_labels,
    check_name,
    check_qualified,
)
from kopf_kits.sandbox.schemas.validation import invalid_value, show

from .decoding import identify, read_metadata
from .resources import Endpoint
from .storage import Key

Obj = dict[str, Any]
_OTHER_NAMESPACE = (
    "the namespace of the provided object does not match the namespace sent on the request"
)
_SYSTEM = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion")
_KEPT = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")


def prepare_new(endpoint: Endpoint, namespace: str, obj: Obj) -> Obj:
    """The new object with the metadata as the server makes it."""
    meta = dict(read_metadata(endpoint, obj))
    if endpoint.resource.namespaced:
        if meta.get("namespace") not in (None, "", namespace):
            raise bad_request(_OTHER_NAMESPACE)
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)
    if meta.get("resourceVersion") not in (None, "", "0"):
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    for name in _SYSTEM:
        meta.pop(name, None)
    meta["uid"] = endpoint.nature.make_uid()
    meta["creationTimestamp"] = endpoint.nature.now()
    meta.pop("generation", None)
    if endpoint.resource.rules.generation:
        meta["generation"] = 1
    return _completed(endpoint, obj, meta, patched=False)


def renew_absent(endpoint: Endpoint, key: Key, obj: Obj) -> Obj:
    """The object for a creation in place of an absent one; 409 if it has the uid of another one."""
    meta = dict(read_metadata(endpoint, obj))
    if meta.get("uid"):
        resource, was = endpoint.resource, {"namespace": key[0], "name": key[1], "uid": ""}
        text = _wrong_uid(endpoint, was, str(meta["uid"]))
        raise conflict(resource.group, resource.plural, key[1], text)
    meta.pop("resourceVersion", None)
    return {**obj, "metadata": meta}


def name_new(endpoint: Endpoint, obj: Obj) -> Obj:
    """The new object with a generated name, if it has no name of its own."""
    meta = obj["metadata"]
    if meta.get("name") or not meta.get("generateName"):
        return obj
    name = endpoint.nature.make_name(str(meta["generateName"]))
    return {**obj, "metadata": {**meta, "name": name}}


def prepare_changed(endpoint: Endpoint, old: Obj, new: Obj, *, replaced: bool) -> Obj:
    """The changed object with the system's part of the metadata restored from the old state.

    Raises 409 if the resource version or the uid belongs to another state or object.
    """
    was = old["metadata"]
    meta = dict(read_metadata(endpoint, new))
    _check_identity(meta, was, replaced=replaced)
    _check_versions(endpoint, meta, was, replaced=replaced)
    for name in _KEPT:
        if meta.get(name) is None:
            meta.pop(name, None)
            if name in was:
                meta[name] = was[name]
    for name in ("generation", "resourceVersion", "creationTimestamp", "selfLink"):
        meta.pop(name, None)
        if name in was:
            meta[name] = was[name]
    meta["name"] = was["name"]
    if "namespace" in was:
        meta["namespace"] = was["namespace"]
    return _completed(endpoint, new, meta, patched=not replaced)


def _completed(endpoint: Endpoint, obj: Obj, meta: Obj, *, patched: bool) -> Obj:
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in meta and not meta[name]:
            del meta[name]
    for name in ("labels", "annotations"):
        if name in meta and None in meta[name].values():
            meta[name] = {key: value or "" for key, value in meta[name].items()}
    return {**identify(endpoint, {**obj, "metadata": meta}, patched=patched), "metadata": meta}


def _check_identity(meta: Obj, was: Obj, *, replaced: bool) -> None:
    if not replaced and not meta.get("name"):
        raise bad_request(
            f"the name of the object ({was['name']} based on URL) was undeterminable: name must "
            "be provided"
        )
    if meta.get("name") not in (None, "", was["name"]):
        raise bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL "
            f"({was['name']})"
        )
    if meta.get("namespace") not in (None, "", was.get("namespace")):
        raise bad_request(_OTHER_NAMESPACE)


def _check_versions(endpoint: Endpoint, meta: Obj, was: Obj, *, replaced: bool) -> None:
    resource = endpoint.resource
    version = meta.get("resourceVersion") or ""
    if not version and replaced and not resource.rules.unconditional:
        text = "Invalid value: 0: must be specified for an update"
        cause = Cause("FieldValueInvalid", "metadata.resourceVersion", text)
        raise invalid(resource.group, resource.plural, was["name"], [cause])
    if version and not str(version).isdigit():
        text = f'strconv.ParseUint: parsing "{version}": invalid syntax'
        raise StatusError(500, "", text)
    uid = meta.get("uid")
    if replaced and uid and uid != was.get("uid"):
        raise conflict(resource.group, resource.plural, was["name"], _wrong_uid(endpoint, was, uid))
    if version and version != was["resourceVersion"]:
        raise conflict(resource.group, resource.plural, was["name"])


def _wrong_uid(endpoint: Endpoint, was: Obj, uid: str) -> str:
    resource = endpoint.resource
    parts = (resource.group if resource.custom else "", resource.plural,
             was.get("namespace", ""), was["name"])  # fmt: skip
    path = "/".join(part for part in parts if part)
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{path}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
        f"UID in object meta: {was['uid']}"
    )


def check_metadata(endpoint: Endpoint, obj: Obj, old: Obj | None) -> Iterator[Cause]:
    """Tell what is wrong with the metadata of a new state of an object."""
    meta = obj["metadata"]
    name = meta.get("name") or ""
    if not name:
        text = "Required value: name or generateName is required"
        yield Cause("FieldValueRequired", "metadata.name", text)
    elif old is None:
        style = endpoint.resource.rules.names
        if meta.get("generateName"):
            path = "metadata.generateName"
            yield from check_name(meta["generateName"], style, path, prefix=True)
        yield from check_name(name, style)
    yield from check_labels(meta.get("labels") or {})
    yield from check_annotations(meta.get("annotations") or {})
    for finalizer in meta.get("finalizers") or ():
        yield from check_qualified(finalizer, "metadata.finalizers")
    yield from _check_owners(meta.get("ownerReferences") or ())
    if old is not None:
        # The real server checks this twice for custom objects, and shows it twice, too.
        for _ in range(2 if endpoint.resource.custom else 1):
            yield from _check_changes(meta, old["metadata"])


def _check_owners(owners: Any) -> Iterator[Cause]:
    path = "metadata.ownerReferences"
    for owner in owners:
        if not owner.get("apiVersion"):
            yield invalid_value(f"{path}.apiVersion", "", "version must not be empty")
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                yield invalid_value(f"{path}.{field}", "", "must not be empty")
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        yield _many_controllers(path, owners, controllers)


def _many_controllers(path: str, owners: Any, controllers: list[Obj]) -> Cause:
    order = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    listed = [{name: owner[name] for name in order if name in owner} for owner in owners]
    shown = json.dumps(listed, separators=(",", ":"), ensure_ascii=False)
    names = " and ".join(f"{owner['kind']}/{owner['name']}" for owner in controllers[:2])
    text = (
        f"Invalid value: {shown}: Only one reference can have Controller set to true. Found "
        f'"true" in references for {names}'
    )
    return Cause("FieldValueInvalid", path, text)


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
    for name in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if meta.get(name) != was.get(name):
            yield invalid_value(f"metadata.{name}", meta.get(name), "field is immutable")
