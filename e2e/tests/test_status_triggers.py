"""Changes of the status as triggers, on any cluster."""

from __future__ import annotations

import pytest
from idleness import until

from e2e.tests.harness import GROUP, MERGE, World
from kopf_core.engines.records.holds import FREE_ROUNDS
from kopf_core.intents import decorators as on

WARNING = "The operator's own changes of the field"


@pytest.mark.parametrize("plural", ["kexes", "subs"])
@pytest.mark.parametrize("kind", ["field", "update", "event"])
async def test_l1_own_writes_are_no_endless_loop(world: World, plural, kind, logged) -> None:
    """With the subresource of the status, and without it; changes of others are not delayed."""
    world.plural = plural
    root, name = ("spec", "n") if kind == "update" else ("status", "count")
    path = world.path("obj") + ("/status" if (plural, root) == ("subs", "status") else "")
    options = {"field": "status.count"} if kind == "field" else {}

    @getattr(on, kind)(GROUP, plural, id="fn", registry=world.registry, **options)
    async def fn(body, patch, **_):
        count = body.get(root, {}).get(name)
        if count is not None:
            world.calls(count)
            patch.setdefault(root, {})[name] = count + 1

    @on.create(GROUP, plural, registry=world.registry)
    async def created(**_): ...

    async with world.operator():
        await world.create({})
        await world.until_handled()
        await world.request("PATCH", path, {root: {name: 0}}, MERGE)
        await until(lambda: logged(WARNING))
        while 1000 not in world.calls:  # the handler can overwrite it, as the patch has no version
            await world.request("PATCH", path, {root: {name: 1000}}, MERGE)
            await world.until(lambda obj: obj is not None and obj[root][name] != 1000)
    assert world.calls[: FREE_ROUNDS + 1] == [*range(FREE_ROUNDS + 1)]
