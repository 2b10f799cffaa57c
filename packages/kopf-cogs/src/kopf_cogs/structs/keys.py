"""Object keys: how to tell one object from another in queues and memories."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.resources import Resource

ObjectKey: TypeAlias = str | tuple[Resource, str | None, str | None]
"""The uid of the object, or its resource, namespace & name if there is no uid."""


def object_key(resource: Resource, raw_body: Mapping[str, Any] | RawBody) -> ObjectKey:
    """Get the key of an object: it remains the same for the whole life of the object.

    Objects re-created with the same name have other uids and thus other keys. A few built-in
    kinds (e.g. ``ComponentStatus``) have no uids, so they are distinguished by their names.
    """
    meta = raw_body.get("metadata") or {}
    uid = meta.get("uid")
    if uid:
        return str(uid)
    return resource, meta.get("namespace"), meta.get("name")
