"""Subresources that are switched while objects are handled."""

from __future__ import annotations

import dataclasses

from e2e.chaos.driver.notes import at
from e2e.chaos.fake.faults import refuse
from e2e.chaos.fake.journal import where
from e2e.chaos.fake.kinds import KEX

RESULTS = """
@kopf.on.create(*KEXES)
@kopf.on.update(*KEXES)
@noted
def a(spec, **_):
    return spec["x"]
"""


async def test_b9_objects_wrongly_not_found_are_served_when_they_change(world):
    """E.g. by a server or a proxy that knows nothing of them yet."""
    world.api.create(spec={"x": 1})
    world.tolerated["O2"] = "the first time was lost, as the object was said to be absent"
    world.api.on(where("patch", "kexes"), refuse(404), times=1)
    async with world.operator(RESULTS):
        await world.notebook.until(at("end", "a"))
        await world.api.journal.until(where("patch", "kexes"))
        await world.api.until_watched()
        world.api.patch({"spec": {"x": 2}})
        await world.until_handled()


async def test_c20_b9_status_subresources_switched_off_are_no_absence(world):
    """The requests are refused with 404, though the object is there."""
    world.api.define(dataclasses.replace(KEX, has_status=True))
    async with world.operator(RESULTS):
        await world.api.until_watched()
        stop = world.notebook.stop_at(at("begin", "a"))
        world.api.create(spec={"x": 1})
        await stop.reached()
        world.api.define(KEX)
        stop.release()
        await world.until_handled()
