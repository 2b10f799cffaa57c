"""Conflicts: what is told about the objects that cannot be as wanted because of others."""

from kopf_cogs.structs.bodies import build_object_reference
from kopf_core.actions.conditions import Conditions
from kopf_core.actions.context import operator_var
from kopf_core.actions.errors import TemporaryError
from kopf_core.intents.causes import ReconcilingCause

CONFLICT = "Conflicting"
"""The type of the condition of an owner whose children are also managed by others."""

REASON = "FieldManagerConflict"
"""The reason of the condition, and of the Kubernetes event."""


class FieldConflictError(TemporaryError):
    """The fields of an object are set by other managers, and must not be taken from them."""


def tell_of_conflict(cause: ReconcilingCause, message: str, *, is_lasting: bool) -> None:
    """Post an event about the owner; and if it cannot be overcome, set a condition, too."""
    conditions: Conditions = cause.kwargs["conditions"]
    is_known = is_lasting and conditions.get(CONFLICT, {}).get("message") == message
    if is_lasting:
        conditions.set(CONFLICT, True, reason=REASON, message=message)
    if not is_known:
        ref = build_object_reference(cause.body)
        operator_var.get().recorder.record(ref, type="Warning", reason=REASON, message=message)


def tell_of_peace(cause: ReconcilingCause) -> None:
    """Everything is as wanted: there is no conflict anymore."""
    conditions: Conditions = cause.kwargs["conditions"]
    if CONFLICT in conditions:
        conditions.delete(CONFLICT)
