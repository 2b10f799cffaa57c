"""Echoes: our own patches that come back in the stream, with nothing to be done about them."""

import logging

from kopf_cogs.structs.bodies import RawEvent
from kopf_core.actions.loggers import objects_logger
from kopf_core.engines.memories import ObjectMemories
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.turns import Turn
from kopf_core.reactor.work import AwaitChange, WorkItem


class Echoes:
    """Recognises the states in which we have left the objects of one resource ourselves.

    Daemons and timers can end without any change of the object, and passes are made for changes
    of others, so objects with these are always checked.
    """

    def __init__(self, handlers: ResourceHandlers, memories: ObjectMemories) -> None:
        self._memories = memories
        self._are_final = not (handlers.spawning or handlers.reconciling)
        self._are_skipped = self._are_final and not handlers.watching

    def is_echo(self, turn: Turn) -> bool:
        """Whether this is how we have left the object, so that there is nothing to be done."""
        return self._are_final and turn.memory.is_settled(turn.item.latest)

    def is_last(self, item: WorkItem, event: RawEvent) -> bool:
        """Whether the object waits only for this event, and a turn for it would do nothing.

        It is so at the end of most of the cycles, and turns are not cheap. They are still made
        if people look at every detail in the log.
        """
        rest = item.rest
        if not self._are_skipped or not isinstance(rest, AwaitChange) or item.has_wishes:
            return False
        memory = self._memories.get(item.key)
        return (
            memory is not None
            and event["type"] == "MODIFIED"
            and memory.is_settled(event["object"])
            and memory.settled_version == rest.version
            and not objects_logger.isEnabledFor(logging.DEBUG)
        )
