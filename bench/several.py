"""Several processes of one operator against one process: ``kopf run --processes``, in turns.

Usage::

    python -m bench.several --work 0,1 --rounds 5

Nothing is pinned: the operator and the load server share all cores, as the kernel decides.
There are two figures for the speed:

* By the wall clock: the load server takes its part of the cores. In production, it is elsewhere.
* By the CPU time of the busiest process: as fast as it would be if each process had a core.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.config import Config
from bench.driver import Run
from bench.engines import Engine
from bench.processes import Usage, read_usage
from bench.scenarios import Scenario, Step
from bench.setup_envs import ensure_ours


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run has taken, for all objects together. Times are in seconds."""

    wall: float
    server: float
    workers: Sequence[float]
    """CPU of each process that handles objects."""

    memory: Sequence[int]
    """In bytes, in the end: of these processes, then of their supervisor."""


def make_scenario(size: int, work: float, trigger: str) -> Scenario:
    is_listed = trigger == "open"
    return Scenario(
        f"several-{trigger}",
        "creation handlers that compute",
        "computing.py",
        (size,),
        measured=(Step("open" if is_listed else "create"),),
        prepare=() if is_listed else (Step("open"),),
        objects=None if is_listed else 0,
        env={"BENCH_WORK": f"{work / 1000}"},
    )


def list_workers(pid: int, count: int) -> Sequence[int]:
    """The processes that handle objects: the operator itself, or the children of its supervisor."""
    if count == 1:
        return [pid]
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sorted(map(int, children))


def measure(config: Config, scenario: Scenario, engine: Engine, count: int) -> Figures:
    """Run it once, with so many processes."""
    (size,) = scenario.sizes
    engine = dataclasses.replace(engine, options=("--processes", str(count)))
    with Run(config, scenario, engine, size) as run:
        for step in scenario.prepare:
            run.perform(step)
        workers = list_workers(run.operator.pid, count)
        before, server = take(workers), run.server_process.cpu
        started = time.monotonic()
        (step,) = scenario.measured
        run.control(step.trigger, size)
        run.wait(lambda: run.control("stats").get("PATCH", 0) >= size, "patches", poll=0.05)
        wall = time.monotonic() - started
        run.wait_until_settled()
        after = take(workers)
        own = [] if count == 1 else [read_usage(run.operator.pid)]
        return Figures(
            wall,
            run.server_process.cpu - server,
            [after[pid].cpu - before[pid].cpu for pid in workers],
            [usage.rss for usage in (*after.values(), *own)],
        )


def take(pids: Collection[int]) -> Mapping[int, Usage]:
    return {pid: read_usage(pid) for pid in pids}


def measure_in_turns(
    config: Config, scenario: Scenario, engine: Engine, counts: Sequence[int], rounds: int
) -> Mapping[int, list[Figures]]:
    runs: dict[int, list[Figures]] = {count: [] for count in counts}
    for number in range(rounds):
        for count in counts if number % 2 == 0 else reversed(counts):
            runs[count].append(measure(config, scenario, engine, count))
    return runs


def describe(size: int, count: int, runs: Sequence[Figures], one: Sequence[Figures]) -> str:
    wall, cpu = (
        [a.wall / b.wall for a, b in zip(one, runs, strict=True)],
        [max(a.workers) / max(b.workers) for a, b in zip(one, runs, strict=True)],
    )
    rate = statistics.median(size / run.wall for run in runs)
    cost = statistics.median(sum(run.workers) for run in runs) / size * 1e6
    busiest = statistics.median(max(run.workers) for run in runs) / size * 1e6
    server = statistics.median(run.server for run in runs) / size * 1e6
    memory = ", ".join(f"{figure / 2**20:.0f}" for figure in runs[-1].memory)
    return (
        f"{count} processes: {rate:,.0f} objects/s; {cost:,.0f} us of CPU for an object, "
        f"{busiest:,.0f} in the busiest process, {server:,.0f} in the server; {memory} MB; "
        f"{_summarize(wall)} by the clock, {_summarize(cpu)} by CPU"
    )


def _summarize(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.several", description=__doc__)
    parser.add_argument("--work", default="0,1", help="milliseconds of CPU in the handler")
    parser.add_argument("--trigger", default="open,create", help="listed or streamed objects")
    parser.add_argument("--size", type=int, default=4000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--selecting", action="store_true", help="the server selects by shards")
    args = parser.parse_args()
    if args.selecting:
        os.environ["BENCH_SELECTING"] = "1"
    config = Config(cores=[])
    engine = Engine("ours", ensure_ours(config))
    for trigger in args.trigger.split(","):
        for work in map(float, args.work.split(",")):
            scenario = make_scenario(args.size, work, trigger)
            counts = (1, args.processes)
            runs = measure_in_turns(config, scenario, engine, counts, args.rounds)
            print(f"\n{trigger}, {work:g} ms in the handler, {args.size} objects", flush=True)
            for count in counts:
                print(describe(args.size, count, runs[count], runs[1]), flush=True)


if __name__ == "__main__":
    main()
