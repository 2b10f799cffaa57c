"""Peering objects: their places, and the way in which records are written there."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, cast

from kopf_cogs.clients.errors import APIResponseError
from kopf_cogs.clients.patching import MERGE_PATCH
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.resources import (
    CLUSTER_PEERINGS,
    LEGACY_CLUSTER_PEERINGS,
    LEGACY_NAMESPACED_PEERINGS,
    NAMESPACED_PEERINGS,
    Resource,
)

GROUPS = frozenset({CLUSTER_PEERINGS.group, LEGACY_CLUSTER_PEERINGS.group})
"""The current and the old API groups of peering objects. A cluster has one of them."""


class PeeringObject(NamedTuple):
    """The place of a peering object, which can be absent."""

    resource: Resource
    namespace: str | None
    name: str

    def __str__(self) -> str:
        where = f"in {self.namespace!r}" if self.namespace else "cluster-wide"
        return f"{self.name!r} {where}"


def select_resource(resources: Collection[Resource], *, clusterwide: bool) -> Resource | None:
    """Find the kind of peering objects among all kinds of the cluster; the newer group first."""
    if clusterwide:
        known = [CLUSTER_PEERINGS, LEGACY_CLUSTER_PEERINGS]
    else:
        known = [NAMESPACED_PEERINGS, LEGACY_NAMESPACED_PEERINGS]
    for expected in known:
        for resource in sorted(resources, key=lambda res: not res.preferred):
            if resource.name == expected.name and resource.namespaced is expected.namespaced:
                return resource
    return None


async def touch(
    client: Client,
    place: PeeringObject,
    records: Mapping[str, object],
    *,
    version: str | None = None,
    timeout: float | None = None,
    backoffs: Collection[float] = (),
) -> RawBody:
    """Write these records, and remove the ones that are ``None``; return the changed object.

    There is one attempt, and one more after each of the backoffs (in seconds), if there are any.
    With ``version``, the object is written only if it has not changed since that version.

    Raises :class:`APINotFoundError` if the object is absent. Raises other :class:`APIError` for
    other errors, and for responses that are not the object.
    """
    is_separate = "status" in place.resource.subresources
    url = place.resource.get_url(
        namespace=place.namespace, name=place.name, subresource="status" if is_separate else None
    )
    payload: dict[str, Any] = {"status": dict(records)}
    if version is not None:
        payload["metadata"] = {"resourceVersion": version}
    body = await client.patch(
        url, payload, content_type=MERGE_PATCH, timeout=timeout, backoffs=backoffs
    )
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict) or metadata.get("name") != place.name:
        raise APIResponseError("the response is not the peering object")
    return cast("RawBody", body)
