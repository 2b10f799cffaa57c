"""What an operator keeps of many objects: memory and CPU by the forms of objects.

Usage::

    python -m bench.forms
    python -m bench.forms --sizes 1000,10000 --only event,related

The memory is RSS when all objects were handled for the first time; its peak includes the pages of
the list, and the garbage. The exponents are those of the growth above the same operator with 20
objects, from size to size: 1 is linear.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.config import Config
from bench.driver import Run
from bench.engines import Engine
from bench.loadserver.discovery import PODS
from bench.processes import Usage
from bench.scenarios import Scenario
from bench.setup_envs import ensure_ours

FORMS = ("whole", "trimmed", "metadata")
KEEPERS: Mapping[str, tuple[str, Sequence[str]]] = {
    "event": ("handlers of events: the names", FORMS),
    "index": ("an index of the bodies", FORMS),
    "timer": ("timers: the objects", FORMS),
    "related": ("related objects of 20 reconciled ones", ("whole", "trimmed", "referenced")),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One operator, and its figures by the numbers of objects."""

    keeper: str
    form: str
    base: Usage
    runs: Mapping[int, Usage]

    @property
    def title(self) -> str:
        return f"{KEEPERS[self.keeper][0]}, {self.form}"

    def exponents(self) -> Iterator[tuple[float, float]]:
        """The exponents of the memory and of the CPU time, from each size to the next one."""
        for few, many in pairwise(sorted(self.runs)):
            scale, a, b = math.log(many / few), self.runs[few], self.runs[many]
            memory = [run.rss - self.base.rss for run in (a, b)]
            yield _find_exponent(memory[0], memory[1], scale), _find_exponent(a.cpu, b.cpu, scale)


def _find_exponent(before: float, after: float, scale: float) -> float:
    """It is not a number if there is no growth to be measured."""
    return math.log(after / before) / scale if min(before, after) > 0 else math.nan


def measure(config: Config, engine: Engine, keeper: str, form: str, size: int) -> Usage:
    """Start an operator on so many objects; measure since the moment before it has the list."""
    scenario = Scenario(
        f"forms-{keeper}",
        "",
        "forms.py",
        (size,),
        (),
        env={"BENCH_FORM": form, "BENCH_KEEPER": keeper},
    )
    calls = PODS if keeper == "related" else size
    with Run(config, scenario, engine, size) as run:
        before = run.operator.usage()
        run.control("open")
        run.wait(lambda: run.cells.calls >= calls, f"{calls} calls", poll=config.poll)
        run.wait_until_settled()
        after = run.operator.usage()
    return Usage(after.cpu - before.cpu, after.rss, after.peak)


def describe(row: Row) -> str:
    cells = [f"{row.title:50}"]
    for run in (row.base, *(row.runs[size] for size in sorted(row.runs))):
        cells.append(f"{run.rss / 2**20:7.1f} {run.peak / 2**20:7.1f} {run.cpu:8.2f}")
    cells.append("; ".join(f"{peak:.2f}, {cpu:.2f}" for peak, cpu in row.exponents()))
    return " | ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.forms", description=__doc__)
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--only", default=",".join(KEEPERS), help="what keeps the objects")
    parser.add_argument("--deadline", type=float, default=900, help="seconds for one run")
    args = parser.parse_args()
    config = Config(deadline=args.deadline)
    engine = Engine("ours", ensure_ours(config))
    sizes = [int(size) for size in args.sizes.split(",")]
    print("RSS and its peak in MB, and CPU seconds; in the end, the exponents of memory and CPU.")
    print(" | ".join([f"{'':50}", *(f"{f'{size:,} objects':>24}" for size in (PODS, *sizes))]))
    for keeper in args.only.split(","):
        for form in KEEPERS[keeper][1]:
            runs = {size: measure(config, engine, keeper, form, size) for size in sizes}
            base = measure(config, engine, keeper, form, PODS)
            print(describe(Row(keeper, form, base, runs)), flush=True)


if __name__ == "__main__":
    main()
