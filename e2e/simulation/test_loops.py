"""A few lives of operators that loop; ``python -m e2e.simulation.loops`` lives many more."""

from __future__ import annotations

import pytest

from e2e.simulation.loops import MISTAKES, Life, find_first_delay


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("number", range(3))
def test_l3_loops_get_slower_and_hold_up_nobody_else(number, mistake):
    life = Life(f"tests-{number}", mistake)
    assert not life.run(), "\n".join(life.world.story)


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ([0.01] * 30, None),
        ([0.01] * 20 + [0.1] * 5, None),
        ([0.01] * 20 + [0.1, 2.2], None),
        ([0.01] * 20 + [0.1, 0.2, 0.4], 20),
        ([0.01] * 5 + [0.5] + [0.01] * 15 + [0.1, 0.2, 0.4], 21),
    ],
)
def test_l3_the_oracle_notices_loops_that_are_too_fast_or_too_slow(gaps, expected):
    times = [sum(gaps[:number]) for number in range(len(gaps) + 1)]
    assert find_first_delay(times) == expected
