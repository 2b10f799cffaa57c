"""The answers to admission reviews, made from the outcomes of the handlers."""

import base64
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kopf_cogs.helpers import jsons
from kopf_cogs.structs.dicts import json_copy
from kopf_cogs.structs.jsonpatch import JSONPatch, make_json_patch
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.reviews import Response, ResponsePayload
from kopf_core.actions.errors import PermanentError, TemporaryError
from kopf_core.actions.retrying import safe_message, telling_message
from kopf_core.engines.admission.requests import ReviewRequest
from kopf_core.intents.webhooks import AdmissionError

DEFAULT_CODE = 500
"""The code of errors that have no code of their own."""

_PRIORITIES = (AdmissionError, PermanentError, TemporaryError, BaseException)


class PatchError(Exception):
    """The changes of mutating handlers cannot be made or sent, so their meaning is unknown."""


@dataclass(frozen=True, slots=True)
class ReviewVerdict:
    """The outcome of all handlers of one request."""

    errors: Collection[BaseException] = ()
    warnings: Collection[object] = ()
    operations: JSONPatch = field(default_factory=list)


def make_patch(request: ReviewRequest, patches: Sequence[Patch]) -> JSONPatch:
    """Merge the changes of several handlers into one list of operations, without idle ones.

    Raises :class:`PatchError` if the transformation functions fail, or the values are not JSON.
    """
    changes = [patch for patch in patches if patch]
    if not changes or request.new is None:
        return []
    try:
        body: Mapping[str, Any] = json_copy(request.new)
        for patch in changes:
            body = patch.transform(body)
        operations = make_json_patch(request.new, body)
        jsons.dumps(operations)
    except Exception as e:
        raise PatchError(f"The patch cannot be made: {type(e).__name__}: {safe_message(e)}") from e
    return operations


def choose_error(errors: Collection[BaseException]) -> BaseException | None:
    """Choose the one error to be shown: errors that are meant for users go first."""
    for cls in _PRIORITIES:
        for error in errors:
            if isinstance(error, cls):
                return error
    return None


def make_response(request: ReviewRequest, verdict: ReviewVerdict) -> Response:
    """Answer the request: a denial has its reason, a permission can have changes."""
    error = choose_error(verdict.errors)
    payload: ResponsePayload = {"uid": request.uid, "allowed": error is None}
    if verdict.warnings:
        payload["warnings"] = [str(warning) for warning in verdict.warnings]
    if verdict.operations:
        payload["patch"] = base64.b64encode(jsons.dumps(verdict.operations)).decode("ascii")
        payload["patchType"] = "JSONPatch"
    if error is not None:
        message = telling_message(error)
        payload["status"] = {"message": message, "code": _get_code(error)}
    return {
        "apiVersion": request.api_version,
        "kind": "AdmissionReview",
        "response": payload,
    }


def _get_code(error: BaseException) -> int:
    code = error.code if isinstance(error, AdmissionError) else DEFAULT_CODE
    return code if isinstance(code, int) else DEFAULT_CODE
