"""Listing of objects, all at once or page by page."""

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kopf_cogs.clients import errors, quarantine, session
from kopf_cogs.structs import parts, resources

if TYPE_CHECKING:
    from kopf_cogs.configs.settings import WatchingSettings

# How many objects to request at once when one of them is nested too deep.
_CAREFUL_CHUNK_SIZE = 100

DEFAULT_CHUNK_SIZE = 500
"""As in the reflectors of Kubernetes itself: big clusters do not fit into memory at once."""


def collect_selectors(
    settings: "WatchingSettings",
    resource: resources.Resource,
    selector: str | None = None,
    name: str | None = None,
    part: parts.Part = parts.ALL_OBJECTS,
) -> dict[str, str]:
    """The parameters that select the served objects; ``selector`` is one more label selector.

    With ``name``, they select only the object of this name.
    """
    shards = [*filter(None, [part.shards]), *settings.shard_selectors.collect(resource)]
    labels = [
        *settings.label_selectors.collect(resource),
        *filter(None, [selector, part.labels]),
    ]
    fields = [
        *settings.field_selectors.collect(resource),
        *([f"metadata.name={name}"] if name else []),
    ]
    selectors = {
        "labelSelector": ",".join(labels),
        "fieldSelector": ",".join(fields),
        "shardSelector": shards[-1] if shards else "",  # unlike others, these cannot be joined
    }
    return {key: value for key, value in selectors.items() if value}


class Page(NamedTuple):
    """A part of the list; the whole list if the client does not request it in chunks."""

    items: list[Any]
    """The objects, each with its ``apiVersion`` and ``kind``."""

    resource_version: str | None
    """The version of the list, the same for all of its pages; to start watching from."""

    quarantined: list[quarantine.Quarantined]
    """The objects which are there, but make no sense, or are nested too deep to be used."""

    remaining: int | None = None
    """How many objects are left for the next pages; servers know it not always, nor exactly."""


async def list_objects(
    client: session.Client,
    resource: resources.Resource,
    namespace: str | None = None,
    *,
    chunk_size: int | None = None,
    params: Mapping[str, str] | None = None,
    accept: str | None = None,
) -> AsyncGenerator[Page, None]:
    """List the objects of the namespace, or of the whole cluster if it is not specified.

    A page has at most ``chunk_size`` objects: zero is for no limit, ``None`` for
    ``DEFAULT_CHUNK_SIZE``. ``params`` are for the query, e.g. ``labelSelector`` and
    ``fieldSelector``. ``accept`` is the media type of the lists; by default, it is JSON.
    Raises :class:`APIGoneError` if the pages were being read for too long: time to start again.
    """
    url = resource.get_url(namespace=namespace)
    query = dict(params or {})
    limit = DEFAULT_CHUNK_SIZE if chunk_size is None else chunk_size
    if limit:
        query["limit"] = str(limit)
    while True:
        rejected: list[quarantine.Quarantined] = []
        try:
            payload = await client.get(url, params=query, accept=accept)
        except errors.APITooDeepError as e:
            if not limit or limit > _CAREFUL_CHUNK_SIZE:
                limit = _CAREFUL_CHUNK_SIZE
                query["limit"] = str(limit)
                continue
            payload, rejected = quarantine.split_list(e.body)
        metadata = _get_metadata(payload)
        token = metadata.get("continue")
        items = _get_items(payload, resource, rejected)
        left = None if "shardSelector" in query else _get_remaining(metadata)  # of all shards
        yield Page(items, metadata.get("resourceVersion"), rejected, left)
        del payload, items  # not in memory while the next page is being requested
        if not token:
            return
        if token == query.get("continue"):
            raise errors.APIResponseError("the next page of the list is the same as this one")
        query["continue"] = token


def _get_metadata(payload: Any) -> Mapping[str, Any]:
    if not isinstance(payload, dict) or "metadata" not in payload:
        raise errors.APIResponseError("the response is not a list of objects")
    metadata = payload["metadata"] or {}
    if not isinstance(metadata, dict):
        raise errors.APIResponseError("the metadata of the list make no sense")
    if not isinstance(metadata.get("resourceVersion"), str | None):
        raise errors.APIResponseError("the resource version of the list makes no sense")
    return metadata


def _get_remaining(metadata: Mapping[str, Any]) -> int | None:
    remaining = metadata.get("remainingItemCount")
    return remaining if isinstance(remaining, int) else None


def _get_items(
    payload: dict[str, Any],
    resource: resources.Resource,
    rejected: list[quarantine.Quarantined],
) -> list[Any]:
    """The objects with their kinds: the list has the kind, but its objects often do not."""
    items: list[Any] = payload.get("items") or []
    if not isinstance(items, list):
        raise errors.APIResponseError("the items of the list are not a list")
    list_kind = payload.get("kind") or ""
    kind = resource.kind or list_kind.removesuffix("List")
    api_version = payload.get("apiVersion") or resource.api_version
    if not all(map(quarantine.is_sane, items)):
        rejected.extend(quarantine.describe(item) for item in items if not quarantine.is_sane(item))
        items = [item for item in items if quarantine.is_sane(item)]
    for item in items:
        if "kind" not in item:
            item["kind"] = kind
        if "apiVersion" not in item:
            item["apiVersion"] = api_version
    return items
