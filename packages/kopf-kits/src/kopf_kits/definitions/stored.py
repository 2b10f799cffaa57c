"""Reading all stored objects of a kind, independently of its definition."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from kopf_cogs.clients.errors import APIGoneError, APIResponseError
from kopf_cogs.clients.session import Client

Obj = dict[str, Any]

CHUNK: Final = "500"
METADATA: Final = (
    "application/json;as={};g=meta.k8s.io;v=v1,application/json"  # plain JSON if not supported
)


def get_url(definition: Obj) -> str | None:
    """The URL of the group in the storage version, or else in a served one; or ``None``."""
    spec = definition["spec"]
    served = [v["name"] for v in spec["versions"] if v.get("served")]
    stored = [v["name"] for v in spec["versions"] if v.get("storage") and v.get("served")]
    if not served:
        return None
    return f"/apis/{spec['group']}/{(stored or served)[0]}"


async def list_stored(
    client: Client, definition: Obj, *, only_metadata: bool = False
) -> AsyncIterator[Obj]:
    """All the objects, page by page. Without a served version, there are no objects to see.

    If a page has expired, the rest is listed in its newer state: it still has all objects that
    existed all the time. For a big kind, starting again would end in the same way.

    Raises :class:`APIError`, e.g. if the kind is not served yet, or if the conversions fail.
    """
    root = get_url(definition)
    if root is None:
        return
    url = f"{root}/{definition['spec']['names']['plural']}"
    accept = METADATA.format("PartialObjectMetadataList") if only_metadata else None
    params = {"limit": CHUNK}
    while True:
        try:
            page = await client.get(url, params=params, accept=accept)
        except APIGoneError as e:
            if e.continuation is None:
                raise
            params = {"limit": CHUNK, "continue": e.continuation}
            continue
        match page:
            case {"items": [*items], "metadata": {**metadata}}:
                pass
            case _:  # it must not look like an empty list
                raise APIResponseError(f"there is no list of objects in the response of {url}")
        for item in items:
            yield item
        token = metadata.get("continue")
        if not token:
            return
        params = {"limit": CHUNK, "continue": str(token)}
