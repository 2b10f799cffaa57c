"""Ownership: which objects own which ones.

Within a namespace, and below cluster-scoped objects, Kubernetes has owner references: it deletes
the owned objects when their owner is gone. Elsewhere, Kopf uses its own annotation, and deletes the
owned objects itself before it lets the owner go.
"""

from collections.abc import Collection, Mapping
from typing import Any

from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.dicts import is_mapping
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.adoption import can_own

AnyBody = Mapping[str, Any] | RawBody
Identity = tuple[str, str, str | None, str | None]
"""The API group, the plural name of the kind, the namespace, and the name."""

OWNED_BY = "kopf.dev/owned-by"
"""The annotation with the uid of the owner, where Kubernetes permits no owner reference."""


def get_owners(body: AnyBody) -> Collection[str]:
    """The uids of the owners of the object, by both ways."""
    metadata = body.get("metadata") or {}
    refs, annotations = metadata.get("ownerReferences"), metadata.get("annotations")
    uids = [ref.get("uid") for ref in refs if is_mapping(ref)] if isinstance(refs, list) else []
    if is_mapping(annotations) and OWNED_BY in annotations:
        uids.append(annotations[OWNED_BY])
    return [uid for uid in uids if isinstance(uid, str)]


def find_other_owner(body: AnyBody, uid: str) -> str | None:
    """Find the other owner of the object, if it is not this one: for messages.

    Joint owners without a controller among them do not count.
    """
    metadata = body.get("metadata") or {}
    refs = metadata.get("ownerReferences")
    for ref in refs if isinstance(refs, list) else ():
        if isinstance(ref, Mapping) and ref.get("controller") and ref.get("uid") != uid:
            # An owner of the same name can be the deleted predecessor of this owner.
            return f"{ref.get('kind')} {ref.get('name')} with the uid {ref.get('uid')}"
    owner = (metadata.get("annotations") or {}).get(OWNED_BY)
    return f"an object with the uid {owner}" if owner and owner != uid else None


def is_in_reach(owner: AnyBody, namespace: str | None) -> bool:
    """Whether Kubernetes garbage-collects such an object of the owner."""
    return can_own(owner, namespace=namespace)


def get_identity(resource: Resource, body: AnyBody) -> Identity:
    """The identity by which two descriptions are of the same object: its kind, namespace, and
    name.
    """
    metadata = body.get("metadata") or {}
    return resource.group, resource.plural, metadata.get("namespace"), metadata.get("name")


def show(body: AnyBody) -> str:
    """Name the object for logs and triggers."""
    metadata = body.get("metadata") or {}
    path = "/".join(
        part for part in (metadata.get("namespace"), metadata.get("name")) if isinstance(part, str)
    )
    return f"{body.get('kind') or 'object'} {path}"


def is_leaving(body: AnyBody) -> bool:
    """Whether the object is being deleted already."""
    return bool((body.get("metadata") or {}).get("deletionTimestamp"))
