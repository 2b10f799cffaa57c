"""What has changed since another commit: two checkouts in turns, the operators of each measured.

Usage::

    git worktree add /tmp/earlier COMMIT
    python -m bench.turns /tmp/earlier --only create,update-5 --rounds 5

Every second round is in the opposite order, so that a machine which becomes slower or faster
does not favour any of them. The loads and the server are of this checkout, for both.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path

from bench.config import HERE, Config
from bench.driver import Measurement, measure
from bench.engines import Engine
from bench.scenarios import Scenario, all_scenarios
from bench.setup_envs import ensure_ours

MAX_SIZE = 4000
"""The biggest sizes take long, and tell nothing more about a change of the code."""


def make_engine(config: Config, name: str, checkout: Path) -> Engine:
    own = dataclasses.replace(config, envs=checkout / "bench" / ".envs")
    return Engine(name, ensure_ours(own, sources=checkout))


def measure_in_turns(
    config: Config, scenario: Scenario, engines: Sequence[Engine], rounds: int
) -> dict[str, list[Measurement]]:
    sizes = sorted(scenario.sizes)
    size = max((size for size in sizes if size <= MAX_SIZE), default=sizes[0])
    runs: dict[str, list[Measurement]] = {engine.name: [] for engine in engines}
    for number in range(rounds):
        for engine in engines if number % 2 == 0 else reversed(engines):
            runs[engine.name].append(measure(config, scenario, engine, size))
    return runs


def get_figure(scenario: Scenario, run: Measurement) -> float:
    """Microseconds: of CPU for a unit; or from the change to the handler."""
    return run.latency(50) if scenario.is_latency else run.cpu_per_unit


def describe(scenario: Scenario, runs: dict[str, list[Measurement]]) -> str:
    errors = [run.error for series in runs.values() for run in series if run.error]
    if errors:
        return f"{scenario.name:16} {errors[0]}"
    series = [[get_figure(scenario, run) for run in one] for one in runs.values()]
    before, now = (statistics.median(figures) for figures in series)
    least_before, least_now = (min(figures) for figures in series)
    return (
        f"{scenario.name:16} {before:8,.0f} -> {now:8,.0f} ({now / before - 1:+.1%}); "
        f"the least {least_before:,.0f} -> {least_now:,.0f} ({least_now / least_before - 1:+.1%})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.turns", description=__doc__)
    parser.add_argument("checkout", type=Path, help="a folder with another commit")
    parser.add_argument("--only", default="", metavar="NAME[,NAME]")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    config, names = Config(), set(filter(None, args.only.split(",")))
    engines = [
        make_engine(config, "before", args.checkout.resolve()),
        make_engine(config, "now", HERE.parent),
    ]
    print("Microseconds: of CPU for a unit, or of latency. Medians, then the least ones.")
    for scenario in all_scenarios():
        if scenario.name in names if names else not scenario.extra:
            runs = measure_in_turns(config, scenario, engines, args.rounds)
            print(describe(scenario, runs), flush=True)


if __name__ == "__main__":
    main()
