"""Explore many lives: ``python -m e2e.simulation.explore --lives 1000`` or ``--seconds 600``."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import random
import sys
import time
from collections.abc import Iterator

from e2e.simulation.lives import Life, Result
from e2e.simulation.plans import Plan, make_plan

PARTS = ("faults", "actions", "objects", "features")


def explore(seeds: Iterator[str], processes: int) -> Iterator[Result]:
    """Live the lives, on several cores."""
    with multiprocessing.get_context("fork").Pool(processes, initializer=prepare) as pool:
        yield from pool.imap_unordered(live_by_seed, seeds, chunksize=10)


def prepare() -> None:
    Life(make_plan("warm-up")).run()
    gc.collect()
    gc.freeze()


def live_by_seed(seed: str) -> Result:
    result = Life(make_plan(seed)).run()
    if not result.problems:
        result.story, result.requests = [], []
    return result


def shrink(plan: Plan, kinds: set[str]) -> Result:
    """Take away everything without which the life still fails in the same way."""
    result = Life(plan).run()
    for part in PARTS:
        for index in reversed(range(len(getattr(result.plan, part)))):
            attempt = Life(result.plan.without(part, index)).run()
            if {problem.partition(":")[0] for problem in attempt.problems} & kinds:
                result = attempt
    return result


def show(result: Result) -> str:
    return "\n".join(
        [f"--- seed {result.plan.seed}", str(result.plan), *result.story, *result.problems]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", help="live one life, and show it")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--base", default=str(random.SystemRandom().randrange(10**6)))
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--stop-after", type=int, default=10, help="failed lives")
    args = parser.parse_args()
    if args.seed:
        prepare()
        result = Life(make_plan(args.seed)).run()
        if args.shrink and result.problems:
            result = shrink(result.plan, {p.partition(":")[0] for p in result.problems})
        print(show(result))
        return 1 if result.problems else 0
    return _explore_many(args)


def _explore_many(args: argparse.Namespace) -> int:
    began, count, failed, steps, crashes = time.monotonic(), 0, [], 0, 0
    seeds = (f"{args.base}-{number}" for number in range(args.lives))
    for result in explore(seeds, args.processes):
        count, steps, crashes = count + 1, steps + result.steps, crashes + bool(result.crashes)
        if result.problems:
            failed.append(result)
            print(result.plan.seed, *result.problems[:4], sep="\n    ", flush=True)
        if len(failed) >= args.stop_after or time.monotonic() - began > args.seconds:
            break
    spent = time.monotonic() - began
    print(f"{count} lives in {spent:.0f} s; {steps} steps; {crashes} lives with crashes")
    print(f"{len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
