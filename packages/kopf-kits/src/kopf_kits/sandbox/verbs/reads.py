"""Reading: lists with their pages, and the options of lists and watches."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

from kopf_kits.sandbox.base import jsons
from kopf_kits.sandbox.base.statuses import (
    TOO_OLD_CONTINUE,
    Cause,
    StatusError,
    bad_request,
    expired,
    invalid,
    too_large_version,
)
from kopf_kits.sandbox.schemas.selectors import (
    Predicate,
    combine,
    parse_fields,
    parse_labels,
    parse_shards,
)
from kopf_kits.sandbox.store.resources import Endpoint
from kopf_kits.sandbox.store.storage import Key, Stored

Query = dict[str, str]
_UNVERSIONED = "resourceVersionMatch is forbidden unless resourceVersion is provided"
_BAD_TOKEN = "invalid continue token: continue key is not valid"


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list: the objects, and the metadata of the list."""

    items: list[Stored]
    metadata: dict[str, Any]


def parse_selectors(endpoint: Endpoint, query: Query, name: str | None = None) -> Predicate | None:
    """The predicate that selects the objects; none if the query selects all of them."""
    labels = parse_labels(query["labelSelector"]) if query.get("labelSelector") else None
    fields = None
    if query.get("fieldSelector"):
        fields = parse_fields(query["fieldSelector"], endpoint.served.selectable)
        if fields is not None and not endpoint.native:
            selects = fields
            fields = lambda obj: selects(endpoint.encode(obj))  # noqa: E731
    named: Predicate | None = None
    if name is not None:
        named = lambda obj: obj["metadata"]["name"] == name  # noqa: E731
    shards = parse_shards(query["shardSelector"]) if query.get("shardSelector") else None
    return combine(named, labels, fields, shards)


def parse_version(query: Query) -> int | None:
    """The resource version that the query asks for; none if it asks for no version."""
    text = query.get("resourceVersion", "")
    if not text:
        return None
    if not text.isdigit():
        why = (
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
            "invalid syntax"
        )
        if parse_flag(query, "watch"):
            raise StatusError(500, "", why)
        raise bad_request(f"invalid resource version: {why}")
    return int(text)


def parse_flag(query: Query, name: str) -> bool:
    """A flag of the query: present without a value, it is true."""
    return name in query and query[name].lower() not in ("false", "0")


def parse_number(query: Query, name: str) -> int:
    text = query.get(name) or "0"
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def list_page(endpoint: Endpoint, namespace: str | None, query: Query) -> Page:
    """The page of objects that the query asks for."""
    selects = parse_selectors(endpoint, query)
    limit = max(parse_number(query, "limit"), 0)
    if query.get("continue"):
        version, start = _parse_token(query)
        stored = _read_continued(endpoint, namespace, version, start)
        if version < 0:
            version = endpoint.resource.store.versions.current
    else:
        version, stored = _read_first(endpoint, namespace, query)
    found = [one for one in stored if selects is None or selects(one.obj)] if selects else stored
    if not limit or len(found) <= limit:
        ended = {"continue": ""} if endpoint.resource.custom else {}
        return Page(found, {**ended, **_describe(endpoint, version, query)})
    items = found[:limit]
    metadata = _describe(endpoint, version, query)
    metadata["continue"] = _make_token(version, items[-1].key)
    if not query.get("labelSelector") and not query.get("fieldSelector"):
        metadata["remainingItemCount"] = len(stored) - limit  # with the objects of other shards
    return Page(items, metadata)


def _describe(endpoint: Endpoint, version: int, query: Query) -> dict[str, Any]:
    """The metadata of every list; only lists of built-in kinds tell the selected shards."""
    shards = query.get("shardSelector")
    told = {"shardInfo": {"selector": shards}} if shards and not endpoint.resource.custom else {}
    return {"resourceVersion": str(version), **told}


def _read_first(
    endpoint: Endpoint, namespace: str | None, query: Query
) -> tuple[int, list[Stored]]:
    store = endpoint.resource.store
    wanted = parse_version(query)
    match = query.get("resourceVersionMatch")
    _check_match(wanted, match, "sendInitialEvents" in query)
    current = store.versions.current
    if wanted is not None and wanted > current:
        raise too_large_version(wanted, current)
    if match == "Exact" and wanted is not None and wanted < current:
        try:
            return wanted, store.select_at(wanted, namespace)
        except StatusError:
            text = "The resourceVersion for the provided list is too old."
            raise expired(text) from None
    return current, store.select(namespace)


def _check_match(wanted: int | None, match: str | None, initial: bool) -> None:
    causes = []
    if match is not None and wanted is None:
        causes.append(_forbidden("resourceVersionMatch", _UNVERSIONED))
    if match is not None and match not in ("Exact", "NotOlderThan"):
        text = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        causes.append(Cause("FieldValueNotSupported", "resourceVersionMatch", text))
    if match == "Exact" and wanted == 0:
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        causes.append(_forbidden("resourceVersionMatch", text))
    if initial:
        text = "sendInitialEvents is forbidden for list"
        causes.append(_forbidden("sendInitialEvents", text))
    if causes:
        raise invalid("meta.k8s.io", "ListOptions", "", causes)


def _forbidden(field: str, text: str) -> Cause:
    return Cause("FieldValueForbidden", field, f"Forbidden: {text}")


def _read_continued(
    endpoint: Endpoint, namespace: str | None, version: int, start: Key
) -> list[Stored]:
    store = endpoint.resource.store
    if version < 0:
        return store.select(namespace, start)
    try:
        return store.select_at(version, namespace, start)
    except StatusError:
        raise expired(TOO_OLD_CONTINUE, _make_token(-1, start)) from None


def _make_token(version: int, last: Key) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": version, "start": "/".join(last) + "\0"}
    return base64.urlsafe_b64encode(jsons.dumps(token)).decode().rstrip("=")


def _parse_token(query: Query) -> tuple[int, Key]:
    text = query["continue"]
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = jsons.loads(data)
        namespace, _, name = token["start"].rstrip("\0").partition("/")
        found = int(token["rv"]), (namespace, name)
    except binascii.Error:
        raise bad_request(f"{_BAD_TOKEN}: illegal base64 data at input byte 0") from None
    except (ValueError, KeyError, TypeError):
        why = f"invalid character '{chr(data[0])}' looking for beginning of value"
        raise bad_request(f"{_BAD_TOKEN}: {why}") from None
    if query.get("resourceVersion") not in (None, "", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    return found
