"""The model of one object, with the smallest budgets; ``make model`` explores larger ones."""

from __future__ import annotations

import asyncio

import pytest

from e2e.simulation.identities import identify
from e2e.simulation.model import BOUND, Exploration
from e2e.simulation.worlds import Operator, World, apply, judge, list_happenings


@pytest.mark.parametrize(
    "budget",
    [{"edit": 1}, {"lost": 1, "delete": 1}, {"refused": 1}, {"fail": 1}, {"relist": 1}],
    ids=str,
)
def test_l_all_states_of_an_object_come_to_rest_with_nothing_lost_or_doubled(budget):
    exploration = Exploration(budget, limit=20_000)
    asyncio.run(exploration.run())
    assert exploration.is_complete
    stories = [(problems, exploration.tell(known)) for known, problems in exploration.problems]
    assert not stories
    assert len(exploration.states) > 20


def test_l_the_model_sees_what_is_lost():
    world = live(World({}), "deliver", "turn", "deliver", "turn", "deliver", "turn", "deliver")
    assert judge(world) == []
    world.seen["a"] = "something older"
    assert judge(world) == ["a has not seen 0"]


def test_l_the_model_sees_what_is_done_twice(monkeypatch):
    nothing = property(lambda _: set(), lambda *_: None)
    monkeypatch.setattr(World, "excuses", nothing, raising=False)
    exploration = Exploration({"crash": 1}, limit=20_000)
    asyncio.run(exploration.run())
    assert "a has succeeded twice for 0" in [
        text for _, found in exploration.problems for text in found
    ]


def test_l_the_model_sees_what_never_comes_to_rest(monkeypatch):
    async def turn(self, world, variant=""):
        pass

    monkeypatch.setattr(Operator, "turn", turn)
    exploration = Exploration({}, limit=20_000)
    asyncio.run(exploration.run())
    assert exploration.problems[0][1] == [f"it does not come to rest in {BOUND} steps"]


def test_l_worlds_do_not_share_what_can_change():
    async def explore():
        operator, line = Operator(), [World({"edit": 1, "lost": 1, "fail": 1})]
        for _ in range(300):
            world = line.pop()
            before = identify(world)
            for happening in list_happenings(world, operator):
                line.append(world.branch())
                await apply(line[-1], operator, happening)
            assert identify(world) == before

    asyncio.run(explore())


def test_l_names_of_versions_and_moments_mean_nothing():
    early, late = World({}), World({})
    late.time, late.version = 100.0, 7
    late.body["metadata"]["resourceVersion"] = "7"
    story = ["deliver", "turn", "deliver", "turn"]
    assert identify(live(early, *story)) == identify(live(late, *story))


def test_l_the_order_of_versions_matters():
    one = live(World({"edit": 1}), "deliver", "turn", "edit")
    other = one.branch()
    other.stream.reverse()
    assert identify(one) != identify(other)


def live(world, *story):
    async def apply_all():
        operator = Operator()
        for happening in story:
            await apply(world, operator, happening)

    asyncio.run(apply_all())
    return world
