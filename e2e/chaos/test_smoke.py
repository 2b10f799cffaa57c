"""Nothing is wrong here: the fake API and the driver are good enough for ordinary operators."""

from __future__ import annotations

import signal

from e2e.chaos.driver.notes import at
from e2e.chaos.fake.journal import where

OPERATOR = """
@kopf.on.create(*KEXES)
@noted
def a(**_):
    return "done"

@kopf.on.update(*KEXES)
@noted
async def u(**_):
    pass

@kopf.on.delete(*KEXES)
@noted
def d(**_):
    pass
"""


async def test_the_whole_life_of_an_object(world):
    world.api.create(spec={"x": 1})
    async with world.operator(OPERATOR) as process:
        await world.until_handled()
        world.api.patch({"spec": {"x": 2}})
        await world.until_handled()
        world.api.delete()
        await world.api.until_gone()
        assert await process.stop() == 0
    ends = world.notebook.find(at("end"))
    assert [(note.handler, note.spec["x"]) for note in ends] == [("a", 1), ("u", 2), ("d", 2)]
    assert world.api.journal.find(where("patch", "kexes", "one"))


async def test_killed_and_restarted(world):
    world.api.create(spec={"x": 1})
    async with world.operator(OPERATOR) as process:
        stop = world.notebook.stop_at(at("end", "a"))
        await stop.reached()
        await process.kill()
        assert process.code == -signal.SIGKILL
    async with world.operator(OPERATOR):
        await world.until_handled()
    assert len(world.notebook.find(at("end", "a", outcome="success"))) == 2
