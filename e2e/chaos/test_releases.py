"""What remains to be done when all deletion handlers are over."""

from __future__ import annotations

import asyncio

from e2e.chaos.driver.marks import has_finalizer
from e2e.chaos.driver.notes import at
from e2e.chaos.fake.faults import Gate
from e2e.chaos.fake.journal import where
from e2e.chaos.fake.watching import is_own

REPEATED = """
@kopf.on.delete(*KEXES)
@noted
def d1(**_):
    pass

@kopf.on.delete(*KEXES)
@noted
def d2(**_):
    pass
"""


async def test_r24_a_kill_before_the_release_repeats_no_deletion_handlers(world):
    """At each request from the record of the last handler to the end of the object."""
    for number in range(4):
        if not await _kill_after_deletion(world, f"n{number}", number):
            break
    else:
        raise AssertionError("too many requests to release an object")
    for n in range(number + 1):
        counts = [len(world.notebook.find(at("end", id, name=f"n{n}"))) for id in ("d1", "d2")]
        assert counts == [1, 1], f"request {n}"


async def test_c4_restored_backups_do_not_hold_what_was_released(world):
    """The finalizer is back, and nobody will ever tell that the object was gone."""
    world.api.create(spec={"x": 1})
    over = world.notebook.stop_at(at("end", "d2"))
    async with world.operator(REPEATED):
        await world.api.until(has_finalizer)
        await world.api.until_watched()
        world.api.delete()
        await over.reached()
        version = world.api.store.version
        world.api.create("other", spec={"x": 1})
        await world.api.until(has_finalizer, "other")
        hold = world.api.hold(is_own)
        over.release()
        await world.api.until_gone()
        world.api.travel(version)
        hold.release()
        assert world.api.find() is not None
        await world.api.until_gone()
    assert len(world.notebook.find(at("end", "d1"))) == 1


async def _kill_after_deletion(world, name, skipped):
    """Kill the operator when the request is executed; get whether there was such a request."""
    world.api.create(name, spec={"x": 1})
    over = world.notebook.stop_at(at("end", "d2", name=name))
    async with world.operator(REPEATED) as process:
        await world.api.until(has_finalizer, name)
        await world.api.until_watched()
        world.api.delete(name)
        await over.reached()
        gate = Gate(commit_first=True)
        since = len(world.api.journal.entries)
        is_ours = where("patch", "kexes", name)
        world.api.on(
            lambda entry: (
                is_ours(entry) and len(world.api.journal.find(is_ours, since=since)) == skipped + 1
            ),
            gate,
            times=1,
        )
        over.release()
        held = asyncio.create_task(gate.reached())
        gone = asyncio.create_task(world.api.until_gone(name))
        await asyncio.wait({held, gone}, return_when=asyncio.FIRST_COMPLETED)
        is_held = gate.held is not None
        for task in (held, gone):
            task.cancel()
        if is_held:
            await process.kill()
    if is_held:
        async with world.operator(REPEATED):
            await world.api.until_gone(name)
    return is_held
