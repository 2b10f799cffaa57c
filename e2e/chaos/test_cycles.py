"""Changes, restarts, and relists in the middle of handling cycles."""

from __future__ import annotations

import pytest

from e2e.chaos.driver.notes import at
from e2e.chaos.fake.journal import where
from e2e.chaos.fake.kinds import KEX
from e2e.chaos.fake.watching import is_own

# The first handler is over at once; the second one is retried, and can be held by the test.
MISSED = """
@kopf.on.create(*KEXES)
@kopf.on.resume(*KEXES)
@noted
def a(**_):
    pass

@kopf.on.create(*KEXES)
@kopf.on.resume(*KEXES)
@noted
def b(retry, **_):
    if not retry:
        raise kopf.TemporaryError("not yet", delay=0.1)

@kopf.on.update(*KEXES)
@noted
def u(**_):
    pass
"""


async def test_r1_changes_in_the_middle_of_creation_are_updates(world):
    world.api.create(spec={"x": 1})
    stop = world.notebook.stop_at(at("begin", "b"))
    async with world.operator(MISSED):
        await stop.reached()
        world.api.patch({"spec": {"x": 2}})
        stop.release()
        await world.until_handled()
        assert [note.spec for note in await world.notebook.until(at("end", "u"))] == [{"x": 2}]


async def test_r1_changes_in_the_middle_of_resuming_are_updates(world):
    world.api.create(spec={"x": 1})
    async with world.operator(MISSED) as process:
        await world.until_handled()
        await process.stop()
    stop = world.notebook.stop_at(at("begin", "b", reason="resume"))
    async with world.operator(MISSED):
        await stop.reached()
        world.api.patch({"spec": {"x": 2}})
        stop.release()
        assert [note.spec for note in await world.notebook.until(at("end", "u"))] == [{"x": 2}]
        await world.until_handled()


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
async def test_r1_changes_in_the_middle_of_interrupted_creation_are_updates(world, is_before):
    """The change comes either before the operator is killed, or while there is no operator."""
    world.api.create(spec={"x": 1})
    stop = world.notebook.stop_at(at("begin", "b"))
    async with world.operator(MISSED) as process:
        await stop.reached()
        if is_before:
            world.api.patch({"spec": {"x": 2}})
        await process.kill()
    if not is_before:
        world.api.patch({"spec": {"x": 2}})
    async with world.operator(MISSED):
        assert [note.spec for note in await world.notebook.until(at("end", "u"))] == [{"x": 2}]
        await world.until_handled()


STACKED = """
@kopf.on.create(*KEXES)
@kopf.on.update(*KEXES)
@noted
def f1(**_):
    pass

@kopf.on.create(*KEXES)
@kopf.on.update(*KEXES)
@noted
def f2(**_):
    pass
"""


@pytest.mark.parametrize("is_updating", [False, True], ids=["create", "update"])
async def test_r14_a_change_while_killed_in_the_middle_of_a_cycle_is_not_lost(world, is_updating):
    """Each handler must see the last state, also those that were over before the kill."""
    world.api.create(spec={"x": 0})
    if is_updating:
        async with world.operator(STACKED) as process:
            await world.until_handled()
            await process.stop()
        world.api.patch({"spec": {"x": 1}})
    stop = world.notebook.stop_at(at("begin", "f2"))
    async with world.operator(STACKED) as process:
        await stop.reached()
        await process.kill()
    world.api.patch({"spec": {"x": 2}})
    async with world.operator(STACKED):
        await world.until_handled()
        for id in ("f1", "f2"):
            await world.notebook.until(
                lambda note, id=id: at("end", id)(note) and note.spec == {"x": 2}
            )
        await world.until_handled()


RELISTED = """
@kopf.on.create(*KEXES)
@noted
def a(**_):
    pass

@kopf.on.create(*KEXES)
@noted
def b(**_):
    pass

@kopf.on.update(*KEXES)
@noted
def u(**_):
    pass
"""


async def test_r2_lists_older_than_our_own_patches_repeat_nothing(world):
    """The list is of before the patches, and these come with the stream only later."""
    async with world.operator(RELISTED):
        [stream] = await world.api.until_watched()
        created = int(world.api.create(spec={"x": 1})["metadata"]["resourceVersion"])
        await world.until_handled()
        held = world.api.hold(lambda change: change.key[2] == "one" and is_own(change))
        world.api.stale_lists(KEX, created)
        await stream.expire()
        await world.api.journal.until(where("list", "kexes"), count=2)
        world.api.create("two", spec={"x": 1})  # goes after the listed ones
        await world.until_handled("two")
        held.release()
        world.api.patch({"spec": {"x": 2}})
        await world.notebook.until(at("end", "u"))
        await world.until_handled()
    counts = [len(world.notebook.find(at("end", id, name="one"))) for id in "abu"]
    assert counts == [1, 1, 1]


SHARED = """
@kopf.on.update(*KEXES, id="x")
@noted
def updated(**_):
    pass

@kopf.on.update(*KEXES)
@noted
def other(**_):
    raise kopf.TemporaryError("not yet", delay=0.2)

@kopf.on.delete(*KEXES, id="x")
@noted
def deleted(**_):
    pass
"""


async def test_r9_shared_id_does_not_skip_deletion(world):
    world.api.create(spec={"x": 1})
    async with world.operator(SHARED):
        await world.api.until(lambda obj: obj["metadata"].get("finalizers"))
        await world.until_handled()
        world.api.patch({"spec": {"x": 2}})
        await world.notebook.until(at("end", "updated"))
        await world.notebook.until(at("end", "other"))
        world.api.delete()
        await world.api.until_gone()
    assert len(world.notebook.find(at("end", "deleted", outcome="success"))) == 1


REVERTED = """
@kopf.on.create(*KEXES)
@noted
def a(**_):
    pass
"""


async def test_r10_events_do_not_bypass_the_guard_of_lost_marks(world):
    """The second loss costs a second, whatever comes meanwhile."""
    world.api.create(spec={"x": 1})
    world.tolerated["O2"] = "it is what happens to objects whose marks are removed"
    async with world.operator(REVERTED) as process:
        await world.until_handled()
        lost = {"metadata": {"annotations": None}}
        world.api.patch(lost)
        await world.notebook.until(at("end", "a"), count=2)
        await world.until_handled()
        world.api.patch(lost)
        await process.until_logged("in 1.0 seconds")
        reverted = world.api.store.history[-1].time
        world.api.patch({"status": {"unrelated": "change"}})
        [*_, last] = await world.notebook.until(at("begin", "a"), count=3)
        await world.until_handled()
    assert last.at - reverted >= 0.9
