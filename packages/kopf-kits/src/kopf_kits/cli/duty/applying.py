"""Changes of objects: the plan for each of them, and its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.clients.patching import patch_object
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.patches import Patch
from kopf_core.engines.inspection import Change, ObjectState, inspect
from kopf_kits.cli.duty.finding import Finder, Found
from kopf_kits.cli.duty.options import Selection

if TYPE_CHECKING:
    from kopf_cogs.clients.session import Client
    from kopf_core.reactor.process.errands import Access

CHANGED = "changed"
CONFLICT = "it changes too often, or the change is denied"
BATCH = 64
"""How many objects the command changes at once."""


@dataclass(slots=True)
class Step:
    """One object, and its planned change if it needs one."""

    found: Found
    state: ObjectState
    change: Change
    result: str = "unchanged"
    """``planned``, ``changed``, ``unchanged``, ``gone``, or ``failed``."""

    error: str | None = None

    @property
    def is_needed(self) -> bool:
        return self.change.fn is not None

    def as_json(self) -> dict[str, Any]:
        """The step for scripts: the names are stable."""
        meta = self.state.body.metadata
        return {
            "apiVersion": self.state.body.get("apiVersion"),
            "kind": self.state.body.get("kind"),
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "state": self.state.phase.value,
            "summary": self.change.summary,
            "result": self.result,
            "error": self.error,
        }


async def plan_all(
    client: Client,
    access: Access,
    selection: Selection,
    plan: Callable[[ObjectState], Change],
    problems: list[str],
    *,
    keep_idle: bool,
) -> list[Step]:
    """Find the objects, and plan their changes; ``keep_idle`` also keeps objects with no change."""
    finder = Finder(ObjectsAPI(client), selection, problems)
    steps = []
    async for found in finder.find():
        state = inspect(Body(found.body), access.settings.persistence, access.clock.now())
        change = plan(state)
        if change.fn is not None or keep_idle:
            result = "unchanged" if change.fn is None else "planned"
            steps.append(Step(found, state, change, result))
    return steps


async def apply_all(client: Client, steps: Sequence[Step]) -> None:
    """Make the planned changes; a failure with one object does not stop the others."""
    needed = [step for step in steps if step.is_needed]
    for start in range(0, len(needed), BATCH):
        await asyncio.gather(*(_apply(client, step) for step in needed[start : start + BATCH]))


async def _apply(client: Client, step: Step) -> None:
    """Change the newest state of the same object, never of another object with its name."""
    assert step.change.fn is not None
    meta = step.state.body.metadata
    try:
        patched = await patch_object(
            client,
            step.found.resource,
            meta.namespace,
            step.found.raw_name,
            Patch(fns=[step.change.fn]),
            step.found.body,
            uid=meta.uid,
        )
    except APIError as e:
        step.result, step.error = "failed", str(e)
        return
    if patched.gone:
        step.result = "gone"
    elif patched.remaining:
        reason = f": {patched.refusal}" if patched.refusal else ""
        step.result, step.error = "failed", f"{CONFLICT}{reason}"
    else:
        step.result = "unchanged" if patched.body is None else CHANGED
