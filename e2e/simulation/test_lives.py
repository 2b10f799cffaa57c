"""A few lives, always the same; ``make explore`` lives many more, and others each time."""

from __future__ import annotations

import dataclasses
import random
from functools import partial

import pytest

from e2e.chaos.fake.server import FakeAPI
from e2e.chaos.fake.store import Change
from e2e.simulation import clusters, lives
from e2e.simulation.clusters import Restore
from e2e.simulation.explore import show
from e2e.simulation.lives import Life
from e2e.simulation.oracles import TOUCHED, Evidence
from e2e.simulation.plans import Event, make_plan
from e2e.simulation.sweeps import SCENARIOS
from kopf_core.reactor.life.governing import Governor
from kopf_core.reactor.streams.work import WorkItem


@pytest.fixture(scope="module", autouse=True)
def _warm_up():
    """The first life of a process differs: caches are filled in it."""
    Life(make_plan("warm-up")).run()


BASE = "tests"


@pytest.mark.parametrize("number", range(20))
def test_random_lives_end_well(number):
    result = Life(make_plan(f"{BASE}-{number}")).run()
    assert not result.problems, show(result)
    assert result.steps > 100
    assert result.requests


@pytest.mark.parametrize("seed", ["same-1", "same-2", "same-3"])
def test_lives_are_the_same_by_their_seeds(seed):
    first, second = (Life(make_plan(seed)).run() for _ in range(2))
    assert first.requests == second.requests
    assert first.story == second.story


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios_end_well_undisturbed_and_crashed_once(name):
    plan = SCENARIOS[name]
    undisturbed = Life(plan).run()
    assert not undisturbed.problems, show(undisturbed)
    step = random.Random(name).randrange(1, undisturbed.sweep)
    crashed = Life(dataclasses.replace(plan, crash_at=step)).run()
    assert crashed.crashes == 1
    assert not crashed.problems, show(crashed)


@pytest.mark.parametrize("name", ["create", "update", "exit"])
def test_sweeps_go_on_until_the_last_changes_are_handled(name):
    plan = SCENARIOS[name]
    life = Life(dataclasses.replace(plan, crash_at=Life(plan).run().sweep))
    life.run()
    assert life.kills == 1
    crashed = life.runs[0][-2].incarnation.name
    assert any(note.run == crashed and note.x >= TOUCHED for note in life.notebook.notes)


@pytest.mark.parametrize("seed", ["a1-33", "a1-210", "a1-661", "a1-699", "a1-1007", "a1-1052"])
def test_oracles_expect_nothing_impossible(seed):
    """Crashes in the settled world, exits amid faults, backups that bring back the past."""
    result = Life(make_plan(seed)).run()
    assert not result.problems, show(result)


def test_pauses_end_though_their_process_is_suspended_and_shuffled():
    faults = (Event(1.0, "suspend", "0", 1, 3.0), Event(1.1, "pause", "0", 1, 0.01))
    for number in range(10):
        plan = dataclasses.replace(
            SCENARIOS["create"], seed=f"swap-{number}", faults=faults, shuffled=True
        )
        result = Life(plan).run()
        assert not result.problems, show(result)


def test_k6_doors_that_are_shut_after_their_pause_are_seen(monkeypatch):
    monkeypatch.setattr(Governor, "_shut", lambda self: setattr(self._door, "is_shut", True))
    problems = Life(SCENARIOS["pause-exit"]).run().problems
    assert problems == ["O2: plodder has succeeded 2 times for the create of obj0 "]


def test_k14_writes_in_pauses_are_seen(monkeypatch):
    monkeypatch.setattr(Governor, "_shut", lambda self: None)
    problems = Life(SCENARIOS["pause-thread"]).run().problems
    assert [problem[:10] for problem in problems] == ["O15: PATCH"]


def test_sim25_suspended_operators_cannot_know_of_pauses():
    """A patch is on its way when the process is suspended, and the pause begins then."""
    faults = Event(0.6, "suspend", "0", 1, 4.0), Event(0.63, "pause", "0", 1, 8.0)
    life = Life(dataclasses.replace(SCENARIOS["exit-patch"], faults=faults))
    assert not life.run().problems
    assert [one for one in life.cluster.requests if one.method == "PATCH" and 4 < one.time < 6]


@pytest.fixture
def evidence(monkeypatch):
    """The evidence of a life, with one object and one note about it."""
    kept: list[Evidence] = []
    monkeypatch.setattr(lives, "judge", lambda evidence, *_: kept.append(evidence) or [])
    life = Life(SCENARIOS["exit-patch"])
    life.run()
    note = next(note for note in life.notebook.notes if note.reason == "create")
    note = dataclasses.replace(note, at=20.0, version="7")
    obj = {"metadata": {"name": note.name, "uid": note.uid}, "spec": {"x": 0}}
    return dataclasses.replace(kept[0], objects=[obj], notes=[note])


@pytest.mark.parametrize(("at", "is_shown"), [(5.0, False), (15.0, True)])
def test_sim26_the_first_list_of_a_process_is_never_from_the_past(monkeypatch, at, is_shown):
    """Such a process would undo the steps of the previous one, and cannot know that."""
    versions = []
    monkeypatch.setattr(FakeAPI, "stale_lists", lambda *args: versions.append(args[-1]))
    faults = (Event(at, "stale-lists", "0", 1, 2.0), Event(at + 1, "restart"))
    life = Life(dataclasses.replace(SCENARIOS["update"], cluster="fake", faults=faults))
    assert not life.run().problems
    assert [version is None for version in versions] == [
        True,  # the first process starts
        *([False] if is_shown else []),
        True,  # the next process starts
        *([True] if is_shown else []),  # the fault ends
        True,  # all faults end
    ]


@pytest.mark.parametrize(("time", "judged"), [(21.0, 0), (30.0, 1)])
def test_sim28_a_backup_can_lose_one_request_of_a_patch(evidence, time, judged):
    restore = Restore(time=time, version=8, last=9)
    assert len([*dataclasses.replace(evidence, restores=[restore]).settled]) == judged


def test_k15_patches_that_are_cut_to_be_sent_again_are_seen(monkeypatch):
    monkeypatch.setattr(WorkItem, "is_sending", property(lambda _: False, lambda *_: None))
    problems = Life(SCENARIOS["exit-patch"]).run().problems
    assert problems == ["O16: a patch of obj0 was cut on its way"]


def test_sim32_held_changes_hold_all_later_ones():
    held = clusters._Backlog()
    change = partial(Change, type="MODIFIED", object={}, time=0.0)
    earlier = change(1, key=("kexes", "ns", "a"), author="test")
    own = change(2, key=("kexes", "ns", "a"), author="client")
    later = change(3, key=("kexes", "ns", "b"), author="test")
    assert [held(one) for one in (earlier, own, later, earlier)] == [False, True, True, False]
