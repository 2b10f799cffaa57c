"""Whatever has happened to the objects, nothing of that is left in the operator (O8)."""

from __future__ import annotations

from e2e.chaos.driver.generating import generate
from e2e.chaos.driver.notes import at
from e2e.chaos.driver.oracles import TOLERANCES
from e2e.chaos.fake.faults import lose_reply, refuse, reset
from e2e.chaos.fake.journal import where
from e2e.chaos.fake.kinds import KEX, VEX

COUNTED = """
from concurrent.futures import ThreadPoolExecutor

@kopf.on.startup()
async def limit(settings, **_):  # so that all threads are there from the beginning
    settings.execution.max_workers = 1
    settings.networking.error_backoffs = [0.01] * 10
    settings.queueing.error_delays = [0.01]
    settings.watching.reconnect_backoff = 0.01
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))

@kopf.on.create(*VEXES)
@kopf.on.update(*VEXES)
async def census(**_):
    counts = count()
    await asyncio.to_thread(note, "census", counts=counts)
"""

FAULTS = {
    "lost replies": (where("patch", "kexes"), lose_reply),
    "broken requests": (where("patch", "kexes"), reset),
    "refusals": (where("patch", "kexes"), refuse(503)),
    "conflicts": (where("patch", "kexes"), refuse(409)),
    "throttling": (where("patch", "kexes"), refuse(429, headers={"Retry-After": "0"})),
}

OBJECTS = 20
MAX_CENSUSES = 20
"""How many times to count until there is no more than before: some of it ends a bit later."""


async def test_o8_nothing_is_left_of_gone_objects(world, rng, rounds):
    world.tolerated["O2"] = "the objects of the same names are created again and again"
    code = COUNTED + generate(rng, "deleted", "daemon", "timer", "retried")
    async with world.operator(code, args=("--standalone", "-A", "--quiet")) as process:
        world.api.create("census", kind=VEX, spec={"x": 0})
        for _ in range(2):
            await live_and_die(world, rng)
        baseline = await take_census(world)
        world.censuses.append(baseline)
        for _ in range(1 + rounds):
            await live_and_die(world, rng)
        for _ in range(MAX_CENSUSES):
            last = await take_census(world)
            if all(last[what] <= baseline[what] + more for what, more in TOLERANCES.items()):
                break
        world.censuses.append(last)
        assert process.code is None


async def live_and_die(world, rng):
    """Objects come, change, and go; requests and streams break meanwhile."""
    names = [f"n{n}" for n in range(OBJECTS)]  # always the same: there are caches of URLs
    world.api.on(*FAULTS[rng.choice([*FAULTS])], times=3)
    for name in names:
        world.api.create(name, spec={"x": 1})
    await world.settle(*names)
    [stream] = await world.api.until_watched(KEX)
    await rng.choice([stream.expire, stream.end])()
    for name in names:
        world.api.patch({"spec": {"x": 2}}, name)
    await world.settle(*names)
    for name in names:
        world.api.delete(name)
    for name in names:
        await world.api.until_gone(name)


async def take_census(world):
    number = world.api.find("census", kind=VEX)["spec"]["x"] + 1
    known = len(world.notebook.find(at("census")))
    world.api.patch({"spec": {"x": number}}, "census", kind=VEX)
    [*_, note] = await world.notebook.until(at("census"), count=known + 1)
    await world.until_handled("census", kind=VEX)
    return note.counts
