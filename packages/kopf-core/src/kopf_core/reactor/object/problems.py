"""Problems: reports on objects that are invalid for the models of their handlers."""

from kopf_core.actions.conditions import Conditions
from kopf_core.engines.complaints import REASON, complain
from kopf_core.intents.causes import ResourceCause
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.intents.views import InvalidObjectError
from kopf_core.reactor.object.turns import Turn

VALID = "Valid"
"""The type of the condition. It is set when an object is invalid for the first time."""


def tell_of_problems(
    turn: Turn, handlers: ResourceHandlers, cause: ResourceCause, *, is_patched: bool = False
) -> None:
    """Report that the object is invalid, or is valid again; with its conditions, if it is patched.

    Conditions are set only if the kind has the status as a subresource. Otherwise, every client
    that applies the object from a file would remove them, and the schema can be without them.
    """
    problems = handlers.find_problems(cause)
    has_status = is_patched and "status" in cause.resource.subresources
    conditions: Conditions | None = cause.kwargs["conditions"] if has_status else None
    if problems:
        text = str(InvalidObjectError(problems))
        complain(cause, turn.memory, text)
        if conditions is not None:
            conditions.set(VALID, False, reason=REASON, message=text)
        return
    if turn.memory.told.complaint is not None:
        turn.memory.told = turn.memory.told._replace(complaint=None)
        turn.logger.info("The object is valid again: its handlers wait no more.")
    if conditions is not None and conditions.get(VALID, {}).get("reason") == REASON:
        conditions.set(VALID, True)
