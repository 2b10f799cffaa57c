"""Statuses: what reconcilers say of the objects themselves, and what is not worth saying."""

import contextlib

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.patches import Patch
from kopf_core.intents.causes import ResourceCause


def drop_if_the_same(patch: Patch, body: Body) -> None:
    """Send nothing if reconcilers say of the object what is there already: they say it each time.

    Conditions are there only if they have changed.
    """
    if not patch or patch.fns or _has_conditions(patch):
        return
    with contextlib.suppress(Exception):  # what is not JSON is reported when it is to be sent
        if not patch.as_json_patch(body):
            patch.clear()


def observe(cause: ResourceCause) -> None:
    """Say which generation of the object has been reconciled completely.

    If it is not there yet, it goes together with the conditions only: it can be that
    the definition of the kind has no such field, and the server drops it every time.
    """
    generation, stored = cause.body.metadata.get("generation"), cause.body.status
    is_news = "observedGeneration" in stored or _has_conditions(cause.patch)
    if generation is not None and is_news and stored.get("observedGeneration") != generation:
        cause.patch.setdefault("status", {})["observedGeneration"] = generation


def _has_conditions(patch: Patch) -> bool:
    return "conditions" in (patch.get("status") or {})
