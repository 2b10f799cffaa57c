"""A model of one object: all that can happen to it, in all orders, within small budgets.

From every state, everything that can happen there is tried. States that are the same for the
operator are visited once.

This is checked:

* it ends: from each state, if nothing unusual happens, it comes to rest in a bounded number of
  steps;
* nothing is lost: at rest, the handlers have seen the newest state, and nothing of ours is left
  on the object but the last handled state; deleted objects are gone;
* nothing is done twice: a handler does not succeed twice for the same state, unless the process
  was killed, or its marks were removed, before that was recorded.

Usage: ``python -m e2e.simulation.model [--budget edit=2,crash=1,...] [--limit STATES]``.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from array import array

from e2e.simulation.identities import identify
from e2e.simulation.worlds import Operator, World, apply, find_calm, judge, list_happenings

BOUND = 60
"""In how many steps a state must come to rest when nothing unusual happens."""

BUDGET = {"edit": 2, "crash": 1, "lost": 1, "relist": 1}
"""How many times each of the unusual things happens in a life, at most.

There are some 200,000 states with this budget, and each further thing makes it several times more.
The others are ``delete``, ``refused``, and ``fail``.
"""

FINDINGS = 5
"""After how many findings the search stops."""

PERIOD = 5.0
"""How often (in seconds) the search tells how far it is."""

UNKNOWN, AT_REST = -1, -2
"""Instead of the number of the next state."""


class Exploration:
    """The search through all states, the deepest ones first.

    Calm steps are taken before unusual ones, so it is soon known where each state comes to rest.
    """

    def __init__(self, budget: dict[str, int], limit: int) -> None:
        self.budget, self.limit = budget, limit
        self.states: dict[bytes, int] = {}
        """The numbers of the states, by what identifies them."""

        self.steps = 0
        self.problems: list[tuple[int, list[str]]] = []
        self.is_complete = False
        self._origins = array("q")
        """From which state each of them was reached for the first time; and by what."""

        self._happenings: list[str] = []
        self._calm = array("q")
        """To which state each of them comes next if nothing unusual happens."""

        self._line: list[tuple[int, World]] = []
        self._progress = Progress()

    async def run(self) -> None:
        operator, first = Operator(), World(self.budget)
        self._add(first, UNKNOWN, "the object is created")
        while self._line and len(self.states) < self.limit and len(self.problems) < FINDINGS:
            await self._expand(operator, *self._line.pop())
            self._progress.tell(len(self.states), len(self._line), len(self.problems))
        self.is_complete = not self._line
        self.problems += self._find_restless()[:FINDINGS]

    async def _expand(self, operator: Operator, number: int, world: World) -> None:
        calm = find_calm(world, operator)
        if calm is None:
            self._calm[number] = AT_REST
            if found := judge(world):
                self.problems.append((number, found))
        happenings = [one for one in list_happenings(world, operator) if one != calm]
        for happening in [*happenings, *([] if calm is None else [calm])]:
            branch = world.branch()
            await apply(branch, operator, happening)
            self.steps += 1
            found, branch.problems = branch.problems, []
            reached = self._add(branch, number, happening)
            if happening == calm:
                self._calm[number] = reached
            if found:
                self.problems.append((reached, found))

    def _add(self, world: World, origin: int, happening: str) -> int:
        """Visit the state later, if it is a new one; get its number."""
        number = self.states.setdefault(identify(world), len(self._origins))
        if number == len(self._origins):
            self._origins.append(origin)
            self._happenings.append(happening)
            self._calm.append(UNKNOWN)
            self._line.append((number, world))
        return number

    def _find_restless(self) -> list[tuple[int, list[str]]]:
        """The states that do not come to rest, as far as this is known."""
        found = []
        for number in range(len(self._calm)):
            reached, steps = number, 0
            while reached >= 0 and steps <= BOUND:
                reached, steps = self._calm[reached], steps + 1
            if reached >= 0:
                found.append((number, [f"it does not come to rest in {BOUND} steps"]))
        return found

    def tell(self, number: int) -> list[str]:
        """What has led to the state, from the beginning."""
        story: list[str] = []
        while number != UNKNOWN:
            story.append(self._happenings[number])
            number = self._origins[number]
        return story[::-1]


class Progress:
    """Tells every few seconds how far the search is."""

    def __init__(self) -> None:
        self._began = self._told = time.monotonic()

    def tell(self, states: int, frontier: int, findings: int) -> None:
        if (now := time.monotonic()) - self._told >= PERIOD:
            self._told, spent = now, now - self._began
            counts = f"{states} states, {frontier} in the frontier, {findings} findings"
            print(f"{spent:.0f} s: {counts}, {states / spent:.0f} states/s", file=sys.stderr)


def parse_budget(text: str) -> dict[str, int]:
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name: int(count) for name, _, count in pairs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--budget", type=parse_budget, default=BUDGET)
    parser.add_argument("--limit", type=int, default=sys.maxsize)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    exploration = Exploration(args.budget, args.limit)
    asyncio.run(exploration.run())
    kind = "all" if exploration.is_complete else "the first"
    print(f"{len(exploration.states)} states ({kind}), {exploration.steps} steps.")
    for number, problems in exploration.problems:
        print(f"- {'; '.join(problems)}: {' > '.join(exploration.tell(number))}")
    return int(bool(exploration.problems))


if __name__ == "__main__":
    raise SystemExit(main())
