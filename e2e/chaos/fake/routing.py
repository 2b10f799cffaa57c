"""What a request is about, by its method and path."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection

from e2e.chaos.fake.http import Request
from e2e.chaos.fake.kinds import Kind
from e2e.chaos.fake.store import Key

_PATH = re.compile(
    r"^/(?:api/(?P<core>[^/]+)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?$"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclasses.dataclass(frozen=True)
class Target:
    """What the request is for."""

    verb: str
    """As in RBAC, plus ``next`` for further pages of lists, and ``discover``."""

    kind: Kind | None = None
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def plural(self) -> str:
        return "" if self.kind is None else self.kind.plural

    @property
    def is_status(self) -> bool:
        return self.subresource == "status"

    @property
    def key(self) -> Key:
        assert self.kind is not None
        return self.kind.key, self.namespace, self.name


def route(request: Request, kinds: Collection[Kind]) -> Target:
    match = _PATH.match(request.path)
    if match is None:
        return Target("discover")
    # Namespaces themselves are both the containers and the objects.
    kind = _find_kind(
        kinds, match["group"] or "", match["version"] or match["core"], match["plural"]
    )
    if kind is None and "reviews" not in match["plural"]:
        return Target("discover" if match["name"] is None else "unknown")
    if kind is None:
        return Target("review", None, match["namespace"] or "", match["plural"])
    namespace = match["namespace"] or ""
    return Target(
        _get_verb(request, match["name"]),
        kind,
        namespace,
        match["name"] or "",
        match["subresource"] or "",
    )


def _find_kind(kinds: Collection[Kind], group: str, version: str, plural: str) -> Kind | None:
    for kind in kinds:
        if (kind.group, kind.version, kind.plural) == (group, version, plural):
            return kind
    return None


def _get_verb(request: Request, name: str | None) -> str:
    if request.method != "GET":
        return _VERBS.get(request.method, request.method.lower())
    if name is not None:
        return "get"
    if request.query.get("watch") in ("true", "1"):
        return "watch"
    return "next" if "continue" in request.query else "list"
