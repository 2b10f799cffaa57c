"""The modes of an operator: they follow from the reasons that hold now."""

import asyncio
import itertools

import pytest

from kopf_cogs.configs.settings import OperatorSettings
from kopf_core.actions.threads import Door
from kopf_core.reactor.life.governing import Governor
from kopf_core.reactor.streams.modes import MEANINGS, Mode


class Parts:
    """Stand for the orchestrator and the background, and remember what they were brought to."""

    def __init__(self):
        self.journal = []
        self.suspended = {"uid": ("resource", {"metadata": {}})}
        self.enqueued = []
        self.work = asyncio.Event()

    def reach(self, *args, **kwargs):
        self.journal.append((*args, *kwargs.values()))

    def take_suspended(self):
        suspended, self.suspended = self.suspended, {}
        return suspended

    def enqueue(self, key, reason, *, resource, body):
        self.enqueued.append((key, reason))

    def cancel(self):
        self.journal.append(("cancel",))

    async def settle(self):
        await self.work.wait()

    async def end_instantly(self):
        pass


@pytest.fixture
async def parts():
    return Parts()


@pytest.fixture
def door():
    return Door()


@pytest.fixture
def governor(parts, door):
    return Governor(parts, parts, settings=OperatorSettings(), door=door)


def modes_of(parts):
    return [args[0] for args in parts.journal if isinstance(args[0], Mode)]


async def test_l_the_strictest_reason_wins(governor, parts):
    governor.demand("a", Mode.GATED)
    governor.demand("b", Mode.COLD)
    governor.demand("c", Mode.GATED)
    governor.lift("b")
    governor.lift("a")
    governor.lift("unknown")
    assert governor.is_paused
    governor.lift("c")
    assert not governor.is_paused
    assert modes_of(parts) == [Mode.GATED, Mode.COLD, Mode.GATED, Mode.RUNNING]


async def test_l_nothing_is_repeated_for_the_same_mode(governor, parts):
    for _ in range(3):
        governor.demand("a", Mode.GATED)
    assert modes_of(parts) == [Mode.GATED]


async def test_l_the_end_is_never_over(governor, parts):
    governor.end()
    governor.demand("a", Mode.CUT)
    governor.lift("a")
    governor.lift("b")
    assert modes_of(parts) == [Mode.ENDED]
    assert not governor.is_paused


async def test_shard7_running_work_is_interrupted_also_in_the_exit(governor, parts, door):
    governor.end()
    assert ("cancel",) not in parts.journal
    governor.demand("lease", Mode.CUT)
    assert ("cancel",) in parts.journal
    assert door.is_shut


async def test_l_objects_of_others_are_left_at_once(governor, parts, door):
    task = governor.demand("lease", Mode.CUT)
    assert door.is_shut
    assert not task.done()
    governor.demand("lease", Mode.GATED)
    assert door.is_shut  # until they are ours again
    governor.lift("lease")
    assert not door.is_shut


async def test_l_the_door_is_open_for_what_works_until_it_ends(governor, parts, door):
    task = governor.demand("a", Mode.GATED)
    await asyncio.sleep(0)
    assert not door.is_shut
    parts.work.set()
    await governor.settle(task)
    assert door.is_shut


async def test_k6_a_pause_that_is_over_changes_nothing_later(governor, parts, door):
    task = governor.demand("a", Mode.GATED)
    governor.lift("a")
    parts.work.set()
    await governor.settle(task)
    assert not door.is_shut
    assert task.cancelled()


async def test_l_a_pause_that_is_over_amid_the_exit_does_not_stop_the_last_patches(
    governor, parts, door
):
    """Otherwise, the results of running handlers are lost, and the next process repeats them."""
    task = governor.demand("a", Mode.GATED)
    governor.end()
    governor.lift("a")
    parts.work.set()
    await governor.settle(task)
    assert door.is_open


@pytest.mark.parametrize(
    ("mode", "enqueued"),
    [(Mode.GATED, [("uid", "resumed")]), (Mode.COLD, []), (Mode.CUT, [])],
)
async def test_k2_only_objects_that_are_not_listed_anew_are_noticed(
    governor, parts, mode, enqueued
):
    governor.demand("a", mode)
    governor.demand("a", Mode.GATED)
    governor.lift("a")
    assert parts.enqueued == enqueued


async def test_l_any_order_of_reasons_ends_in_the_same_mode(parts):
    demands = [("a", Mode.GATED), ("b", Mode.COLD), ("c", Mode.CUT)]
    for order in itertools.permutations(demands):
        governor = Governor(parts, parts, settings=OperatorSettings(), door=Door())
        for reason, mode in order:
            governor.demand(reason, mode)
        assert modes_of(parts)[-1] is Mode.CUT


def test_l_every_mode_has_a_meaning_and_stricter_modes_do_less():
    assert MEANINGS.keys() == {*Mode}
    assert MEANINGS[Mode.RUNNING].is_watching
    assert not MEANINGS[Mode.COLD].is_watching
    assert Mode.RUNNING < Mode.GATED < Mode.COLD < Mode.CUT < Mode.ENDED
