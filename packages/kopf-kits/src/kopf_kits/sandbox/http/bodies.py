"""Bodies of patches: from the content type to a function that changes an object."""

from __future__ import annotations

from typing import Any

from kopf_kits.sandbox.base.statuses import (
    Cause,
    StatusError,
    bad_request,
    invalid,
    unsupported_media,
)
from kopf_kits.sandbox.fields import patches, strategic
from kopf_kits.sandbox.fields.typing import find_untyped
from kopf_kits.sandbox.store import managers
from kopf_kits.sandbox.store.resources import Endpoint
from kopf_kits.sandbox.store.storage import Key
from kopf_kits.sandbox.store.writeoptions import WriteOptions
from kopf_kits.sandbox.verbs.writes import Modify

from .calls import Call

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_MAX_OPERATIONS = 10_000


def parse_patch(
    call: Call, endpoint: Endpoint, key: Key, options: WriteOptions, sub: str = ""
) -> Modify:
    """The change that the patch makes; 415 if the server does not accept patches of this type."""
    match call.media_type:
        case "application/json-patch+json":
            return _json_patch(_decode(call))
        case "application/merge-patch+json":
            return _merge_patch(_decode(call))
        case "application/strategic-merge-patch+json" if endpoint.resource.rules.strategic:
            return _strategic_patch(endpoint, _decode(call))
        case "application/apply-patch+yaml":
            return _apply_patch(call, endpoint, key, options, sub)
    accepted = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]
    if endpoint.resource.rules.strategic:
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    accepted.remove(STRATEGIC_PATCH)
    raise unsupported_media(accepted)


def _decode(call: Call) -> Any:
    try:
        return call.parse_any()
    except StatusError as error:
        text = error.message.removeprefix("error decoding: ")
        raise bad_request(f"error decoding patch: {text}") from None


def _json_patch(operations: Any) -> Modify:
    if isinstance(operations, list) and len(operations) > _MAX_OPERATIONS:
        text = (
            f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got "
            f"{len(operations)}"
        )
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {text}")
    return lambda obj: patches.apply_json_patch(obj, operations)


def _merge_patch(patch: Any) -> Modify:
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type map")
    return lambda obj: patches.merge(obj, patch)


def _strategic_patch(endpoint: Endpoint, patch: Any) -> Modify:
    schema = endpoint.served.schema
    return lambda obj: strategic.merge(schema, obj, patch)


def _apply_patch(
    call: Call, endpoint: Endpoint, key: Key, options: WriteOptions, sub: str
) -> Modify:
    if not call.query.get("fieldManager"):
        text = "Required value: is required for apply patch"
        cause = Cause("FieldValueRequired", "fieldManager", text)
        raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
    applied = _decode(call)
    if not isinstance(applied, dict):
        raise bad_request("error decoding YAML: an object is expected")
    meta = dict(applied.get("metadata") or {})
    if meta.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    meta.setdefault("name", key[1])
    if key[0]:
        meta.setdefault("namespace", key[0])
    _check_applied(endpoint, applied, meta, key)
    options.applied = {**applied, "metadata": meta}

    def apply(obj: dict[str, Any]) -> dict[str, Any]:
        _check_declared(endpoint, applied)
        return managers.apply(endpoint, obj, options, sub)

    return apply


def _check_declared(endpoint: Endpoint, applied: dict[str, Any]) -> None:
    """Refuse fields that the schema does not declare, with an internal error, as API servers do."""
    schema = endpoint.served.schema
    found = list(find_untyped(schema, applied)) if schema is not None else []
    if not found:
        return
    meta = applied.get("metadata") or {}
    name = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
    group, _, version = endpoint.api_version.rpartition("/")
    text = found[0] if len(found) == 1 else "\n  ".join(["errors:", *found])
    raise StatusError(
        500,
        "",
        f"failed to create typed patch object ({name}; {group}/{version}, "
        f"Kind={endpoint.resource.kind}): {text}",
    )


def _check_applied(endpoint: Endpoint, applied: Any, meta: Any, key: Key) -> None:
    version, kind = applied.get("apiVersion") or "", applied.get("kind") or ""
    if not version or not kind:
        raise bad_request(f"invalid object type: {version or '/'}, Kind={kind}")
    if applied["apiVersion"] != endpoint.api_version or applied["kind"] != endpoint.resource.kind:
        raise bad_request(
            f"the API version in the data ({applied['apiVersion']}) does not match the expected "
            f"API version ({endpoint.api_version})"
        )
    if meta["name"] != key[1]:
        raise bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({key[1]})"
        )
