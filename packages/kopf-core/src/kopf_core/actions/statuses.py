"""Statuses as models: their changes go to the patch of the handler."""

from collections.abc import Mapping
from typing import Any

from kopf_cogs.structs.dicts import json_copy, resolve
from kopf_cogs.structs.models import find_model, is_model, make_merge_patch, without_nulls
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.context import Invocation, current_body, current_invocation
from kopf_core.actions.effects import merge_into


def update_status(status: Any, /) -> None:
    """Change the status of the current object as this model says; only what differs from the given
    status, or from the model in the previous call.

    It is an instance of a pydantic model or of a dataclass: usually, a changed copy of what
    the handler was given as ``status``. A field which is ``None`` is removed from the object.
    The fields which the model does not have are left as they are. The fields which are the same in
    the copy are left as they are, too: for example, the conditions that ``conditions.set()`` has
    changed meanwhile. Or it is a dictionary: then, only the fields which it has are changed.

    Nothing is sent at once: it goes to the ``patch`` of the handler, as usual. It is for
    the ``status`` of Kubernetes objects, which usually is a subresource of them.

    Raises :class:`LookupError` outside of the handlers of objects, :class:`TypeError` for what
    is not a model and not a dictionary.
    """
    invocation = current_invocation()
    cause: Any = invocation.cause
    patch: Patch = cause.patch
    given = {"status": json_copy(resolve(current_body(), ("status",), {}))}
    if is_model(type(status)):
        known = _find_unsent(invocation, patch) or given["status"] or {}
        changes = _compare(type(status), known, status)
    elif isinstance(status, Mapping):
        known = _apply(patch.get("status"), given)
        wanted = json_copy(status)
        changes = make_merge_patch({key: known[key] for key in wanted if key in known}, wanted)
    else:
        raise TypeError(f"A status is a model or a dictionary, not {status!r}.")
    if changes:
        merge_into(patch, {"status": changes})
        if is_model(type(status)):
            invocation.said = patch["status"], _apply(changes, {"status": json_copy(known)})


def _find_unsent(invocation: Invocation, patch: Patch) -> Mapping[str, Any] | None:
    """The unsent status, as the latest model has described it; ``None`` if it is sent already."""
    pending, said = invocation.said or (None, None)
    return said if pending is not None and pending is patch.get("status") else None


def _apply(changes: Any, body: dict[str, Any]) -> dict[str, Any]:
    """The status of the body with the changes of a merge patch."""
    if isinstance(changes, Mapping):
        Patch({"status": changes}).apply_fields(body)
    return body.get("status") or {}


def _compare(cls: Any, known: Mapping[str, Any], status: Any) -> dict[str, Any]:
    from kopf_cogs.structs.shapes import write

    model, new = find_model(cls), write(status)
    assert model is not None
    parsed = model.parse(known)
    old = known if parsed.problems else write(parsed.value)
    old = {key: old[key] for key in new if key in old}
    return make_merge_patch(without_nulls(old), without_nulls(new))
