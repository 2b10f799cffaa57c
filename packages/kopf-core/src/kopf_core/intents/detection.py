"""Detection: finds out what has happened to an object, by its state and its last handled state."""

from typing import Any

from kopf_cogs.structs.bodies import Body, RawEventType
from kopf_cogs.structs.diffs import Diff
from kopf_cogs.structs.finalizers import is_deletion_blocked, is_deletion_ongoing
from kopf_core.intents.causes import Reason


def detect_reason(
    *,
    event_type: RawEventType,
    body: Body,
    finalizer: str,
    old: Any,
    diff: Diff,
    initial: bool,
) -> Reason:
    """Detect what has happened to the object.

    ``old`` is its last handled state, if it was ever handled. ``diff`` is the difference to its
    current state. ``initial`` means that it is seen for the first time in this process.
    """
    if event_type == "DELETED":
        return Reason.GONE
    if is_deletion_ongoing(body):
        # Without our finalizer, the object may be gone already.
        return Reason.DELETE if is_deletion_blocked(body, finalizer) else Reason.FREE
    if old is None:
        return Reason.CREATE
    if diff:
        return Reason.UPDATE
    return Reason.RESUME if initial else Reason.NOOP
