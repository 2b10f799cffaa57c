"""Where the CPU time of our operator goes under a scenario of the bench.

``python -m bench.profile create --n 2000`` samples the stacks with py-spy (installed on the first
use into its own environment): the functions by their own time, by the time with all they call, and
by the modules. The startup of the operator is left out, as it is in the bench.

``--tool callgrind`` counts instructions (~50 times slower; needs valgrind; use small numbers):
they do not depend on how busy the machine is, and show the compiled code too.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.config import Config
from bench.driver import Run
from bench.engines import Engine, make_engines
from bench.instructions import count_instructions
from bench.scenarios import Scenario, all_scenarios
from bench.setup_envs import ensure_py_spy


@contextmanager
def sampling(config: Config, run: Run, out: Path, rate: int) -> Iterator[None]:
    """Attach py-spy to the operator, keep the stacks in a file."""
    tool = ensure_py_spy(config)
    pid = str(run.operator.pid)
    command = [str(tool), "record", "--pid", pid, "--rate", str(rate), "--format", "raw",
               "--output", str(out), "--duration", "86400", "--nonblocking"]  # fmt: skip
    sampler = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        run.wait_until_quiet()
        yield
    finally:
        sampler.send_signal(signal.SIGINT)
        _, errors = sampler.communicate(timeout=60)
    if not out.exists():
        raise SystemExit(f"py-spy has failed: {errors.decode().strip()}")


def print_stacks(path: Path, size: int, cpu: float, top: int) -> None:
    """Aggregate the lines "a (file:1);b (file:2) 123": who was running, and who had called it."""
    own: Counter[str] = Counter()
    inclusive: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [short(frame) for frame in stack.split(";") if not frame.startswith("process")]
        own[frames[-1]] += int(count)
        modules[frames[-1].rpartition(":")[0]] += int(count)
        for frame in set(frames):
            inclusive[frame] += int(count)
    total = sum(own.values())
    print(f"{cpu / size * 1e6:.0f} microseconds of CPU a unit; {total} samples.\n")
    for title, counter in (("own", own), ("inclusive", inclusive), ("modules, own", modules)):
        print(f"--- {title}: % of samples, microseconds a unit")
        for name, number in counter.most_common(top):
            share = number / total
            print(f"{share:6.1%} {share * cpu / size * 1e6:8.1f}  {name}")
        print()


def short(frame: str) -> str:
    """From "function (/long/path/package/module.py:123)" to "package/module.py:function"."""
    name, _, place = frame.partition(" (")
    file = place.rstrip(")").rpartition(":")[0]
    for mark in ("site-packages/", "src/", "lib/python3"):
        _, found, tail = file.rpartition(mark)
        if found:
            return f"{tail}:{name}"
    return f"{file}:{name}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("scenario", choices=[s.name for s in all_scenarios()])
    parser.add_argument("--n", type=int, help="objects or events; default: the scenario's biggest")
    parser.add_argument("--top", type=int, default=30)
    parser.add_argument("--rate", type=int, default=500, help="samples a second")
    parser.add_argument("--tool", choices=["py-spy", "callgrind"], default="py-spy")
    parser.add_argument("--engine", default="ours", choices=["ours", "ours-json", "floor"])
    args = parser.parse_args()
    [scenario] = (s for s in all_scenarios() if s.name == args.scenario)
    config = Config()
    [engine] = make_engines(config, [args.engine])
    config.results.mkdir(exist_ok=True)
    size = args.n or (200 if args.tool == "callgrind" else scenario.sizes[-1])
    if args.tool == "callgrind":
        profile_instructions(config, scenario, engine, size, args.top)
    else:
        profile_stacks(config, scenario, engine, size, args)


def profile_stacks(
    config: Config, scenario: Scenario, engine: Engine, size: int, args: argparse.Namespace
) -> None:
    out = config.results / f"profile-{scenario.name}.folded"
    out.unlink(missing_ok=True)
    with Run(config, scenario, engine, size) as run:
        for step in scenario.prepare:
            run.perform(step)
        with sampling(config, run, out, args.rate):
            cpu = run.operator.cpu
            for step in scenario.measured:
                run.perform(step)
            cpu = run.operator.cpu - cpu
    print_stacks(out, size, cpu, args.top)


def profile_instructions(
    config: Config, scenario: Scenario, engine: Engine, size: int, top: int
) -> None:
    out = config.results / f"callgrind-{scenario.name}.out"
    result = count_instructions(config, scenario, engine, size, out)
    if result.error:
        raise SystemExit(result.error)
    print(f"{result.instructions / size:,.0f} instructions a unit.\n")
    command = ["callgrind_annotate", "--auto=no", str(out)]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    start = next(n for n, line in enumerate(lines) if "file:function" in line)
    print("\n".join(lines[start : start + 2 + top]))


if __name__ == "__main__":
    main()
