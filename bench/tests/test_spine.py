"""What is done for an object is bounded: it depends neither on the machine nor on its load."""

import asyncio

import pytest
from bench.spine import KEPT, STORIES, Cost, Story, measure, weigh

COUNT = 10

BOUNDS = {
    "start": Cost(calls=1, requests=0, tasks=1, records=1, parsed=0, copied=0, steps=0),
    "event": Cost(calls=1, requests=0, tasks=1, records=1, parsed=1, copied=0, steps=0),
    "hot": Cost(calls=1, requests=0, tasks=0.5, records=1, parsed=1, copied=0, steps=0),
    "create": Cost(calls=1, requests=1, tasks=1, records=2, parsed=2, copied=1, steps=0),
    "create-5": Cost(calls=5, requests=5, tasks=5, records=6, parsed=7, copied=1, steps=0),
    "update": Cost(calls=1, requests=1, tasks=1, records=2, parsed=3, copied=1, steps=0),
    "update-5": Cost(calls=5, requests=5, tasks=5, records=6, parsed=12, copied=1, steps=0),
    "delete": Cost(calls=1, requests=1, tasks=2, records=2, parsed=4, copied=3, steps=0),
    "status": Cost(calls=0, requests=0, tasks=1, records=0, parsed=1, copied=0, steps=0),
}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_m_no_more_is_done_for_an_object_than_it_needs(story: Story) -> None:
    cost, bound = asyncio.run(measure(story, COUNT)), BOUNDS[story.name]
    assert cost.calls == bound.calls
    exceeded = [name for name in Cost._fields if getattr(cost, name) > getattr(bound, name)]
    assert not exceeded, cost


def test_m_steps_are_counted_alike_each_time() -> None:
    [story] = [story for story in STORIES if story.name == "create"]
    costs = [asyncio.run(measure(story, COUNT, is_stepwise=True)) for _ in range(3)]
    _, first, second = costs  # in the first one, there is much of what is done once
    assert first.steps > 1000
    assert second.steps == pytest.approx(first.steps, rel=0.02)


def test_m_little_is_kept_of_an_object_with_nothing_to_be_done() -> None:
    pytest.importorskip("tracemalloc")  # not in PyPy
    assert asyncio.run(weigh(KEPT)) <= 377
