"""Deletion of children that are not wanted anymore, or that Kubernetes does not delete with the
owner.
"""

from collections.abc import Iterator
from typing import Any

from kopf_cogs.aiokits.surroundings import get_clock
from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.keys import ObjectKey
from kopf_core.actions.loggers import AnyLogger
from kopf_core.engines.desired.badges import Badges
from kopf_core.engines.desired.doubts import Doubts
from kopf_core.engines.desired.knowledge import Knowledge
from kopf_core.engines.desired.object_plans import Step
from kopf_core.engines.desired.ownership import is_leaving, show
from kopf_core.engines.desired.sources import Source


async def delete_child(
    api: ObjectsAPI, source: Source, body: RawBody, logger: AnyLogger, *, why: str
) -> None:
    """Delete this very object, unless it is being deleted; spare another one with its name.

    From then on, it is known as leaving, even before the stream shows that: it is not deleted
    twice.
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


class Farewells:
    """The children to be deleted before the objects of one kind can be let go."""

    def __init__(self, api: ObjectsAPI, knowledge: Knowledge, badges: Badges) -> None:
        self.leaving: set[ObjectKey] = set()
        """The objects that wait for the end of their children."""

        self.doubts = Doubts()
        """The children that possibly exist."""

        self._api = api
        self._knowledge = knowledge
        self._badges = badges

    def are_needed(self, key: ObjectKey, *, is_held: bool) -> bool:
        """Whether there are children that Kubernetes does not garbage-collect.

        While that is unknown, everything stays as it is.
        """
        if str(key) in self.doubts or (is_held and not self._knowledge.is_complete()):
            return True
        return next(self._find_out_of_reach(key), None) is not None

    async def clean_up(self, step: Step) -> bool:
        """Delete the children that Kubernetes does not delete; return whether all of them are
        gone.
        """
        self.leaving.add(step.key)
        if not self._knowledge.is_complete():
            step.cause.logger.warning(
                "The deletion waits until the operator has listed all the owned kinds: "
                "it must delete the owned objects first."
            )
            return False
        await self.doubts.settle(str(step.key), self._api)
        children = list(self._find_out_of_reach(step.key))
        for source, body in children:
            logger = step.cause.logger
            await delete_child(self._api, source, body, logger, why="its owner is being deleted")
        return not children

    def forget(self, key: ObjectKey) -> None:
        """The object is gone."""
        self.leaving.discard(key)
        self.doubts.forget(str(key))
        self._badges.claims.forget(str(key))

    def _find_out_of_reach(self, key: ObjectKey) -> Iterator[tuple[Source, RawBody]]:
        for source in self._knowledge.owned_sources:
            for body in source.owned_by(str(key)):
                if self._badges.is_out_of_reach(body, str(key)):
                    yield source, body
