"""Pauses of single objects: people ask the operators to leave an object alone for a while."""

from collections.abc import Mapping
from typing import Any

from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.finalizers import is_deletion_ongoing

PAUSED = "kopf.zalando.org/paused"
"""The annotation of a paused object. Its value is the reason, for people.

All operators share it, with any prefixes and finalizers, if their settings allow it: every user
who may patch the object can set the annotation.
"""

_UNPAUSED = frozenset({"false", "no"})


def get_pause(body: RawBody | Mapping[str, Any]) -> str | None:
    """Why the operator must leave the object alone now; ``None`` if it is not paused.

    An object that is being deleted is not paused, so it does not hold the deletion of a namespace.
    """
    if is_deletion_ongoing(body):
        return None
    annotations = body["metadata"].get("annotations")
    if not annotations or PAUSED not in annotations:
        return None
    value = str(annotations[PAUSED])
    return None if value.strip().lower() in _UNPAUSED else value
