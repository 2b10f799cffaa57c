"""Safeguards: what keeps the operator sane when objects, users, or other tools are not."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from kopf_cogs.configs.diffbase import (
    AnnotationsDiffBaseStorage,
    DiffBaseStorage,
    HashingDiffBaseStorage,
    MultiDiffBaseStorage,
)
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.effects import Applied
from kopf_core.actions.loggers import AnyLogger
from kopf_core.actions.throttling import Throttler
from kopf_core.engines.memories import ObjectMemory
from kopf_core.intents.handlers import ChangingHandler
from kopf_core.intents.registries import find_clashes
from kopf_core.reactor.subjects import Subject
from kopf_core.reactor.work import DONE, Requeue, TurnResult

MAX_ANNOTATIONS_SIZE = 256 * 1024
"""In bytes, all keys and values of an object. The API servers reject objects beyond that."""

HEADROOM = 4 * 1024
"""How much of that (in bytes) is left for the progress of handlers."""

ALWAYS_FITS = 32 * 1024
"""In characters. So short annotations are within the limit, whatever characters they consist of."""

MAX_CONFLICTS = 10
"""How many times in a row the changes by functions can be refused before they are dropped."""

MAX_CONFLICT_DELAY = 60.0
"""In seconds: how long to wait at most for the newer state after a conflict."""

LOST_MARKS_DELAYS = (0.0, 1.0, 3.0, 10.0, 30.0, 60.0)
"""Seconds before handling an object anew when its marks are removed by others repeatedly."""


def is_too_large(body: Body, marks: Patch, logger: AnyLogger) -> bool:
    """Whether the object has no place for our marks. It must be found out before handling.

    Otherwise, the handlers would succeed, but it would be impossible to remember that.
    """
    planned = (marks.get("metadata") or {}).get("annotations") or {}
    if not planned:
        return False
    annotations = {**body.metadata.annotations, **planned}
    if sum(map(len, annotations.values())) < ALWAYS_FITS and len(annotations) < 100:
        return False
    size = sum(
        len(key.encode()) + len(value.encode("utf-8", "replace"))
        for key, value in annotations.items()
        if isinstance(value, str)
    )
    if size + HEADROOM <= MAX_ANNOTATIONS_SIZE:
        return False
    logger.error(
        f"The object is not handled: there is no place for the last handled state "
        f"in its annotations ({size} bytes of at most {MAX_ANNOTATIONS_SIZE}, "
        f"{HEADROOM} of which are reserved for the progress). Make the object smaller, "
        f"or exclude the large fields, or use another settings.persistence.diffbase_storage."
    )
    return True


def get_lost_marks_delay(memory: ObjectMemory, logger: AnyLogger) -> float:
    """How long to wait (in seconds) before handling an object that was already handled.

    Such an object has lost its last handled state: another tool or person has removed it.
    """
    memory.losses += 1
    delay = LOST_MARKS_DELAYS[min(memory.losses, len(LOST_MARKS_DELAYS)) - 1]
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
    if names:
        logger.error(
            f"The transformation functions are dropped: their changes were refused "
            f"{MAX_CONFLICTS} times in a row, so they are probably invalid: {names}"
        )
    else:
        logger.error(
            f"The finalizer can be neither added nor removed: it was refused "
            f"{MAX_CONFLICTS} times in a row. It will be tried further."
        )
    memory.carried, memory.conflicts = (), 0


def get_conflict_delay(memory: ObjectMemory) -> float:
    """For how long (in seconds) to wait for the newer state of the object: ever longer."""
    return min(2.0**memory.conflicts, MAX_CONFLICT_DELAY)


def throttle(subject: Subject, reason: str, exc: Exception | None, now: float) -> TurnResult:
    """Leave the object alone for a while: something is wrong with it, or with us."""
    throttler = subject.memory.throttler
    if throttler is None:
        throttler = subject.memory.throttler = Throttler()
    delay = throttler.fail(subject.settings.queueing.error_delays)
    if delay is None:
        subject.logger.error(f"Processing has failed: {reason}", exc_info=exc)
        return DONE
    subject.logger.error(
        f"Throttling for {delay} seconds due to an unexpected error: {reason}", exc_info=exc
    )
    return Requeue(at=now + delay, is_held=True)


def unthrottle(subject: Subject) -> None:
    """The object is processed with no errors: the next one starts from the shortest delay."""
    if subject.memory.throttler is not None:
        subject.memory.throttler = None
        subject.logger.info("Throttling is over. Switching back to normal operations.")


def warn_of_clashes(
    memory: ObjectMemory,
    handlers: Iterable[ChangingHandler],
    logger: AnyLogger,
) -> None:
    """Name the different functions that share an id: their progress cannot be told apart."""
    for one, other in find_clashes(handlers):
        if memory.warn_once(f"clash:{one.id}"):
            ids = f"{one.id!r}" if one.id == other.id else f"{one.id!r} and {other.id!r}"
            logger.warning(
                f"Two different functions are registered as {ids}, and only one of them "
                f"can be tracked: {locate(one.fn)} and {locate(other.fn)}. "
                f"Use the id= option for one of them."
            )


def warn_of_exposed_secrets(
    resource: Resource,
    storage: DiffBaseStorage,
    logger: AnyLogger,
) -> None:
    """Tell that the data of Secrets will be copied to where everybody sees it."""
    if resource.group == "" and resource.plural == "secrets" and _exposes_values(storage):
        logger.warning(
            "Secrets are handled, and their data are copied into annotations as the last handled "
            "state; `kubectl describe` shows annotations as is. To prevent this, set "
            "settings.persistence.diffbase_storage = kopf.HashingDiffBaseStorage()."
        )


def _exposes_values(storage: DiffBaseStorage) -> bool:
    if isinstance(storage, MultiDiffBaseStorage):
        return any(_exposes_values(inner) for inner in storage.storages)
    return isinstance(storage, AnnotationsDiffBaseStorage) and not isinstance(
        storage, HashingDiffBaseStorage
    )


def locate(fn: Any) -> str:
    """Where the function is: its name, file, and line."""
    while isinstance(fn, partial):
        fn = fn.func
    code = getattr(fn, "__code__", None)
    name = getattr(fn, "__qualname__", repr(fn))
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"
