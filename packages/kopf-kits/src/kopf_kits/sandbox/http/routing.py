"""Paths of the Kubernetes API, taken apart by hand: it is done for every request."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a path: a collection, an object, or a subresource of an object.

    Without a resource, it is the group's or the version's discovery document.
    """

    group: str
    version: str = ""
    plural: str = ""
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None
    watch: bool = False


def parse(path: str) -> Target | None:
    """Take the path apart; none if it does not belong to API resources."""
    parts = [unquote(part) if "%" in part else part for part in path.split("/")]
    if parts and parts[-1] == "":
        parts.pop()
    if len(parts) < 2:
        return None
    if parts[1] == "api":
        return _parse_rest("", parts[2:])
    if parts[1] == "apis" and len(parts) > 2:
        return _parse_rest(parts[2], parts[3:])
    return None


def _parse_rest(group: str, parts: list[str]) -> Target | None:
    version, *rest = parts or [""]
    watch = len(rest) > 1 and rest[0] == "watch"
    if watch:
        rest = rest[1:]
    if not all(rest):
        return None
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        return _target(group, version, rest[1], rest[2:], watch)
    return _target(group, version, None, rest, watch)


def _target(
    group: str, version: str, namespace: str | None, rest: list[str], watch: bool
) -> Target | None:
    if len(rest) > 3:
        return None
    plural, name, subresource = [*rest, None, None, None][:3]
    return Target(group, version, plural or "", namespace, name, subresource, watch)
