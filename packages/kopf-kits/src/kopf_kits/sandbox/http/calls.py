"""Requests and responses, apart from any HTTP library."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

from kopf_kits.sandbox.access.users import User
from kopf_kits.sandbox.base import jsons
from kopf_kits.sandbox.base.statuses import bad_request, unsupported_media

from . import protobufs

JSON = "application/json"
ACCEPTED = (JSON, "application/yaml", "application/vnd.kubernetes.protobuf")
_JSON_TYPES = ("", JSON, "application/json-patch+json", "application/merge-patch+json",
               "application/strategic-merge-patch+json")  # fmt: skip
TEXT = "text/plain; charset=utf-8"


@dataclass(slots=True, eq=False)
class Call:
    """A request of a client."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    accept: str = ""
    content_type: str = ""
    agent: str = ""
    impersonated: str = ""
    """The user to act as; empty without impersonation."""

    groups: list[str] = field(default_factory=list)
    """The groups of that user."""

    token: str = ""
    user: User | None = None
    """The user who makes the request, if the server checks it."""

    body: bytes = b""
    warnings: list[str] = field(default_factory=list)
    """The warnings for the client; they go with any response."""

    doubts: list[str] = field(default_factory=list)
    """The checks that the sandbox could not make: they are in the warnings, too."""

    @property
    def media_type(self) -> str:
        return self.content_type.partition(";")[0].strip().lower()

    def parse_body(self) -> dict[str, Any]:
        """The object in the body; 400 if there is none, 415 if the format is not known."""
        body = self.parse_any()
        if not isinstance(body, dict):
            found = "array" if isinstance(body, list) else "value"
            raise bad_request(
                f"couldn't get version/kind; json parse error: json: cannot unmarshal {found} "
                "into Go value of type struct"
            )
        return body

    def parse_any(self) -> Any:
        if self.media_type == "application/vnd.kubernetes.protobuf":
            return self._parse_protobuf()
        if self.media_type in ("application/yaml", "application/apply-patch+yaml"):
            return self._parse_yaml()
        if self.media_type not in _JSON_TYPES:
            raise unsupported_media(ACCEPTED)
        try:
            return jsons.loads(self.body)
        except ValueError as error:
            text = "unexpected end of JSON input" if not self.body.strip() else str(error)
            raise bad_request(f"error decoding: {text}") from None

    def find_duplicates(self) -> list[str]:
        """The problems of fields that are repeated in a JSON body."""
        if self.media_type not in _JSON_TYPES or self.body.count(b'":') < 2:
            return []
        return [f'duplicate field "{path}"' for path in jsons.find_duplicates(self.body)]

    def _parse_protobuf(self) -> Any:
        try:
            return protobufs.decode_body(self.body)
        except (ValueError, KeyError) as error:
            raise bad_request(f"error decoding protobuf: {error}") from None

    def _parse_yaml(self) -> Any:
        if self.body.lstrip()[:1] == b"{":
            try:
                return jsons.loads(self.body)
            except ValueError:
                pass
        try:
            return yaml.safe_load(self.body)
        except yaml.YAMLError as error:
            raise bad_request(f"error decoding YAML: {error}") from None


@dataclass(slots=True)
class Reply:
    """A response: either a body, or chunks of it, or a stream that lasts."""

    status: int = 200
    body: bytes = b""
    media_type: str = JSON
    headers: list[tuple[str, str]] = field(default_factory=list)
    chunks: Iterable[bytes] | None = None
    stream: AsyncIterator[bytes] | None = None

    @classmethod
    def of(cls, obj: Any, status: int = 200, media_type: str = JSON) -> Reply:
        return cls(status, jsons.dumps(obj) + b"\n", media_type)


def page_not_found() -> Reply:
    """The response for paths that do not exist."""
    return Reply(404, b"404 page not found\n", TEXT)
