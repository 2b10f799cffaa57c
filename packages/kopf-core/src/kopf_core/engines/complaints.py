"""Complaints: people are told that an object is invalid for handlers, once for each reason."""

from kopf_cogs.structs.bodies import build_object_reference
from kopf_core.actions.context import operator_var
from kopf_core.actions.loggers import LocalObjectLogger
from kopf_core.engines.memories import ObjectMemory
from kopf_core.intents.causes import ResourceCause

REASON = "InvalidObject"
"""The reason of the Kubernetes event, and of the condition."""


def complain(cause: ResourceCause, memory: ObjectMemory, text: str) -> None:
    """Log the reason, and post an event, unless the last ones were the same."""
    if memory.told.complaint == text:
        return
    memory.told = memory.told._replace(complaint=text)
    logger = LocalObjectLogger(body=cause.body, settings=cause.settings)
    logger.error(f"{text}. The handlers which rely on its model wait until it is changed.")
    ref = build_object_reference(cause.body)
    operator_var.get().recorder.record(ref, type="Warning", reason=REASON, message=text)
