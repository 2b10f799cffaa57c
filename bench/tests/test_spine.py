"""What is done for an object is bounded: it depends neither on the machine nor on its load."""

import asyncio
import io
import logging
import platform
import sys

import pytest
from bench.spine import KEPT, STORIES, Cost, Story, measure, steps, weigh

COUNT = 10

BOUNDS = {
    "start": Cost(calls=1, requests=0, tasks=1, records=1, parsed=0, copied=0, steps=0),
    "restart": Cost(calls=0, requests=0, tasks=1, records=0, parsed=1, copied=1, steps=0),
    "event": Cost(calls=1, requests=0, tasks=1, records=1, parsed=1, copied=0, steps=0),
    "hot": Cost(calls=1, requests=0, tasks=0.5, records=1, parsed=1, copied=0, steps=0),
    "create": Cost(calls=1, requests=1, tasks=1, records=2, parsed=2, copied=1, steps=0),
    "create-5": Cost(calls=5, requests=5, tasks=5, records=6, parsed=7, copied=1, steps=0),
    "update": Cost(calls=1, requests=1, tasks=1, records=2, parsed=3, copied=1, steps=0),
    "update-5": Cost(calls=5, requests=5, tasks=5, records=6, parsed=12, copied=1, steps=0),
    "delete": Cost(calls=1, requests=1, tasks=2, records=2, parsed=4, copied=3, steps=0),
    "status": Cost(calls=0, requests=0, tasks=1, records=0, parsed=1, copied=0, steps=0),
}

STEPS = {
    "start": 3_252,
    "restart": 6_023,
    "event": 3_519,
    "hot": 2_649,
    "create": 13_233,
    "create-5": 68_460,
    "update": 13_884,
    "update-5": 71_069,
    "delete": 19_583,
    "status": 2_332,
}
"""The instructions of Python's virtual machine for an object or event, by Python 3.11.

Other versions have other instructions. These do not depend on the machine, on its load, or on how
the interpreter was built.
"""

MARGIN = 1.03
IS_COUNTED = platform.python_implementation() == "CPython" and sys.version_info[:2] == (3, 11)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_m_no_more_is_done_for_an_object_than_it_needs(story: Story) -> None:
    cost, bound = asyncio.run(measure(story, COUNT)), BOUNDS[story.name]
    assert cost.calls == bound.calls
    exceeded = [name for name in Cost._fields if getattr(cost, name) > getattr(bound, name)]
    assert not exceeded, cost


@pytest.mark.skipif(not IS_COUNTED, reason="the figures are of CPython 3.11")
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_m_no_more_instructions_are_executed_for_an_object(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Those of pytest itself do more than those of operators.
    monkeypatch.setattr(logging.root, "handlers", [logging.StreamHandler(io.StringIO())])
    asyncio.run(measure(story, COUNT))  # what is done once is not counted
    cost = asyncio.run(measure(story, 50, steps))
    assert cost.steps <= STEPS[story.name] * MARGIN


def test_m_steps_are_counted_alike_each_time() -> None:
    [story] = [story for story in STORIES if story.name == "create"]
    costs = [asyncio.run(measure(story, COUNT, steps)) for _ in range(3)]
    _, first, second = costs  # in the first one, there is much of what is done once
    assert first.steps > 1000
    assert second.steps == pytest.approx(first.steps, rel=0.02)


def test_m_little_is_kept_of_an_object_with_nothing_to_be_done() -> None:
    pytest.importorskip("tracemalloc")  # not in PyPy
    assert asyncio.run(weigh(KEPT)) <= 377
