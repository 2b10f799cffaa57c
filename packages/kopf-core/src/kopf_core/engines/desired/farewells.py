"""Farewells: what Kubernetes does not delete together with its owner, we delete before it."""

from collections.abc import Iterator

from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.keys import ObjectKey
from kopf_core.engines.desired.badges import Badges
from kopf_core.engines.desired.deletion import delete_child
from kopf_core.engines.desired.doubts import Doubts
from kopf_core.engines.desired.knowledge import Knowledge
from kopf_core.engines.desired.object_plans import Step
from kopf_core.engines.desired.sources import Source


class Farewells:
    """What is left to be deleted until the objects of one kind can be let go."""

    def __init__(self, api: ObjectsAPI, knowledge: Knowledge, badges: Badges) -> None:
        self.leaving: set[ObjectKey] = set()
        """The objects which wait for their children to be gone."""

        self.doubts = Doubts()
        """The children of which it is not known whether they are there."""

        self._api = api
        self._knowledge = knowledge
        self._badges = badges

    def are_needed(self, key: ObjectKey, *, is_held: bool) -> bool:
        """Whether there is anything out of reach of garbage collection.

        While it is not known, everything stays as it is.
        """
        if str(key) in self.doubts or (is_held and not self._knowledge.is_complete()):
            return True
        return next(self._find_out_of_reach(key), None) is not None

    async def clean_up(self, step: Step) -> bool:
        """Delete what Kubernetes does not delete with its owner; get whether all of it is gone."""
        self.leaving.add(step.key)
        if not self._knowledge.is_complete():
            step.cause.logger.warning(
                "The deletion must wait until all the owned kinds are listed: "
                "there can be objects that are to be deleted first."
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
