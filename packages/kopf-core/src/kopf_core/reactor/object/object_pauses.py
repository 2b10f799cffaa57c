"""Pauses of single objects, which people ask for with an annotation; and the ends of the pauses."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.loggers import LocalObjectLogger
from kopf_core.engines.background import BackgroundEngine
from kopf_core.engines.memories import ObjectMemories, PausedObject
from kopf_core.engines.posting import event as post_event
from kopf_core.intents.pauses import get_pause
from kopf_core.reactor.object.delivery import Delivery
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.streams.work import DONE, Done

if TYPE_CHECKING:
    from kopf_core.engines.desired.desired_states import DesiredStates


def find_pause(turn: Turn) -> str | None:
    """The reason of the pause; ``None`` if the object is not paused, or is deleted."""
    item = turn.item
    newest = item.newest if turn.settings.execution.honor_pauses else None
    pause = None if newest is None else get_pause(newest)
    return None if pause is None or item.is_deleted else pause


@dataclass(frozen=True, slots=True)
class ObjectPauses:
    """Begins and ends the pauses of objects of one resource."""

    memories: ObjectMemories
    delivery: Delivery
    background: BackgroundEngine
    desired: "DesiredStates | None"

    def leave_alone(self, turn: Turn, resource: Resource, pause: str) -> Done:
        """Keep the newest state of the paused object, stop its daemons and timers, and do nothing
        else.
        """
        item = turn.item
        while item.events:
            self.delivery.notice(turn, item.events.popleft())
        self.background.suspend(item.key, turn.body)
        if self.desired is not None:
            self.desired.suspend(item.key)
        meta = turn.body.metadata
        paused = PausedObject(resource, meta.namespace, meta.name or "", pause)
        if self.memories.pause(item.key, paused):
            _tell(turn, "Paused", f"The object is paused, nothing is handled for it: {pause}")
        return DONE

    def go_on(self, turn: Turn) -> None:
        """End the pause: the turn goes on, and handles the changes that were made in the pause."""
        self.memories.unpause(turn.item.key)
        if not turn.item.is_deleted and turn.item.newest is not None:
            _tell(turn, "Unpaused", "The object is paused no more.")


def _tell(turn: Turn, reason: str, message: str) -> None:
    """Tell people: in the log of the operator, and with an event on the object."""
    body = Body(turn.item.newest or {})
    LocalObjectLogger(body=body, settings=turn.settings).info(message)
    post_event(body, type="Normal", reason=reason, message=message)
