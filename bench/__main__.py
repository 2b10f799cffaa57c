"""Measure and print the tables: ``python -m bench [--quick] [--only NAME] [--repeat N]``.

Unless something is chosen, a few scenarios are also measured over TLS, and on a newer Python.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.config import HERE, Config
from bench.driver import Measurement, measure
from bench.engines import Engine, make_engines
from bench.imports import measure_import
from bench.instructions import count_instructions, count_startup
from bench.report import Results, cpu_table, instructions_table, render
from bench.scenarios import Scenario, all_scenarios

ENGINES = "predecessor,ours,floor,floor-orjson"
COUNTED = ("start", "hot", "create", "index")
VARIED = ("start", "hot", "create", "update", "create-5")
NEWER = "python3.14"
"""What images are made of; if it is there, it is measured, too."""

QUICK = ("start", "hot", "create", "update", "delete", "index", "timers", "latency")


@dataclass(frozen=True, slots=True)
class Setting:
    """Another way to measure the same scenarios: over TLS, or on another interpreter."""

    title: str
    config: Config


def make_settings(config: Config) -> Iterator[Setting]:
    config = dataclasses.replace(config, sizes=1)
    yield Setting("Over TLS", dataclasses.replace(config, is_tls_on=True))
    if (newer := shutil.which(NEWER)) is None:
        print(f"There is no {NEWER} here, so nothing is measured on it.", file=sys.stderr)
        return
    config = config.with_python(newer)
    yield Setting("On Python 3.14", config)
    if has_jit(newer):
        yield Setting("On Python 3.14 with its JIT", dataclasses.replace(config, is_jit_on=True))


def has_jit(python: str) -> bool:
    command = [python, "-c", "import sys; sys.exit(not sys._jit.is_available())"]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few scenarios, one small size")
    parser.add_argument("--full", action="store_true", help="also the biggest sizes (long)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME[,NAME]")
    parser.add_argument(
        "--engines", default=ENGINES, help=f"also ours-json, ours-metrics; default: {ENGINES}"
    )
    parser.add_argument("--tls", action="store_true", help="only over TLS")
    parser.add_argument("--python", metavar="PATH", help="only on that interpreter")
    parser.add_argument("--jit", action="store_true", help="with its just-in-time compiler")
    parser.add_argument("--repeat", type=int, default=1, help="print medians of so many runs")
    parser.add_argument("--instructions", action="store_true", help="count them under valgrind")
    parser.add_argument("--startup", action="store_true", help="count those until the first list")
    parser.add_argument("--list", action="store_true", help="list the scenarios and exit")
    return parser.parse_args(argv)


def select(args: argparse.Namespace) -> list[Scenario]:
    names = [name for group in args.only for name in group.split(",")]
    if names:
        return [s for s in all_scenarios() if s.name in names]
    if args.quick or args.instructions:
        chosen = COUNTED if args.instructions else QUICK
        return [s for s in all_scenarios() if s.name in chosen]
    return [s for s in all_scenarios() if args.full or not s.extra]


def run_all(
    config: Config, scenarios: Sequence[Scenario], engines: Sequence[Engine]
) -> Iterator[Measurement]:
    """The engines take turns, so that a slow minute of the machine hits all of them."""
    for engine in engines:
        yield measure_import(config, engine)
    for scenario in scenarios:
        sizes = sorted({size for e in engines for size in scenario.sizes_for(e.name)})
        for size in sizes[-config.sizes :] if config.sizes < 3 else sizes:
            for _ in range(config.repeat):
                for engine in engines:
                    if engine.supports(scenario) and size in scenario.sizes_for(engine.name):
                        yield measure(config, scenario, engine, config.scaled(size))


def main() -> None:
    # However it is stopped, the operators and servers must not be left running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    args = parse_args()
    scenarios = select(args)
    if args.list:
        for scenario in scenarios:
            print(f"{scenario.name:14} {scenario.title}")
        return
    config = Config(repeat=args.repeat, is_tls_on=args.tls, is_jit_on=args.jit)
    if args.python is not None:
        config = config.with_python(args.python)
    if args.instructions:
        print_instructions(config, scenarios, make_engines(config, args.engines.split(",")))
        return
    if args.startup:
        print_startup(config, make_engines(config, args.engines.split(",")))
        return
    if args.quick:
        config = dataclasses.replace(config, sizes=1, scale=0.25, window=3.0)
    started = time.monotonic()
    runs = {"": measure_all(config, scenarios, args.engines)}
    print(render(Results(runs[""]), scenarios))
    varied = [] if args.only or args.quick or args.python or args.tls or args.jit else VARIED
    scenarios = [s for s in scenarios if s.name in varied]
    for setting in make_settings(config) if varied else ():
        runs[setting.title] = measure_all(setting.config, scenarios, args.engines)
        print(f"\n{setting.title}:\n\n{cpu_table(Results(runs[setting.title]), scenarios)}")
    print(f"\nMeasured at {revision()}.")
    save(config, runs)
    print(f"Took {time.monotonic() - started:.0f} s.", file=sys.stderr)


def measure_all(config: Config, scenarios: Sequence[Scenario], names: str) -> list[Measurement]:
    runs = []
    for run in run_all(config, scenarios, make_engines(config, names.split(","))):
        runs.append(run)
        print(progress(run), file=sys.stderr, flush=True)
    return runs


def print_startup(config: Config, engines: Sequence[Engine]) -> None:
    """What it takes to get ready, in millions of instructions."""
    scenario = next(s for s in all_scenarios() if s.name == "start")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for engine in engines:
            run = count_startup(config, scenario, engine, Path(folder) / "callgrind.out")
            print(f"{engine.name:12} {run.error or f'{run.instructions / 1e6:,.0f} million'}")


def print_instructions(
    config: Config, scenarios: Sequence[Scenario], engines: Sequence[Engine]
) -> None:
    """A table of its own: few objects are enough, as nothing disturbs the counts."""
    runs = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for scenario in scenarios:
            for engine in engines:
                if engine.supports(scenario) and not scenario.is_window:
                    out = Path(folder) / "callgrind.out"
                    run = count_instructions(config, scenario, engine, 200, out)
                    runs.append(run)
                    what = run.error or f"{run.instructions / run.size:,.0f} a unit"
                    print(f"{scenario.name:14} {engine.name:12} {what}", file=sys.stderr)
    print(instructions_table(Results(runs), scenarios))


def revision() -> str:
    """What was measured, for comparing the results later."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    return done.stdout.strip() or "an unknown revision"


def progress(run: Measurement) -> str:
    what = run.error or f"{run.cpu:.3f} s CPU, {run.rss / 1e6:.1f} MB"
    return f"{run.scenario:14} {run.engine:12} {run.size:6} {what}"


def save(config: Config, runs: Mapping[str, Sequence[Measurement]]) -> None:
    config.results.mkdir(exist_ok=True)
    path = config.results / time.strftime("%Y%m%d-%H%M%S.json")
    raw = [dataclasses.asdict(run) | {"setting": key} for key, one in runs.items() for run in one]
    path.write_text(json.dumps(raw, indent=1))


if __name__ == "__main__":
    main()
