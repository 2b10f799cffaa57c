"""Missed changes: those that come in the middle of a handling cycle.

A cycle can take several steps, and the object can be changed by others in between. The handlers
that are not over see the newest state anyway. Those that are over have seen an older one: which
one is written on the object as a digest beside their progress, and so outlives the operator.

When the cycle is over, and somebody has missed a change, the state that the earliest of them has
seen is stored as the last handled one. What differs from it is then handled as an update.
The progress of those who have seen more than that is kept until then: they are not called again.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from kopf_cogs.configs.diffbase import digest_essence
from kopf_cogs.structs.bodies import BodyEssence
from kopf_cogs.structs.dicts import FieldPath, resolve
from kopf_cogs.structs.ids import HandlerId
from kopf_core.actions.states import HandlerState, State
from kopf_core.intents.causes import ChangingCause, Reason
from kopf_core.intents.handlers import ChangingHandler

Essences = Mapping[str, BodyEssence]
"""The states of an object by their digests."""


@dataclass(frozen=True, slots=True)
class Missed:
    """What remains to be handled when the cycle is over."""

    essence: BodyEssence | None
    """What the earliest of the handlers has seen; ``None`` to leave the last handled state."""

    kept: Mapping[HandlerId, HandlerState]
    """The progress of those who have seen more than that."""

    essences: Essences
    """What exactly those have seen."""


def find_missed(
    state: State,
    cause: ChangingCause,
    handlers: Collection[ChangingHandler],
    essences: Essences,
) -> Missed | None:
    """See who has missed what in the cycle that is over; ``None`` if nobody has missed anything.

    Only those matter that handle updates, and are interested in what has changed since then.
    """
    if cause.reason is Reason.DELETE or not state.seen:
        return None
    current = digest_essence(cause.new)
    known = {**essences, current: cause.new}
    behind = [id for id in _by_age(state) if state[id].seen != current]
    interests = _group_interests(handlers)
    outdated = [
        id for id in behind if _is_missed(known.get(state[id].seen or ""), cause, interests.get(id))
    ]
    earliest = _find_earliest(state, cause, behind, outdated, interests, known)
    if earliest is None:
        return None
    essence = known.get(earliest)
    kept = {
        id: state[id]
        for id, digest in state.seen.items()
        if id in interests and digest != earliest and digest in known
    }
    if cause.reason is not Reason.CREATE and essence is not None:
        kept.update(_excuse(state, cause, essence, interests, current))
    kept = {id: replace(known, purpose=Reason.UPDATE.value) for id, known in kept.items()}
    return Missed(essence, kept, {s.seen: known[s.seen] for s in kept.values() if s.seen})


def _by_age(state: State) -> list[HandlerId]:
    """Those who have seen something, in the order in which they have done it."""
    return sorted(state.seen, key=lambda id: state[id].stopped or state.now)


def _group_interests(
    handlers: Collection[ChangingHandler],
) -> Mapping[HandlerId, Collection[FieldPath | None]]:
    """The fields of those that handle updates; ``None`` stands for the whole object."""
    interests: dict[HandlerId, list[FieldPath | None]] = {}
    for handler in handlers:
        if handler.reason is Reason.UPDATE or (handler.reason is None and not handler.initial):
            interests.setdefault(handler.id, []).append(handler.field)
    return interests


def _find_earliest(
    state: State,
    cause: ChangingCause,
    behind: list[HandlerId],
    outdated: list[HandlerId],
    interests: Mapping[HandlerId, Collection[FieldPath | None]],
    essences: Essences,
) -> str | None:
    """The digest of the state from which on there is something to be handled, if there is.

    A creation is what the first of its handlers has seen; what comes later is an update of that,
    also for those who handle only updates. In other cycles, they have their part in the cycle.
    """
    if cause.reason is not Reason.CREATE:
        return state[outdated[0]].seen if outdated else None
    digest = state[behind[0]].seen if behind else None
    essence = essences.get(digest or "")
    if digest is None or essence is None:
        return None
    others = (fields for id, fields in interests.items() if id not in state.seen)
    is_missed = outdated or any(_is_missed(essence, cause, fields) for fields in others)
    return digest if is_missed else None


def _excuse(
    state: State,
    cause: ChangingCause,
    essence: BodyEssence,
    interests: Mapping[HandlerId, Collection[FieldPath | None]],
    digest: str,
) -> Iterator[tuple[HandlerId, HandlerState]]:
    """Those who had no part in the cycle have missed nothing, whatever others have to repeat."""
    done = HandlerState(started=state.now, stopped=state.now, success=True, seen=digest)
    for id, fields in interests.items():
        if id not in state.seen and _is_missed(essence, cause, fields):
            yield id, done


def _is_missed(
    essence: BodyEssence | None,
    cause: ChangingCause,
    fields: Collection[FieldPath | None] | None,
) -> bool:
    """Whether the change from that state to the current one is of interest for the handler."""
    return any(_is_changed(essence, cause.new, field) for field in fields or ())


def _is_changed(old: BodyEssence | None, new: BodyEssence, field: FieldPath | None) -> bool:
    if not field or old is None:
        return bool(old != new)
    return bool(resolve(old, field, None) != resolve(new, field, None))
