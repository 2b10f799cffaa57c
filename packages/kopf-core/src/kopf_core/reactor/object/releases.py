"""Releases: the last patch of an object that is being deleted."""

from functools import partial
from typing import Any

from kopf_cogs.structs.finalizers import allow_deletion
from kopf_cogs.structs.patches import Patch


def plan_release(marks: Patch, finalizer: str) -> None:
    """Plan to remove the progress together with the finalizer, in one request.

    With two requests, a crash between them could leave the object without its progress. Then, Kopf
    would call all handlers of the deletion again.
    """
    fields = Patch({**marks})
    for field in fields:
        del marks[field]
    marks.fns.append(partial(release, finalizer=finalizer, fields=fields))


def release(body: dict[str, Any], *, finalizer: str, fields: Patch) -> None:
    """Remove our finalizer from the body, and apply the last changes by the framework, in place."""
    allow_deletion(body, finalizer=finalizer)
    fields.apply_fields(body)
