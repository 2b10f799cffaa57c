"""Changes of the status as triggers, on any cluster."""

from __future__ import annotations

import pytest
from idleness import until

from e2e.tests.harness import GROUP, MERGE, World
from kopf_core.intents import decorators as on

WARNING = "Handler 'fn/status.count' is called for changes of the field"


@pytest.mark.parametrize("plural", ["kexes", "subs"])
async def test_own_writes_to_the_status_are_no_endless_loop(world: World, plural, caplog) -> None:
    """With the subresource of the status, and without it; changes of others are not delayed."""
    world.plural = plural
    path = world.path("obj") + ("/status" if plural == "subs" else "")

    @on.field(GROUP, plural, field="status.count", id="fn", registry=world.registry)
    async def fn(new, patch, **_):
        world.calls(new)
        patch.status["count"] = new + 1

    async with world.operator():
        await world.create({"n": 1})
        await world.request("PATCH", path, {"status": {"count": 0}}, MERGE)
        await world.until(lambda obj: ((obj or {}).get("status") or {}).get("count") == 4)
        await until(lambda: WARNING in caplog.text)
        await world.request("PATCH", path, {"status": {"count": 100}}, MERGE)
        await world.calls.until(lambda calls: 100 in calls)
    assert world.calls[:5] == [0, 1, 2, 3, 100]
