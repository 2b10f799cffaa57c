"""Objects that people ask to leave alone for a while, and what is done when they do so no more."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.loggers import LocalObjectLogger
from kopf_core.engines.memories import ObjectMemories, PausedObject
from kopf_core.engines.posting import event as post_event
from kopf_core.intents.pauses import get_pause
from kopf_core.reactor.object.delivery import Delivery
from kopf_core.reactor.object.turns import Background, Turn
from kopf_core.reactor.streams.work import DONE, Done

if TYPE_CHECKING:
    from kopf_core.engines.desired.desired_states import DesiredStates


def find_pause(turn: Turn) -> str | None:
    """Why nothing is to be done for the object now; ``None`` if it is not paused, or is deleted."""
    item = turn.item
    newest = item.newest if turn.settings.execution.honor_pauses else None
    pause = None if newest is None else get_pause(newest)
    return None if pause is None or item.is_deleted else pause


@dataclass(frozen=True, slots=True)
class ObjectPauses:
    """Begins and ends the pauses of objects of one resource."""

    memories: ObjectMemories
    delivery: Delivery
    background: Background
    desired: "DesiredStates | None"

    def leave_alone(self, turn: Turn, resource: Resource, pause: str) -> Done:
        """Do nothing for the object but keep its newest state, for as long as people ask so."""
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
        """Have everything handled again, beginning with what has changed meanwhile."""
        self.memories.unpause(turn.item.key)
        if not turn.item.is_deleted and turn.item.newest is not None:
            _tell(turn, "Unpaused", "The object is paused no more.")


def _tell(turn: Turn, reason: str, message: str) -> None:
    """Tell those who look at the operator, and those who look at the object."""
    body = Body(turn.item.newest or {})
    LocalObjectLogger(body=body, settings=turn.settings).info(message)
    post_event(body, type="Normal", reason=reason, message=message)
