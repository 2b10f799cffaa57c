"""Changes that people on duty make in the marks on an object: the plans, and the functions.

The plans are for people to read. The functions change a body in place. It is the freshest body:
the object can have changed since the plan was made.
"""

import datetime
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kopf_cogs.configs.settings import PersistenceSettings
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.finalizers import allow_deletion
from kopf_cogs.structs.patches import Patch
from kopf_core.engines.inspection.object_states import HandlerPhase, HandlerProgress, ObjectState
from kopf_core.intents.pauses import PAUSED

RawObject = MutableMapping[str, Any]

MAX_NAMED = 5
"""How many handlers are named in a plan; the others are only counted."""


@dataclass(frozen=True, slots=True)
class Change:
    """A planned change of an object, or the reason why there is none."""

    summary: str
    fn: Callable[[RawObject], None] | None = None
    """``None`` if there is nothing to do."""


def plan_retry(
    state: ObjectState, persistence: PersistenceSettings, now: datetime.datetime
) -> Change:
    """Let the handlers that wait for their next attempt have it at once."""
    waiting = [one for one in state.handlers if one.is_unfinished and one.state.delayed is not None]
    retried = [one for one in state.handlers if one.phase is HandlerPhase.RETRIED]
    doubt = " (it is due already: is the operator running?)"
    if not waiting and retried:
        return Change(f"no handler has a delay: {_name(retried)}{doubt}")
    if not waiting:
        return Change(f"no handler waits for its next attempt{_doubt(state) or _redo(state)}")
    is_due = all(handler.state.is_awake(now) for handler in waiting)
    pause = "; but it is paused" if state.pause is not None else ""
    return Change(
        f"retry at once: {_name(waiting)}{doubt * is_due}{pause}",
        partial(hasten, persistence=persistence),
    )


def _doubt(state: ObjectState) -> str:
    """The remark that attempts in memory cannot be seen or changed from outside."""
    if state.last_handled is not None or state.handlers:
        return ""
    return (
        ", as far as it is on the object: timers, daemons, and running first attempts are only in "
        "the memory of the operator: see its /status"
    )


def _redo(state: ObjectState) -> str:
    """The other command for objects whose handlers have finished, e.g. failed for good."""
    if state.deleted_at is not None:
        return "; it is being deleted: is the operator running?"
    is_over = all(handler.state.finished for handler in state.handlers)
    return "; to handle it as new, use kopf forget" if is_over else ""


def _name(handlers: Sequence[HandlerProgress]) -> str:
    ids = [handler.id for handler in handlers]
    rest = f", and {len(ids) - MAX_NAMED} more" if len(ids) > MAX_NAMED else ""
    return ", ".join(ids[:MAX_NAMED]) + rest


def hasten(body: RawObject, *, persistence: PersistenceSettings) -> None:
    """Remove the delays of all handlers that have not finished."""
    storage, patch, view = persistence.progress_storage, Patch(), Body(body)
    for name, record in storage.find(body=view).items():
        if not record.get("success") and not record.get("failure") and record.get("delayed"):
            record["delayed"] = None
            storage.rewrite(name, record, body=view, patch=patch)
    patch.apply_fields(body)


def plan_pause(state: ObjectState, reason: str) -> Change:
    """Stop all handling of the object until a user unpauses it."""
    if state.pause is not None:
        return Change(f"it is paused already: {state.pause}")
    if state.deleted_at is not None:
        return Change("it is being deleted, and pauses do not hold deletions")
    return Change(f"pause: {reason}", partial(pause_object, reason=reason))


def pause_object(body: RawObject, *, reason: str) -> None:
    """Put the annotation of the pause on the object."""
    metadata = body.setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), PAUSED: reason}


def plan_unpause(state: ObjectState) -> Change:
    """Let the operator handle all changes that have come since the pause."""
    if state.pause is None:
        return Change("it is not paused")
    return Change(f"unpause; it was paused: {state.pause}", unpause_object)


def unpause_object(body: RawObject) -> None:
    """Remove the annotation of the pause."""
    (body["metadata"].get("annotations") or {}).pop(PAUSED, None)


def plan_forgetting(state: ObjectState, persistence: PersistenceSettings) -> Change:
    """Remove the progress and the last handled state, so that the object is as new.

    The finalizer stays: otherwise, an object that is being deleted would vanish.
    """
    fn = partial(forget, persistence=persistence)
    patch = _plan_erasing(Body(state.body), persistence)
    if not patch:
        return Change(f"there is nothing to forget{_doubt(state)}")
    parts = [f"the progress of {_name(state.handlers)}"] if state.handlers else []
    if state.last_handled is not None:
        parts.append("the last handled state")
    return Change(f"forget {', '.join(parts or ['what is left of earlier times'])}", fn)


def forget(body: RawObject, *, persistence: PersistenceSettings) -> None:
    """Remove the progress and the last handled state."""
    _plan_erasing(Body(body), persistence).apply_fields(body)


def _plan_erasing(body: Body, persistence: PersistenceSettings) -> Patch:
    patch = Patch()
    persistence.progress_storage.erase(body=body, patch=patch)
    persistence.diffbase_storage.erase(body=body, patch=patch)
    return patch


def plan_release(state: ObjectState, persistence: PersistenceSettings) -> Change:
    """Remove our finalizer, so that the object can be deleted with no operator."""
    if not state.is_held:
        return Change("our finalizer is not there")
    text = f"remove the finalizer {persistence.finalizer}"
    if state.deleted_at is not None and state.other_finalizers:
        text += f"; the deletion waits for others then: {', '.join(state.other_finalizers)}"
    elif state.deleted_at is not None:
        text += "; it is being deleted, and will be gone, with no deletion handlers called"
    return Change(text, partial(allow_deletion, finalizer=persistence.finalizer))
