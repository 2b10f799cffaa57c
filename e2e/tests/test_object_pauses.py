"""Pauses of single objects: nothing is handled for them until they are paused no more."""

from __future__ import annotations

import asyncio

import pytest

from e2e.tests.harness import FINALIZER, GROUP, get_essence, get_finalizers, get_progress
from kopf_core.actions.errors import TemporaryError
from kopf_core.intents import decorators as on
from kopf_core.intents.pauses import PAUSED
from kopf_core.intents.stoppers import DaemonStoppingReason

pytestmark = pytest.mark.usefixtures("honoring")

KEX = (GROUP, "kexes")
PAUSE = {"metadata": {"annotations": {PAUSED: "a test"}}}
UNPAUSE = {"metadata": {"annotations": {PAUSED: None}}}


@pytest.fixture
def honoring(world):
    world.settings.execution.honor_pauses = True
    world.settings.posting.enabled = True


async def _settle(world):
    """Have another object handled: whatever was sent before it, has come to the operator, too."""
    await world.create({"n": -1}, name="other")
    await world.until_handled(name="other")


async def test_pauses_that_come_amid_a_turn_are_noticed_before_its_changes_are_handled(world):
    calls, gate = world.calls, asyncio.Event()

    @on.update(*KEX, registry=world.registry)
    def update_fn(name, new, **_):
        calls(("update", name, new["spec"]["n"]))

    @on.event(*KEX, registry=world.registry)
    async def event_fn(name, spec, **_):
        if name == "obj":
            calls(("event", spec["n"]))
            if spec["n"] == 2:
                await gate.wait()

    async with world.operator():
        await world.create({"n": 1})
        await world.until_handled()
        await world.patch({"spec": {"n": 2}})
        await calls.until(lambda calls: ("event", 2) in calls)
        await world.patch(PAUSE)
        await world.patch({"spec": {"n": 3}})
        await world.create({"n": -1}, name="other")
        await world.until_handled(name="other")  # so, all before that has come, too
        gate.set()
        await world.patch({"spec": {"n": -2}}, name="other")
        await world.until_handled(name="other", spec={"n": -2})
        assert not [call for call in calls if call in (("event", 3), ("update", "obj", 3))]
        await world.patch(UNPAUSE)
        await world.until_handled(spec={"n": 3})
    assert ("event", 3) in calls
    assert calls.count(("update", "obj", 3)) == 1


@pytest.mark.docs("cli/pause")
async def test_changes_wait_while_the_object_is_paused(world, logged):
    calls = world.calls

    @on.create(*KEX, registry=world.registry)
    def create_fn(name, **_):
        calls(("create", name))

    @on.update(*KEX, registry=world.registry)
    def update_fn(name, old, new, **_):
        calls(("update", name, old["spec"]["n"], new["spec"]["n"]))

    @on.event(*KEX, registry=world.registry)
    def event_fn(name, spec, **_):
        if name == "obj":
            calls(("event", spec["n"]))

    async with world.operator():
        await world.create({"n": 1})
        await world.until_handled()
        await world.patch(PAUSE)
        await world.patch({"spec": {"n": 2}})
        await world.patch({"spec": {"n": 3}})
        await _settle(world)
        before = list(calls)
        assert not [call for call in calls if call[0] == "update" or call == ("event", 3)]
        assert get_essence(await world.get())["spec"] == {"n": 1}
        await world.patch(UNPAUSE)
        await world.until_handled(spec={"n": 3})
    assert ("update", "obj", 1, 3) in calls[len(before) :]
    assert ("event", 2) not in calls
    assert ("event", 3) in calls[len(before) :]
    assert len(logged("The object is paused, nothing is handled for it: a test")) == 1
    assert len(logged("The object is paused no more.")) == 1


@pytest.mark.docs("cli/pause")
async def test_paused_objects_are_left_as_they_are_from_the_start(world):
    calls = world.calls

    @on.create(*KEX, registry=world.registry)
    def create_fn(name, **_):
        calls(name)

    @on.delete(*KEX, registry=world.registry)
    def delete_fn(**_):
        pass

    await world.create(metadata={"annotations": {PAUSED: "yes"}})
    await world.create(name="unpaused", metadata={"annotations": {PAUSED: "false"}})
    async with world.operator():
        await _settle(world)
        await world.until_handled(name="unpaused")
        obj = await world.get()
        assert not get_finalizers(obj)
        assert get_essence(obj) is None
        await world.patch(UNPAUSE)
        await world.until_handled()
    assert calls.count("obj") == 1


@pytest.mark.docs("cli/pause")
async def test_k20_nobody_can_pause_what_an_operator_guards_unless_it_allows_that(world, logged):
    calls = world.calls
    world.settings.execution.honor_pauses = False

    @on.create(*KEX, registry=world.registry)
    @on.update(*KEX, registry=world.registry)
    def fn(name, reason, **_):
        calls((name, str(reason)))

    await world.create({"n": 1}, metadata=PAUSE["metadata"])
    async with world.operator():
        await world.until_handled(spec={"n": 1})
        await world.patch({"spec": {"n": 2}})
        await world.until_handled(spec={"n": 2})
    assert calls == [("obj", "create"), ("obj", "update")]
    assert not logged("The object is paused, nothing is handled for it: a test")


@pytest.mark.docs("cli/pause")
async def test_k20_deletion_does_not_wait_while_the_object_is_paused(world):
    calls = world.calls

    @on.daemon(*KEX, registry=world.registry)
    async def daemon_fn(stopped, **_):
        await stopped.wait()

    @on.delete(*KEX, registry=world.registry)
    def delete_fn(name, **_):
        calls(name)

    async with world.operator():
        await world.create()
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
        await world.patch(PAUSE)
        await _settle(world)
        await world.delete()
        await world.until_gone()
    assert calls == ["obj"]


@pytest.mark.docs("cli/pause")
async def test_k20_events_tell_of_pauses(world):
    @on.create(*KEX, registry=world.registry)
    def create_fn(**_):
        pass

    async with world.operator():
        await world.create()
        await world.until_handled()
        await world.patch(PAUSE)
        await world.until_event("Paused")
        await world.patch(UNPAUSE)
        await world.until_event("Unpaused")


@pytest.mark.docs("cli/pause")
async def test_paused_objects_can_vanish(world):
    calls = world.calls

    @on.event(*KEX, registry=world.registry)
    def event_fn(type, name, **_):
        calls((type, name))

    @on.create(*KEX, registry=world.registry)
    def create_fn(**_):
        pass

    async with world.operator():
        await world.create()
        await world.until_handled()
        await world.patch(PAUSE)
        await world.delete()
        await calls.until(lambda calls: ("DELETED", "obj") in calls)
        await world.create({"n": 2})  # another object of the same name
        await world.until_handled(spec={"n": 2})


@pytest.mark.docs("cli/pause")
async def test_daemons_stop_while_the_object_is_paused(world):
    calls = world.calls

    @on.daemon(*KEX, registry=world.registry)
    async def daemon_fn(stopped, **_):
        calls("started")
        await stopped.wait()
        calls(stopped.reason)

    async with world.operator():
        await world.create()
        await calls.until(lambda calls: calls == ["started"])
        await world.patch(PAUSE)
        await calls.until(lambda calls: len(calls) == 2)
        assert DaemonStoppingReason.OPERATOR_PAUSING in calls[1]
        await world.patch(UNPAUSE)
        await calls.until(lambda calls: calls[2:] == ["started"])


@pytest.mark.docs("cli/pause")
async def test_retries_wait_while_the_object_is_paused(world):
    calls, attempted = world.calls, asyncio.Event()

    @on.create(*KEX, id="create_fn", registry=world.registry)
    async def create_fn(retry, **_):
        calls(retry)
        if retry == 0:
            await attempted.wait()
            raise TemporaryError("not yet", delay=0.001)

    async with world.operator():
        await world.create()
        await calls.until(lambda calls: calls == [0])
        await world.patch(PAUSE)  # while it works: this attempt is finished, and is remembered
        attempted.set()
        await world.until(lambda obj: "create_fn" in get_progress(obj))
        await world.patch({"spec": {"n": 2}})
        assert calls == [0]
        await world.patch(UNPAUSE)
        await world.until_handled()
    assert calls == [0, 1]
