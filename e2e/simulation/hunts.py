"""Hunts: live until something is wrong; ``python -m e2e.simulation.hunts LIVES SECONDS``.

First come the scenarios, undisturbed and crashed at a few of their steps; then, random lives.
The last line is the number of the lives, and what was wrong in the last one of them, with its seed.
"""

from __future__ import annotations

import dataclasses
import random
import sys
import time
from collections.abc import Iterator

from e2e.simulation.lives import Life
from e2e.simulation.plans import Plan, make_plan
from e2e.simulation.sweeps import SCENARIOS

CRASHES = 2
"""At how many steps each scenario is crashed."""


def make_plans(base: str) -> Iterator[Plan]:
    chance = random.Random(base)
    for plan in SCENARIOS.values():
        yield plan
    for plan in SCENARIOS.values():
        for _ in range(CRASHES):
            yield dataclasses.replace(plan, crash_at=chance.randrange(50, 1000))
    for number in range(sys.maxsize):
        yield make_plan(f"{base}-{number}")


def hunt(lives: int, seconds: float, base: str) -> tuple[int, str]:
    """The number of lives that were needed, and the first sign; no sign if nothing is found."""
    until, count = time.monotonic() + seconds, 0
    for plan in make_plans(base):
        if count >= lives or time.monotonic() > until:
            break
        count += 1
        try:
            problems = Life(plan).run().problems
        except Exception as e:
            problems = [f"the life fails: {e!r}"]
        if problems:
            where = plan.seed if plan.crash_at is None else f"{plan.seed} at {plan.crash_at}"
            return count, f"{where}: {problems[0]}"
    return count, ""


if __name__ == "__main__":
    print(*hunt(int(sys.argv[1]), float(sys.argv[2]), base=(sys.argv[3:] or ["hunt"])[0]))
