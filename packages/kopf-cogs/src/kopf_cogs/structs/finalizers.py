"""Finalizers: the marks that block the actual deletion of objects until it is handled."""

from collections.abc import Mapping, MutableMapping
from types import MappingProxyType
from typing import Any, Final

from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.dicts import is_mapping

_NO_META: Final[Mapping[str, Any]] = MappingProxyType({})


def is_deletion_ongoing(body: Mapping[str, Any] | RawBody) -> bool:
    """Check if the deletion of the object was requested."""
    return _get_meta(body).get("deletionTimestamp") is not None


def is_deletion_blocked(body: Mapping[str, Any] | RawBody, finalizer: str) -> bool:
    """Check if the object has this finalizer, i.e. cannot disappear until we let it go."""
    return finalizer in (_get_meta(body).get("finalizers") or ())


def _get_meta(body: Mapping[str, Any] | RawBody) -> Mapping[str, Any]:
    """The metadata, empty if broken; most objects have neither a deletion nor finalizers in it."""
    meta = body.get("metadata")
    return meta if type(meta) is dict or is_mapping(meta) else _NO_META


def block_deletion(body: MutableMapping[str, Any] | RawBody, *, finalizer: str) -> None:
    """Add the finalizer in place, unless it is there already, or it is too late for it."""
    if is_deletion_blocked(body, finalizer) or is_deletion_ongoing(body):
        return
    meta = body.get("metadata")
    if meta is None:
        meta = body["metadata"] = {}
    meta["finalizers"] = [*(meta.get("finalizers") or ()), finalizer]


def allow_deletion(body: MutableMapping[str, Any] | RawBody, *, finalizer: str) -> None:
    """Remove the finalizer in place, if it is there, and then the list if it is empty."""
    if not is_deletion_blocked(body, finalizer):
        return
    meta = body["metadata"]
    remaining = [name for name in meta["finalizers"] if name != finalizer]
    if remaining:
        meta["finalizers"] = remaining
    else:
        del meta["finalizers"]
