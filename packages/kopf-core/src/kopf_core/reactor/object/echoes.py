"""Echoes: the stream brings an object exactly as our own patch has left it."""

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

if TYPE_CHECKING:  # its import takes time, and few operators need it
    from kopf_core.engines.desired.desired_states import DesiredStates


class Echoes:
    """Recognises the echoes of our own patches for the objects of one resource.

    Objects with daemons and timers are always checked in a turn, as these can end without any
    change of the object. Objects with reconcilers are checked, unless only their status has
    changed.
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
        self.rests_when_handled = not (handlers.spawning or handlers.reconciling)
        """Whether a handled object needs nothing until others change it: no daemons, timers,
        passes.
        """

        has_others = handlers.changing or handlers.spawning
        self._is_status_free = bool(desired and desired.is_indifferent and not has_others)
        """Whether a change of the status alone never needs a pass or a handler."""

        can_be_last = self.rests_when_handled or self._is_status_free
        self._are_skipped = can_be_last and not handlers.watching

    def absorb(self, item: WorkItem, event: RawEvent) -> bool:
        """Take the event without a turn, if it is the awaited echo and the object needs no work.

        Most cycles end so, and turns are not cheap. Turns are still made if debug messages are
        logged, so that people see each detail.
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
        """Whether the object is exactly as our patch has left it when everything was handled."""
        return turn.memory.write.has_left(turn.item.latest)

    def get_rest(self, turn: Turn) -> float:
        """In how many seconds the next pass is due, if this is the echo of a pass; zero if it is
        not.
        """
        is_settled = self._is_status_free and turn.memory.write.has_left(turn.item.latest)
        if self._desired is None or not is_settled:
            return 0.0
        return self._desired.get_rest(turn.item.key)

    def remember(self, turn: Turn, before: RawBody | None) -> None:
        """Remember the patched state as handled, if the latest patch has changed only the status.

        Objects with our finalizer are not remembered: the finalizer can be due to be removed.
        """
        after = None if turn.applied is None else turn.applied.body
        if not self._is_status_free or before is None or after is None:
            return
        is_blocked = is_deletion_blocked(after, self._settings.persistence.finalizer)
        if not is_blocked and _is_same_but_status(before, after):
            turn.memory.write = turn.memory.write.finished(after)


def _is_same_but_status(before: RawBody, after: RawBody) -> bool:
    """Whether the two states differ in the status only."""
    return {**before, **_REPORTED} == {**after, **_REPORTED} and (
        {**before["metadata"], **_VERSIONED} == {**after["metadata"], **_VERSIONED}
    )


_REPORTED: Mapping[str, Any] = {"metadata": None, "status": None}
_VERSIONED: Mapping[str, Any] = {"resourceVersion": None, "managedFields": None}
"""The fields of the metadata that differ after any change of the object."""
