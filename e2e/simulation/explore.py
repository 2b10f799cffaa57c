"""Explore many lives: ``python -m e2e.simulation.explore --lives 1000`` or ``--seconds 600``."""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from e2e.simulation.clusters import CLUSTERS
from e2e.simulation.lives import Life, Result
from e2e.simulation.plans import ACTIONS, CONSTANTS, FAKED, FAULTS, Plan, make_plan
from kopf_core.reactor.object.deciding import ROWS

REPLAYED = 100
"""One of so many lives is lived again in a fresh process, and must make the same requests."""

BATCH = 10
"""How many of them one fresh process lives: its start costs as much as ten lives."""

TOLD = 1000
"""After how many lives to print the progress each time."""

ENOUGH = 300
"""How many lives are enough to judge them as a whole."""

FLOORS = {"steps": 500, "requests": 40, "faults": 1}
"""How much there must be in a life, on average: poor lives find nothing."""

REACHED = {"rows of the table": 19, "states of objects": 120}
"""How many different ones are to be reached by so many lives together; the rest is rare."""

CRASHED = 0.05
"""The least share of lives in which an operator crashes."""

PARTS = ("faults", "actions", "objects", "features")


def explore(seeds: Iterator[str], processes: int, cluster: str | None) -> Iterator[Result]:
    """Live the lives, on several cores."""
    live = partial(live_by_seed, cluster=cluster)
    with multiprocessing.get_context("fork").Pool(processes, initializer=prepare) as pool:
        yield from pool.imap_unordered(live, seeds, chunksize=10)


def prepare() -> None:
    Life(make_plan("warm-up")).run()
    gc.collect()
    gc.freeze()


def live_by_seed(seed: str, cluster: str | None = None) -> Result:
    plan = make_plan(seed, cluster)
    try:
        result = Life(plan).run()
    except Exception as e:  # it is to be repaired, too; but it must not end the exploration
        result = Result(plan, problems=[f"O0: the life itself fails: {e!r}"])
    if not result.problems:
        result.story = []
    return result


def shrink(plan: Plan, kinds: set[str]) -> Result:
    """Take away everything without which the life still fails in the same way."""
    result = Life(plan).run()
    calmer = {"crash_at": None, "shuffled": False, "inline": True, "constants": {}, "replicas": 1}
    for name, value in calmer.items():
        attempt = Life(dataclasses.replace(result.plan, **{name: value})).run()
        result = attempt if _is_like(attempt, kinds) else result
    for part in PARTS:
        for index in reversed(range(len(getattr(result.plan, part)))):
            attempt = Life(result.plan.without(part, index)).run()
            result = attempt if _is_like(attempt, kinds) else result
    return result


def _is_like(result: Result, kinds: set[str]) -> bool:
    return bool({problem.partition(":")[0] for problem in result.problems} & kinds)


def show(result: Result) -> str:
    return "\n".join(
        [f"--- seed {result.plan.seed}", str(result.plan), *result.story, *result.problems]
    )


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of strings have the order of their hashes
        command = [sys.executable, "-m", "e2e.simulation.explore", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=1000, help="how many, at most")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long, at most")
    parser.add_argument("--seed", help="live one life only, and show it")
    parser.add_argument("--shrink", action="store_true", help="show the least life that fails so")
    parser.add_argument("--base", default=str(random.SystemRandom().randrange(10**6)))
    parser.add_argument("--cluster", choices=[*CLUSTERS], help="where to live all the lives")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--failures", type=int, default=10, help="stop after so many failed lives")
    parser.add_argument("--print-requests", nargs="+", default=[], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.print_requests:
        prepare()
        for seed in args.print_requests:
            print(json.dumps(Life(make_plan(seed, args.cluster)).run().requests))
        return 0
    return _show_one(args) if args.seed else _explore_many(args)


def _show_one(args: argparse.Namespace) -> int:
    prepare()
    result = Life(make_plan(args.seed, args.cluster)).run()
    if args.shrink and result.problems:
        result = shrink(result.plan, {problem.partition(":")[0] for problem in result.problems})
    print(show(result))
    return 1 if result.problems else 0


def _explore_many(args: argparse.Namespace) -> int:
    tally = Tally(args.cluster)
    seeds = (f"{args.base}-{number}" for number in range(args.lives))
    print(f"The lives {args.base}-0, {args.base}-1, and so on:", flush=True)
    for result in explore(seeds, args.processes, args.cluster):
        tally.add(result)
        if tally.lives % TOLD == 0:
            print(f"{tally.lives} lives, {tally.failed} failed", flush=True)
        if tally.failed >= args.failures or tally.spent > args.seconds:
            break
    tally.replay()
    print(tally.show_reached())
    print(tally)
    for complaint in (complaints := tally.find_complaints()):
        print(complaint)
    return 1 if complaints else 0


@dataclass
class Tally:
    """What has come of many lives, and whether they were worth living."""

    cluster: str | None = None
    began: float = field(default_factory=time.monotonic)
    lives: int = 0
    failed: int = 0
    steps: int = 0
    requests: int = 0
    faults: int = 0
    crashed: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    replayed: int = 0
    awaiting: dict[str, list[str]] = field(default_factory=dict)
    """The requests of the lives that are to be repeated in another process, by their seeds."""

    others: list[str] = field(default_factory=list)
    """The seeds whose lives were not the same in another process."""

    @property
    def spent(self) -> float:
        return time.monotonic() - self.began

    @property
    def rows(self) -> int:
        """How many different rows of the table of decisions were reached."""
        return sum(f"row: {row.name}" in self.reached for row in ROWS)

    @property
    def states(self) -> int:
        """In how many different states objects have got their turns."""
        return sum(what.startswith("state: ") for what in self.reached)

    def add(self, result: Result) -> None:
        self.lives += 1
        self.steps += result.steps
        self.requests += len(result.requests)
        self.faults += result.faults
        self.crashed += bool(result.crashes)
        self.reached.update(result.reached)
        if result.problems:
            self.failed += 1
            print(result.plan.seed, *result.problems[:4], sep="\n    ", flush=True)
        elif self.lives % REPLAYED == 0:
            self.awaiting[result.plan.seed] = result.requests
            if len(self.awaiting) >= BATCH:
                self.replay()

    def replay(self) -> None:
        """Repeat in another process the lives that are to be repeated."""
        repeated = replay([*self.awaiting], self.cluster) if self.awaiting else {}
        self.replayed += len(repeated)
        self.others += [seed for seed in repeated if repeated[seed] != self.awaiting[seed]]
        self.awaiting.clear()

    def __str__(self) -> str:
        return (
            f"{self.lives} lives in {self.spent:.0f} s: {self.steps} steps, {self.requests} "
            f"requests, {self.faults} faults, {self.crashed} lives with crashes, "
            f"{self.replayed} lives repeated in another process, {self.failed} failed"
        )

    def show_reached(self) -> str:
        """How many times everything has happened; and what never has."""
        expected = [f"fault: {what}" for what in {*FAULTS, *FAKED}]
        expected += [f"people: {what}" for what in {*ACTIONS, "create"}]
        expected += [f"constant: {name}" for name in CONSTANTS]
        expected += [f"row: {row.name}" for row in ROWS]
        counts = {what: count for what, count in self.reached.items() if what[:6] != "state:"}
        lines = [f"{count:9} {what}" for what, count in sorted(counts.items())]
        lines.append(f"{self.states:9} different states of objects")
        return "\n".join([*lines, *(f"    never {what}" for what in {*expected} - {*self.reached})])

    def find_complaints(self) -> list[str]:
        lives = max(1, self.lives)
        found = [f"The life {seed} differs in another process." for seed in self.others]
        found += [f"{self.failed} lives have failed."] if self.failed else []
        if lives >= ENOUGH:  # a few lives can be poor by chance
            figures = {"steps": self.steps, "requests": self.requests, "faults": self.faults}
            found += [
                f"The lives are poor: {figures[name] / lives:.2f} {name} a life instead of {floor}."
                for name, floor in FLOORS.items()
                if figures[name] / lives < floor
            ]
            counts = {"rows of the table": self.rows, "states of objects": self.states}
            found += [
                f"Only {counts[name]} {name} were reached instead of {least}."
                for name, least in REACHED.items()
                if counts[name] < least
            ]
            if self.crashed / lives < CRASHED:
                found.append(f"Only {self.crashed} of {lives} lives had crashes.")
        return found


def replay(seeds: Sequence[str], cluster: str | None = None) -> dict[str, list[str]]:
    """The requests of the same lives in a fresh process."""
    command = [sys.executable, "-m", "e2e.simulation.explore", "--print-requests", *seeds]
    command += [] if cluster is None else ["--cluster", cluster]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(zip(seeds, map(json.loads, done.stdout.splitlines()), strict=True))


if __name__ == "__main__":
    sys.exit(main())
