"""The quarantine of objects that cannot be handled, and must not harm the others.

Some objects make no sense: no metadata, no name, numbers in place of strings. API servers send
no such objects, but proxies, aggregated API servers, and conversion webhooks can do so.

Some objects are nested too deep to be parsed. Such objects are legal: Kubernetes allows up to about
10,000 levels in some fields of some kinds.
But they exhaust the stack of the code that works with them, so Kopf keeps and reports them apart.
The code here is slow, as it reads byte by byte in Python. It runs for these documents only.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from kopf_cogs.helpers import jsons

_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_OPENING, _CLOSING, _COLON, _COMMA, _QUOTE = b"{[", b"}]", ord(":"), ord(","), ord('"')

_NONE: Mapping[str, str] = MappingProxyType({})
_TEXTS = {str, type(None)}

Path: TypeAlias = tuple[str | None, ...]


class Quarantined(NamedTuple):
    """The identity of an object that cannot be held; unknown fields are ``None``."""

    type: str | None
    """The type of the watch-event, if the object came in a watch-event."""

    namespace: str | None
    name: str | None
    uid: str | None
    resource_version: str | None

    problem: str = "it is nested too deep to be handled"


def is_sane(obj: Any) -> bool:
    """Whether it looks like an object of Kubernetes: it has the fields that all code relies on.

    The check runs for every event, so it is quick.
    """
    try:
        meta = obj["metadata"]
        get = meta.get
        for value in (get("annotations") or _NONE).values():
            if type(value) is not str:
                return False
        texts = {type(get("resourceVersion")), type(get("uid")), type(get("namespace"))}
        return type(meta["name"]) is str and texts <= _TEXTS
    except (TypeError, KeyError, AttributeError):
        return False


def describe(obj: Any, type: str | None = None) -> Quarantined:
    """Find the identity of something that is not a sane object, as far as it is there."""
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    found = meta if isinstance(meta, dict) else {}
    values = {
        key: value
        for key in ("namespace", "name", "uid", "resourceVersion")
        if isinstance(value := found.get(key), str)
    }
    return Quarantined(
        type=type,
        namespace=values.get("namespace"),
        name=values.get("name"),
        uid=values.get("uid"),
        resource_version=values.get("resourceVersion"),
        problem="it makes no sense as an object of Kubernetes",
    )


def identify(raw: bytes) -> Quarantined:
    """Find the identity of an object, either alone or in a watch-event."""
    values = _collect(raw, depth=3)
    prefix: Path = (
        ("object", "metadata") if ("object", "metadata", "name") in values else ("metadata",)
    )
    return Quarantined(
        type=values.get(("type",)) if len(prefix) > 1 else None,
        namespace=values.get((*prefix, "namespace")),
        name=values.get((*prefix, "name")),
        uid=values.get((*prefix, "uid")),
        resource_version=values.get((*prefix, "resourceVersion")),
    )


def _collect(raw: bytes, *, depth: int) -> dict[Path, str]:
    """All strings that are not deeper than the specified level."""
    return {
        path: str(jsons.loads(raw[start:end]))
        for path, start, end in _iter_values(raw, depth)
        if raw[start] == _QUOTE
    }


def split_list(raw: bytes) -> tuple[dict[str, Any], list[Quarantined]]:
    """Parse a list of objects with only the items that can be held; identify all other items."""
    items: list[Any] = []
    rejected: list[Quarantined] = []
    envelope: dict[str, Any] = {"items": items, "metadata": {}}
    for path, start, end in _iter_values(raw, depth=2):
        match path:
            case ("items", None):
                try:
                    items.append(jsons.loads(raw[start:end]))
                except jsons.TooDeepError:
                    rejected.append(identify(raw[start:end]))
            case ("kind" | "apiVersion" as key,):
                envelope[key] = jsons.loads(raw[start:end])
            case ("metadata", "resourceVersion" | "continue" as key):
                envelope["metadata"][key] = jsons.loads(raw[start:end])
    return envelope, rejected


def _iter_values(raw: bytes, depth: int) -> Iterator[tuple[Path, int, int]]:
    """Go through the values in a document: their places in the structure and in the bytes.

    Lists add ``None`` to the paths. The strings in lists are not reported.
    """
    containers: list[tuple[str | None, int]] = []
    key: str | None = None
    for match in _TOKENS.finditer(raw):
        start, end = match.span()
        first = raw[start]
        if first in _OPENING:
            containers.append((key, start))
            key = None
        elif first == _COMMA:
            key = None
        elif first == _COLON:
            pass
        elif first == _QUOTE and key is None:
            key = raw[start + 1 : end - 1].decode("utf-8", "replace")
        else:
            name = key
            if first in _CLOSING:
                if not containers:
                    return
                name, start = containers.pop()
                key = None
            if 0 < len(containers) <= depth:
                yield (*(name for name, _ in containers[1:]), name), start, end
