"""Missed changes: changes of an object that come in the middle of its handling cycle.

A cycle can take several steps, and others can change the object between them. Handlers that have
not finished see the newest state. Handlers that have finished have seen an older state.

If a finished handler has missed a change, the end of the cycle stores the earliest state seen by
such handlers as the last handled state. The difference to it is then handled as an update. Handlers
that have seen a later state keep their progress until then: they are not called again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from kopf_cogs.structs.bodies import BodyEssence
from kopf_cogs.structs.dicts import FieldPath, resolve
from kopf_cogs.structs.ids import HandlerId
from kopf_core.actions.states import HandlerState, State
from kopf_core.intents.causes import ChangingCause, Reason
from kopf_core.intents.handlers import ChangingHandler
from kopf_core.reactor.object.seen_states import SeenStates

Interests = Mapping[HandlerId, Collection[FieldPath | None]]
"""The fields of the handlers of updates; ``None`` stands for the whole object."""


class Missed(NamedTuple):
    """The rest that the next cycle must handle."""

    essence: BodyEssence
    """The earliest state after which a handler has missed a change."""

    kept: Mapping[HandlerId, HandlerState]
    """The progress of the handlers that have seen a later state."""

    seen: SeenStates
    """The states that those handlers have seen."""


def find_missed(
    state: State,
    seen: SeenStates,
    cause: ChangingCause,
    handlers: Collection[ChangingHandler],
    load_subhandlers: Callable[[Collection[HandlerId]], Mapping[HandlerId, HandlerState]],
) -> Missed | None:
    """Find what the handlers of an ended cycle have missed; ``None`` if they have missed nothing.

    The last one of the seen states is the current state.
    """
    if len(seen.items) <= 1 or cause.reason is Reason.DELETE:
        return None
    interests = _group_interests(handlers)
    positions = {id: seen.find((id, *state[id].subrefs)) for id in state.finished}
    earliest = _find_earliest(positions, seen, cause, interests)
    if earliest is None:
        return None
    essence = seen.items[earliest].essence
    kept = {
        id: state[id]
        for id, position in positions.items()
        if position > earliest and id in interests
    }
    late = [state[id] for id in kept if positions[id] < len(seen.items) - 1]
    for id in positions.keys() & interests.keys() - kept.keys():
        kept.update(_keep_subhandlers(id, state, load_subhandlers, seen, earliest))
    # The states that sub-handlers have seen tell what their parents have missed.
    subrefs = frozenset().union(*(known.subrefs for known in late))
    kept.update((id, sub) for id, sub in load_subhandlers(subrefs).items() if sub.finished)
    if cause.reason is not Reason.CREATE:
        kept.update(_excuse(state, essence, seen.items[-1].essence, interests))
    kept = {id: known._replace(purpose=Reason.UPDATE.value) for id, known in kept.items()}
    return Missed(essence, kept, seen.keep(earliest + 1, kept))


def _keep_subhandlers(
    id: HandlerId,
    state: State,
    load: Callable[[Collection[HandlerId]], Mapping[HandlerId, HandlerState]],
    seen: SeenStates,
    earliest: int,
) -> Iterator[tuple[HandlerId, HandlerState]]:
    """Keep the progress of the sub-handlers that have missed nothing, so that they are not
    repeated.

    Their parent is called again anyway, but these sub-handlers are finished for it.
    """
    subrefs = state[id].subrefs
    ahead = {
        ref: known
        for ref, known in load(subrefs).items()
        if known.finished and seen.find((ref, *known.subrefs)) > earliest
    }
    if ahead:
        yield id, HandlerState(started=state.now, subrefs=subrefs)
        yield from ahead.items()


def _group_interests(handlers: Collection[ChangingHandler]) -> Interests:
    interests: dict[HandlerId, list[FieldPath | None]] = {}
    for handler in handlers:
        if handler.reason is Reason.UPDATE or (handler.reason is None and not handler.initial):
            interests.setdefault(handler.id, []).append(handler.field)
    return interests


def _find_earliest(
    positions: Mapping[HandlerId, int],
    seen: SeenStates,
    cause: ChangingCause,
    interests: Interests,
) -> int | None:
    """The position of the state after which a change was missed; ``None`` if none was missed.

    After a creation, the first of its handlers defines the created state. Later changes are updates
    of that state, also for handlers of updates only, as those take no part in creations. In other
    cycles, the handlers of updates take part themselves.
    """
    newest = seen.items[-1].essence
    outdated = [
        position
        for id, position in positions.items()
        if _is_missed(seen.items[position].essence, newest, interests.get(id, ()))
    ]
    if cause.reason is not Reason.CREATE:
        return min(outdated, default=None)
    earliest = min(positions.values(), default=len(seen.items) - 1)
    essence = seen.items[earliest].essence
    others = (fields for id, fields in interests.items() if id not in positions)
    is_missed = outdated or any(_is_missed(essence, newest, fields) for fields in others)
    return earliest if is_missed else None


def _excuse(
    state: State,
    essence: BodyEssence,
    newest: BodyEssence,
    interests: Interests,
) -> Iterator[tuple[HandlerId, HandlerState]]:
    """Mark the handlers that took no part in the cycle as finished: they have missed nothing."""
    done = HandlerState(started=state.now, stopped=state.now, success=True)
    for id, fields in interests.items():
        if id not in state.finished and _is_missed(essence, newest, fields):
            yield id, done


def _is_missed(
    essence: BodyEssence, newest: BodyEssence, fields: Collection[FieldPath | None]
) -> bool:
    """Whether the change from that state to the newest one is in the fields of the handler."""
    return any(_is_changed(essence, newest, field) for field in fields)


def _is_changed(old: BodyEssence, new: BodyEssence, field: FieldPath | None) -> bool:
    if not field:
        return old != new
    return bool(resolve(old, field, None) != resolve(new, field, None))
