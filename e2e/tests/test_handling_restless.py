"""Objects that never rest: their events are as many as can be handled, or more than that."""

from __future__ import annotations

import pytest

from e2e.tests.harness import FINALIZER, GROUP, Calls, get_finalizers
from kopf_core.intents import decorators as on

SUBS = (GROUP, "subs")


def handle_life(world):
    """Handlers of the changes of objects, and the calls they make."""

    @on.create(*SUBS, id="fn", registry=world.registry)
    @on.update(*SUBS, id="fn", registry=world.registry)
    @on.delete(*SUBS, id="fn", registry=world.registry)
    def fn(reason, spec, **_):
        world.calls((str(reason), spec["n"]))


@pytest.mark.docs("configuration/consistency")
async def test_o1_handlers_of_events_that_always_patch_starve_nobody(world):
    """There is always a patch on its way: each one comes back as an event, and makes the next."""
    world.plural = "subs"
    world.settings.persistence.consistency_timeout = 1000
    handle_life(world)
    patches = iter(range(1_000_000))

    @on.event(*SUBS, id="ev", registry=world.registry)
    def ev(patch, **_):
        patch.status["seen"] = next(patches)

    async with world.operator():
        await world.create({"n": 1})
        await world.until_handled(spec={"n": 1})
        await world.patch({"spec": {"n": 2}})
        obj = await world.until_handled(spec={"n": 2})
        assert get_finalizers(obj) == [FINALIZER]
        await world.delete()
        await world.until_gone()
    assert world.calls == [("create", 1), ("update", 2), ("delete", 2)]


@pytest.mark.parametrize("is_patching", [False, True])
async def test_o1_objects_with_ever_more_events_are_handled(world, is_patching):
    """Whenever an event is handled, the next one is there already."""
    world.plural = "subs"
    world.settings.persistence.consistency_timeout = 1000
    handle_life(world)
    beats = iter(range(1_000_000))

    @on.event(*SUBS, id="ev", registry=world.registry)
    async def ev(name, status, patch, **_):
        beat = next(beats)
        answer = await world.attempt(
            "PATCH",
            world.path(f"{name}/status"),
            {"status": {"beat": beat}},
            "application/merge-patch+json",
        )
        if answer.status < 400:
            await seen.until(lambda seen: beat in seen)
        if is_patching:
            patch.status["seen"] = status.get("beat")

    @on.daemon(*SUBS, id="dm", registry=world.registry)
    async def dm(stopped, **_):
        runs.append("started")
        await stopped.wait()
        runs.append("stopped")

    runs, seen = [], Calls()

    @on.index(*SUBS, id="idx", registry=world.registry)
    async def idx(status, **_):
        seen(status.get("beat"))

    async with world.operator():
        await world.create({"n": 1})
        await world.until_handled(spec={"n": 1})
        await world.patch({"spec": {"n": 2}})
        await world.until_handled(spec={"n": 2})
        await world.delete()
        await world.until_gone()
    assert world.calls == [("create", 1), ("update", 2), ("delete", 2)]
    assert runs == ["started", "stopped"]
