"""Deletion of what is not wanted anymore, or must go together with its owner."""

from typing import Any

from kopf_cogs.aiokits.surroundings import get_clock
from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.structs.bodies import RawBody
from kopf_core.actions.loggers import AnyLogger
from kopf_core.engines.desired.ownership import is_leaving, show
from kopf_core.engines.desired.sources import Source


async def delete_child(
    api: ObjectsAPI, source: Source, body: RawBody, logger: AnyLogger, *, why: str
) -> None:
    """Delete this very object, unless it is going already; another one of its name is spared.

    Since then, it is known as leaving, whenever that comes back: it is not deleted twice.
    """
    if is_leaving(body):
        return
    metadata = body["metadata"]
    try:
        await api.delete(
            source.resource,
            metadata["name"],
            metadata.get("namespace"),
            uid=metadata.get("uid"),
            propagation="Background",
            missing_ok=True,
        )
    except APIError as e:
        logger.error(f"{show(body)} cannot be deleted: {e}")
        raise
    source.put(_make_leaving(body))
    logger.info(f"Deleted {show(body)}: {why}.")


def _make_leaving(body: RawBody) -> RawBody:
    now = get_clock().now().strftime("%Y-%m-%dT%H:%M:%SZ")
    leaving: Any = {**body, "metadata": {**body["metadata"], "deletionTimestamp": now}}
    return leaving  # type: ignore[no-any-return]
