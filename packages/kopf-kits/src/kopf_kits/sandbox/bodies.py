"""Bodies of patches: from the content type to a function that changes an object."""

from __future__ import annotations

from typing import Any

from . import patches
from .calls import Call
from .resources import Endpoint
from .statuses import StatusError, bad_request, unsupported_media
from .storage import Key
from .writes import Modify, WriteOptions

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_MAX_OPERATIONS = 10_000


def parse_patch(call: Call, endpoint: Endpoint, key: Key, options: WriteOptions) -> Modify:
    """What the patch does to an object; 415 if the patches of this type are not accepted."""
    match call.media_type:
        case "application/json-patch+json":
            return _json_patch(_decode(call))
        case "application/merge-patch+json":
            return _merge_patch(_decode(call))
        case "application/strategic-merge-patch+json" if endpoint.resource.rules.strategic:
            return _merge_patch(_decode(call))
        case "application/apply-patch+yaml":
            return _merge_patch(_decode(call))
    accepted = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]
    if not endpoint.resource.rules.strategic:
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
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity is too large: {text}")
    return lambda obj: patches.apply_json_patch(obj, operations)


def _merge_patch(patch: Any) -> Modify:
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type map")
    return lambda obj: patches.merge(obj, patch)
