"""Echoes: objects come back in the stream as we have left them, and there is nothing to be done."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import RawBody, RawEvent
from kopf_cogs.structs.finalizers import is_deletion_blocked
from kopf_core.actions.loggers import objects_logger
from kopf_core.engines.memories import ObjectMemories
from kopf_core.engines.records.writes import AwaitChange
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.object.cycles import FOREVER
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.streams.work import WorkItem

if TYPE_CHECKING:  # it takes time to be imported, and most of the operators do without it
    from kopf_core.engines.desired.desired_states import DesiredStates


class Echoes:
    """Recognises the states in which we have left the objects of one resource ourselves.

    Daemons and timers can end without any change of the object, so objects with these are always
    checked. Passes are made for changes of others, and at their times.
    """

    def __init__(
        self,
        settings: OperatorSettings,
        handlers: ResourceHandlers,
        memories: ObjectMemories,
        desired: "DesiredStates | None" = None,
    ) -> None:
        self._settings = settings
        self._memories = memories
        self._desired = desired
        self.are_final = not (handlers.spawning or handlers.reconciling)
        """Whether nothing happens to an object that is left as handled, but changes by others."""

        has_others = handlers.changing or handlers.spawning
        self._is_status_free = bool(desired and desired.is_indifferent and not has_others)
        """Whether nothing is ever to be done because of the status of an object."""

        can_be_last = self.are_final or self._is_status_free
        self._are_skipped = can_be_last and not handlers.watching

    def absorb(self, item: WorkItem, event: RawEvent) -> bool:
        """Take the event if the object waits only for it, and a turn for it would do nothing.

        Most of the cycles end so, and turns are not cheap. They are still made
        if people look at every detail in the log.
        """
        rest = item.rest
        if not self._are_skipped or not isinstance(rest, AwaitChange) or item.has_wishes:
            return False
        memory = self._memories.get(item.key)
        is_absorbed = (
            memory is not None
            and event["type"] == "MODIFIED"
            and memory.write.has_left(event["object"])
            and memory.write.version == rest.version
            and not objects_logger.isEnabledFor(logging.DEBUG)
            and (self._desired is None or self._desired.get_rest(item.key) == FOREVER)
        )
        if memory is not None and is_absorbed:
            memory.write = memory.write.streamed(event["object"])
        return is_absorbed

    def is_own(self, turn: Turn) -> bool:
        """Whether this is how we have left the object, so that there is nothing to be done."""
        return turn.memory.write.has_left(turn.item.latest)

    def get_rest(self, turn: Turn) -> float:
        """For how long to do nothing: if passes have left the object so, with its new status."""
        is_settled = self._is_status_free and turn.memory.write.has_left(turn.item.latest)
        if self._desired is None or not is_settled:
            return 0.0
        return self._desired.get_rest(turn.item.key)

    def remember(self, turn: Turn, before: RawBody | None) -> None:
        """Remember that nothing but the status was changed by the latest patch, if it is so.

        With our finalizer on the object, it can be its turn to be removed.
        """
        after = None if turn.applied is None else turn.applied.body
        if not self._is_status_free or before is None or after is None:
            return
        is_blocked = is_deletion_blocked(after, self._settings.persistence.finalizer)
        if not is_blocked and _is_same_but_status(before, after):
            turn.memory.write = turn.memory.write.finished(after)


def _is_same_but_status(before: RawBody, after: RawBody) -> bool:
    """Whether neither we nor anybody else has changed anything else in the object."""
    return {**before, **_REPORTED} == {**after, **_REPORTED} and (
        {**before["metadata"], **_VERSIONED} == {**after["metadata"], **_VERSIONED}
    )


_REPORTED: Mapping[str, Any] = {"metadata": None, "status": None}
_VERSIONED: Mapping[str, Any] = {"resourceVersion": None, "managedFields": None}
"""What differs in the metadata if anything else is changed."""
