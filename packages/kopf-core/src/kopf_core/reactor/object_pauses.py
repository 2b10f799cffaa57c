"""Objects that people ask to leave alone for a while, and what is done when they do so no more."""

from kopf_cogs.structs.bodies import Body
from kopf_core.actions.loggers import ObjectLogger
from kopf_core.engines.desired.engine import DesiredStates
from kopf_core.reactor.delivery import Delivery
from kopf_core.reactor.turns import Background, Turn
from kopf_core.reactor.work import DONE, Done


def leave_alone(
    turn: Turn,
    pause: str,
    delivery: Delivery,
    background: Background,
    desired: DesiredStates | None,
) -> Done:
    """Do nothing for the object but keep its newest state, for as long as people ask so."""
    item, memory = turn.item, turn.memory
    while item.events:
        delivery.notice(turn, item.events.popleft())
    turn.body = Body(item.latest or {})
    background.suspend(memory, turn.body)
    if desired is not None:
        desired.suspend(item.key)
    if not memory.is_paused:
        memory.is_paused = True
        ObjectLogger(body=turn.body, settings=turn.settings).info(
            f"The object is paused, nothing is handled for it: {pause}"
        )
    return DONE


def go_on(turn: Turn) -> None:
    """Have everything handled again, beginning with what has changed meanwhile."""
    turn.memory.is_paused = False
    if not turn.item.is_deleted and turn.item.newest is not None:
        body = Body(turn.item.newest)
        ObjectLogger(body=body, settings=turn.settings).info("The object is paused no more.")
