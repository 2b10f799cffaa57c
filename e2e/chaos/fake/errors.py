"""How the fake API refuses requests."""

from __future__ import annotations

from typing import Any

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Refusal(Exception):
    """The request is refused with the status code; nothing is changed."""

    def __init__(
        self, code: int, message: str, reason: str | None = None, *, name: str = ""
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.reason = reason
        self.name = name
        """The object in question, if any: real servers tell it in the details."""

    @property
    def body(self) -> dict[str, Any]:
        status = make_status(self.code, self.message, self.reason)
        return {**status, "details": {"name": self.name}} if self.name else status


def make_status(code: int, message: str = "", reason: str | None = None) -> dict[str, Any]:
    """The object of kind ``Status``, which goes in the bodies of refusals."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure" if code >= 400 else "Success",
        "message": message or f"chaos: {code}",
        "reason": reason or REASONS.get(code, ""),
        "code": code,
    }
