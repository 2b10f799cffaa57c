"""Facts about objects that operators often need."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from kopf_cogs.structs.bodies import OwnerReference, RawBody

HASH_LENGTH = 16


def content_hash(value: Any, *, length: int = HASH_LENGTH) -> str:
    """A short text that is the same for the same content, and is another one otherwise.

    E.g. for an annotation of a pod template: pods are replaced when their configuration changes.
    The order of keys does not matter. The value is anything that can be in an object.
    It is of 16 hexadecimal digits, unless another ``length`` is needed, at most 64.
    """
    text = json.dumps(value, sort_keys=True, default=dict, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:length]


def owner_of(body: Mapping[str, Any] | RawBody) -> OwnerReference | None:
    """The managing owner of the object (its controller), or its only owner, if there is one.

    It has ``apiVersion``, ``kind``, ``name``, and ``uid``; the namespace is that of the object,
    unless the owner is cluster-scoped.
    """
    metadata: Mapping[str, Any] = body.get("metadata") or {}
    refs: list[OwnerReference] = list(metadata.get("ownerReferences") or ())
    controllers = [ref for ref in refs if ref.get("controller")]
    found = controllers or refs
    return found[0] if len(found) == 1 else None
