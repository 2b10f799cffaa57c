"""Conflicts: other tools change the object at the same time, or revert what we do."""

from kopf_cogs.configs.settings import PersistenceSettings
from kopf_cogs.structs.bodies import Body, RawBody
from kopf_core.actions.effects import Applied
from kopf_core.actions.loggers import AnyLogger
from kopf_core.engines.memories import ObjectMemory
from kopf_core.intents.causes import Reason
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.turns import Turn
from kopf_core.reactor.warnings import locate

MAX_CONFLICTS = 10
"""How many times in a row the changes by functions can be refused before they are dropped."""

MAX_CONFLICT_DELAY = 60.0
"""In seconds: how long to wait at most for the newer state after a conflict."""

LOST_MARKS_DELAYS = (0.0, 1.0, 3.0, 10.0, 30.0, 60.0)
"""Seconds before handling an object anew when its marks are removed by others repeatedly."""

PEACE = 60.0
"""In seconds: if the finalizer was as we want it for that long, its next loss is the first one."""


def get_lost_marks_delay(memory: ObjectMemory, logger: AnyLogger) -> float:
    """How long to wait (in seconds) before handling an object that was already handled.

    Such an object has lost its last handled state: another tool or person has removed it.
    """
    delay = _count_loss(memory)
    if memory.losses == 1:
        logger.warning(
            "The last handled state was removed from the object, so it is handled as a new one."
        )
    else:
        logger.warning(
            f"The last handled state was removed from the object {memory.losses} times; "
            f"is there another tool that reverts the annotations? "
            f"The object will be handled as a new one in {delay} seconds."
        )
    return delay


def get_lost_progress_delay(memory: ObjectMemory, logger: AnyLogger) -> float:
    """How long to wait (in seconds) before calling the handlers anew, amid their cycle.

    Their progress has never got to the object, e.g. by its schema, or is removed by others.
    """
    delay = _count_loss(memory)
    if memory.losses > 1:  # once, it can be a person
        logger.warning(
            f"The progress of the handlers is not on the object, though it was stored there, "
            f"{memory.losses} times; is it in the schema, is there another tool that removes it? "
            f"The handlers will be called anew in {delay} seconds."
        )
    return delay


def must_leave_finalizer(turn: Turn, now: float, *, wanted: bool) -> bool:
    """Whether the finalizer is left as it is for now, since others undo what we do to it.

    Each time when they have done so is counted, and is told of, once.
    """
    memory, latest = turn.memory, turn.item.latest
    kind = None if latest is None else latest.get("apiVersion")
    if memory.finalized not in (None, (kind, not wanted)):
        memory.finalized = None
        memory.undone = memory.undone + 1 if now - memory.finalizer_until < PEACE else 1
        delay = _choose_delay(memory.undone)
        memory.finalizer_until = now + delay
        if memory.undone > 1:  # once, it can be a person
            undone, again = ("removed", "added") if wanted else ("put back", "removed")
            turn.logger.warning(
                f"The finalizer was {undone} by others; is there another operator with the same "
                f"finalizer, handlers for another version of the kind, or a tool that reverts it? "
                f"It will be {again} in {delay} seconds."
            )
    return now < memory.finalizer_until


def get_finalizer_hold(turn: Turn, reason: Reason, now: float) -> float | None:
    """In how many seconds to get back to the finalizer, if it is left as it is for now."""
    left = turn.memory.finalizer_until - now
    return left if left > 0 and reason is not Reason.DELETE else None


def _count_loss(memory: ObjectMemory) -> float:
    memory.losses += 1
    return _choose_delay(memory.losses)


def _choose_delay(count: int) -> float:
    return LOST_MARKS_DELAYS[min(count, len(LOST_MARKS_DELAYS)) - 1]


def keep_refused(
    memory: ObjectMemory,
    applied: Applied,
    logger: AnyLogger,
    *,
    has_news: bool,
) -> None:
    """Keep the refused functions for a fresher state; drop them if they are never accepted.

    API servers refuse both outdated and invalid changes in the same way, but the outdated ones
    succeed sooner or later on fresher states. Meanwhile, they block the finalizers.
    """
    if not applied.is_refused:
        memory.conflicts = 0
        return
    logger.debug(
        "The object has changed meanwhile: the patch is to be completed when its newer state comes."
    )
    memory.carried += applied.carried
    memory.conflicts += not has_news  # with news, it is no wonder: others change the object a lot
    if memory.conflicts < MAX_CONFLICTS:
        return
    names = ", ".join(locate(fn) for fn in memory.carried)
    reason = f" The latest reply was: {applied.refusal}" if applied.refusal else ""
    if names:
        logger.error(
            f"The transformation functions are dropped: their changes were refused "
            f"{MAX_CONFLICTS} times in a row, so they are probably invalid: {names}.{reason}"
        )
    else:
        logger.error(
            f"The finalizer can be neither added nor removed: it was refused "
            f"{MAX_CONFLICTS} times in a row. It will be tried further.{reason}"
        )
    memory.carried, memory.conflicts = (), 0


def get_conflict_delay(memory: ObjectMemory) -> float:
    """For how long (in seconds) to wait for the newer state of the object: ever longer."""
    return min(2.0**memory.conflicts, MAX_CONFLICT_DELAY)


def judge_pending(
    memory: ObjectMemory,
    newest: RawBody | None,
    handlers: ResourceHandlers,
    persistence: PersistenceSettings,
) -> None:
    """Drop what a pause has held, if others have handled the object meanwhile.

    Otherwise, it is sent, whatever else has changed: it was done, and is not to be repeated.
    """
    base, memory.base = memory.base, None
    if base is None or newest is None:
        return
    diffbase, progress = persistence.diffbase_storage, persistence.progress_storage
    before, now = Body(base), Body(newest)
    if diffbase.fetch(body=before) != diffbase.fetch(body=now) or any(
        progress.fetch(key=handler.id, body=before) != progress.fetch(key=handler.id, body=now)
        for handler in handlers.changing
    ):
        memory.pending = None
