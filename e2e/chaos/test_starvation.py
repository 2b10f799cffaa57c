"""Objects that are changed by others all the time."""

from __future__ import annotations

import asyncio

from e2e.chaos.driver.notes import at
from e2e.chaos.fake.journal import where

STARVED = """
@kopf.on.create(*KEXES)
@noted
def a(**_):
    pass

@kopf.on.delete(*KEXES)
@noted
def d(**_):
    pass
"""


async def test_r17_finalizers_are_put_on_objects_that_never_rest(world):
    """Five changes a second by somebody else, and streams that lag."""
    world.api.lag(0.3)
    world.api.create(spec={"x": 1})
    async with world.operator(STARVED) as process:
        await world.api.until_watched()
        restless = asyncio.create_task(_keep_changing(world.api))
        try:
            await world.notebook.until(at("end", "a"))
            world.api.delete()
            await world.api.until_gone()
        finally:
            restless.cancel()
        assert process.code is None
    assert len(world.notebook.find(at("end", "d", outcome="success"))) == 1
    assert len(world.api.journal.find(where("patch", "kexes", text='"test"'))) < 30


async def _keep_changing(api):
    number = 0
    while api.find() is not None:
        number += 1
        api.patch({"status": {"foreign": number}})
        await asyncio.sleep(0.2)  # this is the load itself, nothing waits for it
