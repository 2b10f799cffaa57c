"""Statuses: the changes that reconcilers make to the status of their objects, if these are news."""

import contextlib

from kopf_cogs.structs.bodies import Body, build_object_reference
from kopf_cogs.structs.conditions import is_seen
from kopf_cogs.structs.diffs import Diff
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.conditions import Conditions
from kopf_core.actions.context import operator_var
from kopf_core.actions.errors import TemporaryError
from kopf_core.engines.desired.object_plans import ObjectPlans
from kopf_core.engines.desired.triggers import Essence, digest
from kopf_core.intents.causes import ReconcilingCause

CONFLICT = "Conflicting"
"""The type of the condition of an owner whose children are also managed by others."""

REASON = "FieldManagerConflict"
"""The reason of the condition, and of the Kubernetes event."""


class FieldConflictError(TemporaryError):
    """Other managers have set fields of an object, and Kopf must not take these fields."""


def tell_of_conflict(cause: ReconcilingCause, message: str, *, is_lasting: bool) -> None:
    """Post an event about the owner; if the conflict lasts, set a condition, too."""
    conditions: Conditions = cause.kwargs["conditions"]
    is_known = is_lasting and conditions.get(CONFLICT, {}).get("message") == message
    if is_lasting:
        conditions.set(CONFLICT, True, reason=REASON, message=message)
    if not is_known:
        ref = build_object_reference(cause.body)
        operator_var.get().recorder.record(ref, type="Warning", reason=REASON, message=message)


def tell_of_peace(cause: ReconcilingCause) -> None:
    """Remove the condition: everything is as wanted, and there is no conflict anymore."""
    conditions: Conditions = cause.kwargs["conditions"]
    if CONFLICT in conditions:
        conditions.delete(CONFLICT)


_CONDITIONS = frozenset({("status",), ("status", "conditions")})


def drop_if_the_same(patch: Patch, body: Body) -> None:
    """Drop the status from the patch if the object has it already: reconcilers set it each time.

    Conditions are there only if they have changed.
    """
    if not patch or patch.fns or _has_conditions(patch):
        return
    with contextlib.suppress(Exception):  # values that are not JSON are reported at their sending
        if not patch.as_json_patch(body):
            patch.clear()


def drop_unkept(patch: Patch, body: Body, unkept: Essence | None) -> Essence | None:
    """Drop the conditions that were sent already, and were not stored; return the new ones, if any.

    Otherwise, without conditions in the schema, they would be sent after each pass.
    """
    if not _has_conditions(patch):
        return None
    status = patch["status"]
    said = digest([{**item, "lastTransitionTime": None} for item in status["conditions"]])
    if said != unkept:
        return said
    del status["conditions"]
    if "observedGeneration" not in body.status:
        status.pop("observedGeneration", None)
    if not status:
        del patch["status"]
    return None


def is_dropped(inconsistencies: Diff) -> bool:
    """Whether the conditions are not stored as they were sent."""
    return any(item.field in _CONDITIONS for item in inconsistencies)


def observe(cause: ReconcilingCause, known: ObjectPlans) -> None:
    """Set the generation of the object that is completely reconciled, if all reconcilers agree.

    If it is not on the object yet, it is set only together with the conditions, or once after them
    if it had to wait for other reconcilers. The kind can have no such field, and then the server
    drops it every time.
    """
    if not cause.kwargs["conditions"]:
        return
    if not all(plan.is_settled for plan in known.plans.values()):
        known.is_unobserved |= _has_conditions(cause.patch)
        return
    is_late, known.is_unobserved = known.is_unobserved, False
    generation, stored = cause.body.metadata.get("generation"), cause.body.status
    if cause.is_status_counted and not _has_conditions(cause.patch) and is_seen(cause.body):
        return  # our own latest change of the status made it, and there would be one more
    is_news = is_late or "observedGeneration" in stored or _has_conditions(cause.patch)
    if generation is not None and is_news and stored.get("observedGeneration") != generation:
        cause.patch.setdefault("status", {})["observedGeneration"] = generation


def _has_conditions(patch: Patch) -> bool:
    return "conditions" in (patch.get("status") or {})
