"""Many namespaces with ``--namespace-selector``: one stream for each of them, or one for all.

Usage::

    python -m bench.namespaces --counts 100,1000,10000
    python -m bench.namespaces --counts 1000 --many 1000000   # one stream for each namespace

There is one object in each namespace. Four things happen: the start, namespaces that come,
objects that are deleted, and then their namespaces. Each event is handled once.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial

from bench.config import Config
from bench.driver import Run
from bench.engines import Engine
from bench.scenarios import Scenario
from bench.setup_envs import ensure_ours

JOINING, ERASED = 100, 1000


def scenario(many: int) -> Scenario:
    env = {"BENCH_MANY": str(many), "BENCH_POSTING": "off"}
    return Scenario("namespaces", "", "namespaces.py", (), (), objects=0, env=env)


def tell(run: Run, title: str, cpu: float, calls: int) -> float:
    """Print what the operator has used since then; return its CPU time so far."""
    usage, stats = run.operator.usage(), run.control("stats")
    print(
        f"{title:>30}: {usage.cpu - cpu:7.2f} s of CPU, {usage.rss / 2**20:6.1f} MB, "
        f"{run.cells.calls - calls} calls, {stats['watchers']} streams, "
        f"{stats.get('lists', 0)} lists so far",
        flush=True,
    )
    return usage.cpu


def is_called(run: Run, calls: int) -> bool:
    return run.cells.calls >= calls


def measure(config: Config, engine: Engine, many: int, count: int) -> None:
    with Run(config, scenario(many), engine, count, prepare="spread") as run:
        cpu, seen = 0.0, 0  # with the imports
        erased = min(count, ERASED)
        for title, command, number, calls in (
            ("start", "open", count, count),
            ("joining", "join", JOINING, JOINING),
            ("emptying", "empty", erased, erased),
            ("deletion", "erase", erased, 0),
        ):
            run.control(command, number)
            run.wait(partial(is_called, run, seen + calls), title, poll=config.poll)
            run.wait_until_settled()
            cpu = tell(run, f"{title} of {number:,} namespaces", cpu, seen)
            seen = run.cells.calls


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.namespaces", description=__doc__)
    parser.add_argument("--counts", default="100,1000,10000")
    parser.add_argument("--many", type=int, default=100, help="from when on to have one stream")
    parser.add_argument("--deadline", type=float, default=600, help="seconds for one phase")
    args = parser.parse_args()
    config = Config(deadline=args.deadline)
    engine = Engine("ours", ensure_ours(config))
    engine = replace(engine, options=("--namespace-selector", "tenant=a"))
    for count in map(int, args.counts.split(",")):
        print(f"{count:,} namespaces", flush=True)
        measure(config, engine, args.many, count)


if __name__ == "__main__":
    main()
