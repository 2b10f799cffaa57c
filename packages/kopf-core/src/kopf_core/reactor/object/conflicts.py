"""Conflicts: other tools change the object at the same time, or revert what we do."""

from kopf_cogs.configs.settings import PersistenceSettings
from kopf_cogs.structs.bodies import Body, RawBody
from kopf_core.actions.effects import Applied
from kopf_core.actions.loggers import AnyLogger
from kopf_core.engines.records.holds import Holds, choose_delay
from kopf_core.engines.records.owed import Owed
from kopf_core.intents.causes import Reason
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.object.warnings import locate

MAX_CONFLICTS = 10
"""How many times in a row the changes by functions can be refused before they are dropped."""

TOLD_CONFLICTS = 2
"""After how many refusals in a row to log the reply: the first one can be of an outdated state."""

MAX_CONFLICT_DELAY = 60.0
"""In seconds: how long to wait at most for the newer state after a conflict."""


def tell_of_lost_marks(holds: Holds, logger: AnyLogger) -> None:
    """Warn that a handled object has lost its last handled state, and will be handled as a new one.

    Another tool or person has removed the annotation.
    """
    if holds.losses == 1:
        logger.warning(
            "The last handled state was removed from the object, so it is handled as a new one."
        )
    else:
        logger.warning(
            f"The last handled state was removed from the object {holds.losses} times; "
            f"is there another tool that reverts the annotations? "
            f"The object will be handled as a new one in {choose_delay(holds.losses)} seconds."
        )


def tell_of_lost_progress(holds: Holds, logger: AnyLogger) -> None:
    """Warn that the handlers will be called again in the middle of their cycle.

    Their progress is not on the object: the schema drops it, or another client removes it.
    """
    if holds.losses > 1:  # the first time, it can be a person
        logger.warning(
            f"The progress of the handlers is not on the object, though it was stored there, "
            f"{holds.losses} times; is it in the schema, is there another tool that removes it? "
            f"The handlers will be called anew in {choose_delay(holds.losses)} seconds."
        )


def must_leave_finalizer(turn: Turn, now: float, *, wanted: bool) -> bool:
    """Whether to leave the finalizer as it is for now, because another client undoes our change."""
    latest, before = turn.item.latest, turn.memory.holds.finalizer
    kind = None if latest is None else latest.get("apiVersion")
    hold = before.noticed(kind, now, wanted=wanted)
    if hold is not before:
        turn.memory.holds = turn.memory.holds._replace(finalizer=hold)
        if hold.undone > 1:  # the first time, it can be a person
            undone, again = ("removed", "added") if wanted else ("put back", "removed")
            turn.logger.warning(
                f"The finalizer was {undone} by others; is there another operator with the same "
                f"finalizer, handlers for another version of the kind, or a tool that reverts it? "
                f"It will be {again} in {choose_delay(hold.undone)} seconds."
            )
    return now < hold.until


def get_finalizer_hold(turn: Turn, reason: Reason, now: float) -> float | None:
    """In how many seconds to change the finalizer again; ``None`` if it is not left as it is."""
    left = turn.memory.holds.finalizer.until - now
    return left if left > 0 and reason is not Reason.DELETE else None


def keep_refused(owed: Owed, applied: Applied, logger: AnyLogger, *, has_news: bool) -> Owed:
    """Keep the refused functions for a fresher state; drop them after too many refusals.

    API servers refuse outdated changes and invalid changes in the same way. Outdated ones succeed
    on a fresher state sooner or later. Invalid ones never do, and would block the finalizer.
    """
    if not applied.is_refused:
        return owed.accepted()
    logger.debug(
        "The object has changed meanwhile: the patch will be completed when its newer state comes."
    )
    owed = owed.refused(applied.carried, applied.refusal, has_news=has_news)
    reason = f" The latest reply was: {applied.refusal}" if applied.refusal else ""
    if owed.conflicts == TOLD_CONFLICTS and not has_news:
        logger.warning(
            f"The API refuses a change of the object, though the object stays the same. "
            f"Maybe a webhook denies the change. Kopf tries it again.{reason}"
        )
    if owed.conflicts < MAX_CONFLICTS:
        return owed
    names = ", ".join(locate(fn) for fn in owed.carried)
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
    return owed.given_up()


def get_conflict_delay(owed: Owed) -> float:
    """How many seconds to wait for the newer state of the object: longer after each conflict."""
    return min(2.0**owed.conflicts, MAX_CONFLICT_DELAY)


def judge_owed(
    owed: Owed,
    newest: RawBody | None,
    handlers: ResourceHandlers,
    persistence: PersistenceSettings,
) -> Owed:
    """Drop the changes that a pause has held, if another operator has handled the object since.

    Otherwise, keep the changes to send them, even if the object differs: Kopf must not call their
    handlers again.
    """
    if owed.base is None or newest is None:
        return owed.judged(is_obsolete=False)
    diffbase, progress = persistence.diffbase_storage, persistence.progress_storage
    before, now = Body(owed.base), Body(newest)
    is_obsolete = diffbase.fetch(body=before) != diffbase.fetch(body=now) or any(
        progress.fetch(key=handler.id, body=before) != progress.fetch(key=handler.id, body=now)
        for handler in handlers.changing
    )
    return owed.judged(is_obsolete=is_obsolete)
