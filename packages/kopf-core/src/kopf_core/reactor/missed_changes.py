"""Catching up: changes that come in the middle of a handling cycle.

A cycle can take several steps, and the object can be changed by others in between. The handlers
that are not over see the newest state anyway. Those that are over have seen the older one,
so they are called again after the cycle: for the update from what they have seen.
Nobody is called twice for the same change.
"""

from collections.abc import Collection, Mapping

from kopf_cogs.structs.bodies import BodyEssence
from kopf_cogs.structs.dicts import FieldPath, resolve
from kopf_cogs.structs.ids import HandlerId
from kopf_core.engines.memories import ObjectMemory
from kopf_core.intents.causes import ChangingCause, Reason
from kopf_core.intents.handlers import ChangingHandler


def find_outdated(
    memory: ObjectMemory,
    cause: ChangingCause,
    handlers: Collection[ChangingHandler],
) -> Mapping[HandlerId, BodyEssence]:
    """The handlers that have missed the latest changes, with what they have seen instead.

    Only those that handle updates, and are interested in what has changed since then;
    the earliest ones go first.
    """
    if not memory.seen or cause.reason is Reason.DELETE:
        return {}
    updating = {
        handler.id: handler
        for handler in handlers
        if handler.reason is Reason.UPDATE or (handler.reason is None and not handler.initial)
    }
    return {
        id: essence
        for id, essence in memory.seen.items()
        if id in updating and _is_changed(essence, cause.new, updating[id].field)
    }


def _is_changed(old: BodyEssence, new: BodyEssence, field: FieldPath | None) -> bool:
    if not field:
        return old != new
    return bool(resolve(old, field, None) != resolve(new, field, None))


def refresh_seen(memory: ObjectMemory, essence: BodyEssence) -> None:
    """What we have patched ourselves is not a change by others: nobody has missed it.

    Not to be used if others have changed the object meanwhile, too: that would be missed.
    """
    memory.seen = dict.fromkeys(memory.seen, essence)


def select_catching_up(
    memory: ObjectMemory,
    cause: ChangingCause,
    handlers: list[ChangingHandler],
) -> list[ChangingHandler]:
    """Leave out those who have seen everything already, while the others catch up with them."""
    if memory.catching_up is None or cause.reason is not Reason.UPDATE:
        return handlers
    latest, seen = memory.catching_up
    return [
        handler
        for handler in handlers
        if _is_changed(seen.get(handler.id, latest), cause.new, handler.field)
    ]
