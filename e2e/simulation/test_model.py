"""The model of one object, with the smallest budgets; ``make model`` explores larger ones."""

from __future__ import annotations

import asyncio

import pytest

from e2e.simulation.model import Exploration, Operator, World, apply, find_rest


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
    async def live():
        operator, world = Operator(), World({})
        for happening in ["deliver", "turn", "deliver", "turn"]:
            await apply(world, operator, happening)
        world.seen["a"] = "something older"
        return await find_rest(world, operator)

    assert "a has not seen 0" in asyncio.run(live())
