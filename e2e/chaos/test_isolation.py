"""Poisoned objects and kinds do not delay the healthy ones, nor all of them together (O5)."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys

import pytest

from e2e.chaos.driver.generating import generate
from e2e.chaos.driver.notes import at
from e2e.chaos.fake.faults import alter, black_hole, refuse
from e2e.chaos.fake.journal import where
from e2e.chaos.fake.kinds import KEX, VEX

PEX = dataclasses.replace(KEX, plural="pexes", kind="Pex")
"""The poisoned kind."""

FILE, ARGS = "peaceful.py", ("--standalone", "-A", "--quiet")
HEALTHY = [f"n{n}" for n in range(10)]
PEACEFUL = [f"p{n}" for n in range(10)]

POISON = """
@kopf.on.create("chaos.kopf.dev", "v1", "pexes")
def of_poisoned_kind(**_):
    pass

def choose(name, **_):
    if name == "bad-filter":
        raise ValueError("a bad filter")
    return True

@kopf.on.create(*KEXES, when=choose)
def filtered(**_):
    pass

@kopf.on.event(*KEXES)
@kopf.on.create(*KEXES)
async def bad(name, **_):
    if name == "bad-hanging":
        await asyncio.Event().wait()
    if name == "bad-raising":
        raise Exception("x" * 100_000)
    if name == "bad-cancelled":
        raise asyncio.CancelledError("out of nowhere")

@kopf.on.create(*KEXES)
def bad_sync(name, **_):
    if name == "bad-thread":
        threading.Event().wait()
"""

POISONS = {
    "filter": {},
    "hanging": {},
    "raising": {},
    "cancelled": {},
    "thread": {},
    "refused": {},
    "lost": {},
    "huge": {"data": "x" * 2_000_000},
    "deep": {"data": functools.reduce(lambda data, _: {"x": data}, range(700), {})},
}
NOT_OBJECT = {"type": "ADDED", "object": {"metadata": {"name": {}, "annotations": {"a": 1}}}}


@pytest.fixture
def unlimited_depth():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("unlimited_depth")
async def test_o5_healthy_objects_are_not_delayed_by_poison(world, rng, rounds):
    world.tolerated["O1"] = "poisoned objects cannot be handled"
    world.tolerated["O2"] = "the failing ones are repeated"
    world.tolerated["O6"] = "these errors are users', and are shown with their tracebacks"
    code = generate(rng)
    prepare(world)
    async with (
        world.operator(code + POISON, args=ARGS) as process,
        world.operator(code.replace("KEXES", "VEXES"), args=ARGS, file=FILE) as peaceful,
    ):
        [stream] = await world.api.until_watched(KEX)
        await world.api.until_watched(VEX)
        await stream.send_raw(json.dumps(NOT_OBJECT).encode() + b"\n")
        for name, fields in POISONS.items():
            world.api.create(f"bad-{name}", spec={"x": 1}, **fields)
        for number in range(1, 4 + rounds):
            await change_all(world, number)
        for kind in (KEX, VEX, PEX):
            await world.api.until_watched(kind)
        await process.kill()
        await peaceful.kill()
    world.delays = world.measure_delays("first", HEALTHY)
    world.peaceful_delays = world.measure_delays("first", PEACEFUL)


def prepare(world):
    """The requests that never work."""
    world.api.define(PEX)
    world.api.on(where("list", "pexes"), alter(lambda reply: {**reply, "items": [None, "abc", {}]}))
    world.api.on(where("patch", "kexes", "bad-refused"), refuse(422))
    world.api.on(where("patch", "kexes", "bad-lost"), black_hole)


async def change_all(world, number):
    """Create or change the objects of both operators in turns, and wait until all are handled."""
    for names in zip(HEALTHY, PEACEFUL, strict=True):
        for name, kind in zip(names, (KEX, VEX), strict=True):
            if world.api.find(name, kind=kind) is None:
                world.api.create(name, kind=kind, spec={"x": number})
            else:
                world.api.patch({"spec": {"x": number}}, name, kind=kind)
    for name in [*HEALTHY, *PEACEFUL]:
        await world.notebook.until(
            lambda note, name=name: at("end", "first", name=name)(note) and note.spec["x"] == number
        )
