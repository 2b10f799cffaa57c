"""Children of objects: the references that make one object the owner of another one."""

from collections.abc import Mapping
from typing import Any

from kopf_cogs.structs.bodies import RawBody, build_owner_reference


def adopt_child(
    child: Mapping[str, Any], owner: Mapping[str, Any] | RawBody, *, namespaced: bool
) -> dict[str, Any]:
    """A copy of the object that belongs to the owner: by its reference, namespace, and name.

    The object keeps its own namespace, name, and other owners, if it has them. There is no
    reference where Kubernetes does not permit it: across namespaces, and from cluster-scoped
    objects to namespaced ones. Kubernetes deletes the owned objects when their owner is deleted.
    """
    adopted = {**child, "metadata": {**(child.get("metadata") or {})}}
    metadata, parent = adopted["metadata"], owner.get("metadata") or {}
    if not metadata.get("name") and not metadata.get("generateName"):
        metadata["name"] = parent.get("name")
    if namespaced and not metadata.get("namespace") and parent.get("namespace"):
        metadata["namespace"] = parent["namespace"]
    if can_own(owner, namespace=metadata.get("namespace") if namespaced else None):
        refs = list(metadata.get("ownerReferences") or [])
        if not any(ref.get("uid") == parent.get("uid") for ref in refs):
            metadata["ownerReferences"] = [*refs, dict(build_owner_reference(owner))]
    return adopted


def can_own(owner: Mapping[str, Any] | RawBody, *, namespace: str | None) -> bool:
    """Whether Kubernetes permits the owner to own objects in the namespace (if they are in one).

    A cluster-scoped owner can own any object. Other owners can own objects of their namespace.
    """
    home = (owner.get("metadata") or {}).get("namespace")
    return not home or home == namespace
