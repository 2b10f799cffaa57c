"""Failures as Kubernetes reports them: the ``Status`` objects with their reasons and details."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import jsons

TOO_OLD_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in this "
    "response to retrieve the remainder of the results. Continuing with the provided token "
    "results in an inconsistent list - objects that were created, modified, or deleted between "
    "the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason of a failed validation: the field, the kind of the problem, and its text."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class StatusError(Exception):
    """A request that failed; it is answered with a ``Status`` object of the given HTTP code."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata

    def as_dict(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata or {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status

    def as_bytes(self) -> bytes:
        return jsons.dumps(self.as_dict())


def success(group: str, plural: str, name: str, uid: str) -> dict[str, Any]:
    """The ``Status`` that answers a deletion when the object is already gone."""
    details = {"name": name, "kind": plural, "uid": uid}
    if group:
        details["group"] = group
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


def qualified(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def _details(group: str, kind: str, name: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in details.items() if value}


def not_found(group: str, plural: str, name: str) -> StatusError:
    message = f'{qualified(group, plural)} "{name}" not found'
    return StatusError(404, "NotFound", message, details=_details(group, plural, name))


def already_exists(group: str, plural: str, name: str, *, deleting: bool = False) -> StatusError:
    message = f'{qualified(group, plural)} "{name}" already exists'
    if deleting:
        message = f"object is being deleted: {message}"
    return StatusError(409, "AlreadyExists", message, details=_details(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str = "") -> StatusError:
    why = why or (
        "the object has been modified; please apply your changes to the latest version "
        "and try again"
    )
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_details(group, plural, name))


def forbidden(
    group: str, plural: str, name: str, why: str, causes: Iterable[Cause] = ()
) -> StatusError:
    message = f'{qualified(group, plural)} "{name}" is forbidden: {why}'
    details = _details(group, plural, name)
    listed = [_cause(cause) for cause in causes]
    if listed:
        details["causes"] = listed
    return StatusError(403, "Forbidden", message, details=details)


def _cause(cause: Cause) -> dict[str, str]:
    found = {"reason": cause.reason, "message": cause.message, "field": cause.field}
    return {key: value for key, value in found.items() if value}


def invalid(group: str, kind: str, name: str, causes: Iterable[Cause]) -> StatusError:
    listed = list(causes)
    texts = list(dict.fromkeys(str(cause) for cause in listed))
    joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    message = f'{qualified(group, kind)} "{name}" is invalid: {joined}'
    details = _details(group, kind, name)
    details["causes"] = [_cause(cause) for cause in listed]
    return StatusError(422, "Invalid", message, details=details)


def rejected_patch() -> StatusError:
    """A JSON patch which cannot be applied, e.g. because of its failed ``test``."""
    message = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", message, details={})


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def method_not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, details={})


def unsupported_media(accepted: Iterable[str]) -> StatusError:
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return StatusError(415, "UnsupportedMediaType", message)


def not_acceptable(accepted: Iterable[str]) -> StatusError:
    message = "only the following media types are accepted: " + ", ".join(accepted)
    return StatusError(406, "NotAcceptable", message)


def expired(message: str, continue_token: str = "") -> StatusError:
    metadata = {"continue": continue_token} if continue_token else None
    return StatusError(410, "Expired", message, metadata=metadata)


def too_large_version(wanted: int, current: int) -> StatusError:
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    return StatusError(504, "Timeout", message, details=details)


def internal(message: str, reason: str = "InternalError") -> StatusError:
    details = {"causes": [{"message": message}]} if reason else None
    text = f"Internal error occurred: {message}" if reason else message
    return StatusError(500, reason, text, details=details)
