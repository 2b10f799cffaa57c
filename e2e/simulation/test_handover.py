"""The model of the hand-over of shards with the smallest budgets; ``make model`` explores more."""

from __future__ import annotations

import pytest

from e2e.simulation import handover
from e2e.simulation.handover import Exploration
from kopf_core.engines.sharding.assignments import Assignment, Shard


def explore(budget: dict[str, int], limit: int = 10_000) -> Exploration:
    exploration = Exploration(budget, limit, started="ab")
    exploration.run()
    return exploration


@pytest.mark.parametrize("budget", [{}, {"lost": 1}], ids=str)
def test_o_shards_never_have_two_owners_and_always_get_one(budget):
    exploration = explore(budget)
    assert exploration.is_complete
    stories = [(problems, exploration.tell(world)) for world, problems in exploration.problems]
    assert not stories
    assert len(exploration.origins) > 400


@pytest.mark.parametrize("budget", [{"crash": 1}, {"pause": 1}, {"cut": 1}], ids=str)
def test_o_the_nearest_states_after_faults_are_right_too(budget):
    exploration = explore(budget)
    stories = [(problems, exploration.tell(world)) for world, problems in exploration.problems]
    assert not stories
    assert len(exploration.origins) >= 10_000


def test_o_the_model_sees_that_a_shard_is_given_away_unconfirmed(monkeypatch):
    def hasty(assignment, members, *_):
        plan = handover.advance(assignment, members, {})
        return Assignment(tuple(Shard(one.heir or one.owner) for one in plan.shards), plan.round)

    monkeypatch.setattr(handover, "plan", hasty)
    _, problems = explore({}).problems[0]
    assert "work in" in problems[0]


def test_o_the_model_sees_that_a_member_is_buried_alive(monkeypatch):
    exploration = Exploration({}, 10_000, started="ab")
    mortal = property(lambda world: [one for one in world.replicas if one.member in world.members])
    monkeypatch.setattr(handover.World, "mortal", mortal)
    monkeypatch.setattr(Exploration, "find_orphans", lambda *_: [])
    exploration.run()
    _, problems = exploration.problems[0]
    assert "work in" in problems[0]


def test_o_the_model_sees_that_nobody_confirms(monkeypatch):
    monkeypatch.setattr(handover.World, "is_awaiting", lambda *_: False)
    _, problems = explore({}).problems[0]
    assert problems[0].startswith("these shards are worked in")
