"""Kills and exits at every point, and at random: the end is as if nothing has happened."""

from __future__ import annotations

import asyncio
import signal

import pytest

from e2e.chaos.driver.marks import has_finalizer, strip
from e2e.chaos.driver.notes import at
from e2e.chaos.fake.faults import Gate
from e2e.chaos.fake.journal import where

MAX_POINTS = 40
MIN_POINTS = 3

# Handlers with sub-handlers are called many times by design, so only those at the ends are noted.
NESTED = """
def make_leaf(id):
    def leaf(**_):
        return id
    leaf.__name__ = id
    return noted(leaf)

def make_handler(id):
    @kopf.on.create(*KEXES, id=id)
    @kopf.on.update(*KEXES, id=id)
    def parent(**_):
        for sub in "xy":
            kopf.subhandler(id=sub)(make_leaf(id + sub))

    kopf.on.delete(*KEXES, id=id)(make_leaf(id))

for id in "abc":
    make_handler(id)
"""
LEAVES = [id + sub for id in "abc" for sub in "xy"]


class Phase:
    """What is done to an object, and when it is over."""

    def __init__(self, world, phase):
        self.world = world
        self.phase = phase
        self.handlers = [*"abc"] if phase == "delete" else LEAVES

    async def prepare(self, name):
        """Bring the object to where the phase begins."""
        if self.phase != "create":
            self.world.api.create(name, spec={"x": 1})
            await self.world.until_handled(name, has_finalizer)

    def begin(self, name):
        match self.phase:
            case "create":
                self.world.api.create(name, spec={"x": 1})
            case "update":
                self.world.api.patch({"spec": {"x": 2}}, name)
            case "delete":
                self.world.api.delete(name)

    async def end(self, name):
        if self.phase == "delete":
            await self.world.api.until_gone(name)
        else:
            spec = {"x": 1 if self.phase == "create" else 2}
            await self.world.until_handled(name, lambda obj: obj["spec"] == spec)

    def judge(self, name):
        """All handlers have succeeded, none of them more than twice, and one at most was twice."""
        counts = {
            id: len(
                self.world.notebook.find(
                    at("end", id, name=name, reason=self.phase, outcome="success")
                )
            )
            for id in self.handlers
        }
        assert {*counts.values()} <= {1, 2}, f"{name}: {counts}"
        assert sum(counts.values()) <= len(counts) + 1, f"{name}: {counts}"
        obj = self.world.api.find(name)
        return (
            None
            if obj is None
            else {**strip(obj), "metadata": {**strip(obj)["metadata"], "name": 0}}
        )


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("name", "is_committed"),
    [
        pytest.param("create", False, id="create-before", marks=LONG),
        pytest.param("create", True, id="create-after"),
        pytest.param("update", False, id="update-before", marks=LONG),
        pytest.param("update", True, id="update-after", marks=LONG),
        pytest.param("delete", False, id="delete-before", marks=LONG),
        pytest.param("delete", True, id="delete-after"),
    ],
)
async def test_c1_killed_at_every_request(world, name, is_committed):
    """Each operator finishes what was interrupted, and is killed one request later."""
    phase = Phase(world, name)
    ends = []
    for number in range(MAX_POINTS):
        is_over = await _run_to(phase, number, is_committed=is_committed)
        if number:
            ends.append(phase.judge(f"n{number - 1}"))
        if is_over:
            break
    else:
        raise AssertionError("too many requests")
    undisturbed = phase.judge(f"n{number}")
    assert number >= MIN_POINTS  # it has been killed for sure, and at different moments
    assert ends == [undisturbed] * number


async def _run_to(phase, number, *, is_committed):
    """Run until the request with the number; get whether the phase was over without it."""
    world, name = phase.world, f"n{number}"
    async with world.operator(NESTED) as process:
        if number:
            await phase.end(f"n{number - 1}")
        await world.api.until_watched()
        await phase.prepare(name)
        gate = Gate(commit_first=is_committed)
        skipped = iter(range(number))
        is_ours = where("patch", "kexes", name)
        world.api.on(lambda entry: is_ours(entry) and next(skipped, None) is None, gate, times=1)
        phase.begin(name)
        tasks = [asyncio.create_task(coro) for coro in (gate.reached(), phase.end(name))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        world.api.clear_hooks()
        if gate.held is not None:
            await process.kill()
    return gate.held is None


LOADED = """
@kopf.on.create(*KEXES)
@kopf.on.update(*KEXES)
@noted
def a(**_):
    pass

@kopf.on.create(*KEXES)
@kopf.on.update(*KEXES)
@noted
async def b(**_):
    await asyncio.sleep(0.01)
"""


async def test_f1_sigterm_at_random_moments_under_load(world, rng, rounds):
    """Each patch of the operator is followed by a change of a random object."""
    names = [f"n{n}" for n in range(10)]
    for n, name in enumerate(names):
        world.api.create(name, spec={"x": n})
    numbers = iter(range(1000, 10**9))

    async def serve_and_change(exchange):
        await exchange.serve()
        world.api.patch({"spec": {"x": next(numbers)}}, rng.choice(names))

    load = world.api.on(where("patch", "kexes"), serve_and_change)
    for _ in range(12 * rounds):
        async with world.operator(LOADED) as process:
            since = len(world.api.journal.entries)
            kind = rng.choice(["patch", "watch", "list"])
            count = rng.randrange(1, 60) if kind == "patch" else 1
            await world.api.journal.until(where(kind, "kexes"), count=count, since=since)
            assert await process.stop() == 0
    load.stop()
    async with world.operator(LOADED):
        await world.settle(*names)
    for name in names:
        for id in "ab":
            spec = world.api.find(name)["spec"]
            seen = world.notebook.find(at("end", id, name=name, outcome="success"))
            assert seen[-1].spec == spec


@pytest.mark.parametrize("lag", [0.1, 1.0, pytest.param(7.0, marks=LONG)])
async def test_c2_own_changes_come_late_and_foreign_ones_between_them(world, lag):
    """Each handler is called once, whatever old states are shown meanwhile."""

    async def change_and_serve(exchange):
        world.api.patch({"status": {"foreign": exchange.entry.number}}, exchange.entry.target.name)
        await exchange.serve()
        world.api.patch({"metadata": {"labels": {"a": "b"}}}, exchange.entry.target.name)

    async with world.operator(LOADED) as process:
        await world.api.until_watched()
        world.api.lag(lag)
        world.api.on(where("patch", "kexes", "one"), change_and_serve, times=4)
        world.api.create(spec={"x": 1})
        await world.until_handled()
        for id in "ab":
            await world.notebook.until(
                lambda note, id=id: at("end", id)(note) and note.spec == {"x": 1}
            )
        world.api.patch({"spec": {"x": 2}})
        await world.until_handled()
        assert process.code is None
    for id in "ab":
        created = world.notebook.find(at("end", id, reason="create", outcome="success"))
        assert len(created) == 1


async def test_f11_stopped_for_long_and_continued(world):
    """Its streams are gone and the history is forgotten when it is back."""
    world.api.create(spec={"x": 1})
    async with world.operator(LOADED) as process:
        await world.until_handled()
        process.send(signal.SIGSTOP)
        for stream in [*world.api.streams]:
            stream.reset()
        world.api.patch({"spec": {"x": 2}})
        world.api.create("two", spec={"x": 1})
        world.api.store.compacted = world.api.store.version
        process.send(signal.SIGCONT)
        await world.until_handled("one")
        await world.until_handled("two")


@pytest.mark.parametrize("was_created", [False, True], ids=["created", "deleted"])
async def test_c4_restored_backups_do_not_break_the_operator(world, was_created):
    """Versions go back; the operator sees what there is, and serves it further."""
    world.api.create("other", spec={"x": 1})
    async with world.operator(LOADED):
        await world.until_handled("other")
        if was_created:
            version = world.api.store.version
            world.api.create(spec={"x": 1})
            await world.until_handled()
        else:
            world.api.create(spec={"x": 1})
            await world.until_handled()
            version = world.api.store.version
            world.api.delete()
            await world.api.until_gone()
        world.api.travel(version)
        await world.api.until_watched()
        world.api.create("new", spec={"x": 1})
        await world.until_handled("new")
        world.api.patch({"spec": {"x": 5}}, "other")
        await world.until_handled("other")
