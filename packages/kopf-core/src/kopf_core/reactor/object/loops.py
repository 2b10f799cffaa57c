"""Loops: the operator's own writes call its handlers, and these handlers write again.

A few rounds are fine: the object can settle. If it does not settle, each round waits longer than
the one before it. Changes by others are never delayed, and they end the loop. A patch that changes
nothing in the API begins no round.
"""

from collections.abc import Iterable

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.structs.bodies import RawEvent
from kopf_cogs.structs.dicts import FieldPath
from kopf_cogs.structs.ids import HandlerId
from kopf_core.actions.loggers import AnyLogger
from kopf_core.engines.records.holds import NO_LOOP
from kopf_core.engines.records.rounds import describe_fields, find_fields, join
from kopf_core.engines.records.writes import LastWrite
from kopf_core.intents.causes import ChangingCause
from kopf_core.reactor.object.turns import Turn


def is_own_echo(event: RawEvent, write: LastWrite) -> bool:
    """Whether the event brings a state that surely is not later than our own latest patch."""
    return event["type"] == "MODIFIED" and write.includes(event["object"])


def are_own_echoes(turn: Turn) -> bool:
    """Whether no other client has changed the object in the unhandled events."""
    return all(is_own_echo(event, turn.memory.write) for event in turn.item.events)


def sees_own_changes(turn: Turn) -> bool:
    """Whether no other client has changed the object, by its handled and unhandled events.

    Ask this before the next patch is sent: changes of others can be older than the patch.
    """
    return turn.is_own and are_own_echoes(turn)


def is_own_change(turn: Turn, cause: ChangingCause) -> bool:
    """Whether our own patches have made the update that the turn handles.

    Otherwise, this ends the loop.
    """
    memory = turn.memory
    is_own = turn.is_own and memory.holds.changes.covers(cause.diff)
    if not is_own and memory.holds.changes is not NO_LOOP:
        memory.holds = memory.holds._replace(changes=NO_LOOP)
    return is_own


def has_echoes_only(turn: Turn, clock: Clock) -> bool:
    """Whether the handlers of events must wait: all events are echoes of our own writes."""
    is_waiting = bool(turn.item.events) and turn.memory.holds.events.until > clock.monotonic()
    return is_waiting and are_own_echoes(turn)


def remember_fields(turn: Turn) -> None:
    """Remember which fields the operator is writing, if its writes have called handlers before."""
    holds = turn.memory.holds
    if holds.has_loops:
        turn.memory.holds = holds.wrote(find_fields(turn.patch, turn.marks.results))


def warn_of_loop(
    turn: Turn,
    handlers: Iterable[HandlerId],
    fields: Iterable[FieldPath],
    logger: AnyLogger,
) -> None:
    """Warn once about each object: such a loop is a mistake in the handlers."""
    if turn.memory.warn_once("loop"):
        callees = join("handler", [repr(id) for id in handlers])
        names = describe_fields(fields)
        what = f" of the {names}" if names else ""
        logger.warning(
            f"The operator's own changes{what} call the {callees} again and again, "
            f"and the object is changed every time. The calls will be ever more rare."
        )
