"""Confirmations of operators that they ignore the objects that people pause by annotations.

Operators confirm pauses by Kubernetes events, as they must not write to the paused objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.structs.resources import EVENTS

if TYPE_CHECKING:
    from kopf_cogs.clients.session import Client
    from kopf_kits.cli.duty.applying import Step

PAUSED = "Paused"
"""The reason of the events that confirm pauses."""

POLLING = 0.25
"""In seconds. The events come soon: when the operator has seen the annotation."""


class Unconfirmed(NamedTuple):
    """The objects for which no operator has confirmed the pause in time."""

    steps: Sequence[Step]
    error: APIError | None = None
    """The error that hides whether an operator has confirmed the pause, if there is one."""


async def pause_all(client: Client, steps: Sequence[Step], patience: float) -> Unconfirmed:
    """Pause the objects, and wait until operators confirm that."""
    from kopf_kits.cli.duty.applying import CHANGED, apply_all

    places = {step.state.body.metadata.namespace or "default" for step in steps}
    listing = partial(_list, client, places.pop() if len(places) == 1 else None)
    earlier, error = await listing()
    seen = {_identify(event) for event in earlier}  # these events can be of earlier pauses
    await apply_all(client, steps)
    left = [step for step in steps if step.result == CHANGED]
    if error is not None:  # events of earlier pauses would look like confirmations
        return Unconfirmed(left, error)
    deadline = asyncio.get_running_loop().time() + patience
    while left:
        events, error = await listing()
        news = [event for event in events if _identify(event) not in seen]
        uids = {(event.get("involvedObject") or {}).get("uid") for event in news}
        left = [step for step in left if step.state.body.metadata.uid not in uids]
        if not left or asyncio.get_running_loop().time() >= deadline:
            break
        await asyncio.sleep(POLLING)
    return Unconfirmed(left, error)


async def _list(
    client: Client, namespace: str | None
) -> tuple[Sequence[Mapping[str, Any]], APIError | None]:
    try:
        return await ObjectsAPI(client).list(EVENTS, namespace, fields=f"reason={PAUSED}"), None
    except APIError as e:
        return [], e


def _identify(event: Mapping[str, Any]) -> tuple[str, str]:
    """The state of the event: a repeated event changes the version of the same object."""
    meta = event["metadata"]
    return (str(meta.get("uid")), str(meta.get("resourceVersion")))
