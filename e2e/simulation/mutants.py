"""Mutants: defects put into a copy of the packages, each lived until it is found.

``python -m e2e.simulation.mutants`` lives them all; ``--only NAME`` one of them. The copy is in
a temporary folder. Each mutant is tried in fresh processes: by the unit tests of its part first;
then in the model of one object; then in the swept scenarios at a few steps, and in random lives of
the same seeds for all mutants. ``--by lives`` tells whether the simulator finds it alone.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from e2e.simulation.defects import MUTANTS, Mutant

HERE = pathlib.Path(__file__).parents[2]
PACKAGES = ("kopf-cogs", "kopf-core", "kopf-kits", "kopf")
WAYS = ("tests", "model", "lives")
"""How mutants are found, the cheapest way first."""

CORE = "packages/kopf-core/tests"
TESTS = {
    "echoes": ("records", "echoes", "deciding", "steps", "reconciliation", "delivery"),
    "gates": ("queueing", "governing", "deciding", "interruptions", "pausing", "threads"),
    "fences": ("leasing", "governing", "deciding", "leadership", "replicas"),
    "seen states": ("seen_states", "missed_changes", "cycles", "steps", "subhandling"),
    "pruning": ("stores", "desired", "observed"),
    "finalizers": ("reconciliation", "lingering", "forgetting", "absence", "steps", "running"),
    "former": ("governing", "headroom", "interruptions", "lingering", "absence"),
}
"""The unit tests that are tried for the mutants of each part: files, or folders of the engines."""

TEST_TIMEOUT = 600.0
"""How long (in seconds) the tests may take: mutants can make them wait for ever."""

OUTSIDE = {
    "fences": ("packages/kopf/tests/test_leases.py", "packages/kopf/tests/test_takeovers.py"),
    "pruning": ("packages/kopf/tests/test_reconcile.py",),
    "finalizers": ("packages/kopf-cogs/tests/structs",),
}
"""And those of other packages."""


class Verdict(NamedTuple):
    """How a mutant has ended."""

    mutant: Mutant
    lives: int
    """After how many lives it was found (0: in other ways); or how many have not found it."""

    sign: str
    """What was wrong; empty if nothing was."""


def copy_packages(target: pathlib.Path) -> None:
    """Copy what a simulated life is made of."""
    for package in PACKAGES:
        source = HERE / "packages" / package / "src"
        shutil.copytree(source, target, dirs_exist_ok=True)
    for folder in ("simulation", "chaos"):
        shutil.copytree(HERE / "e2e" / folder, target / "e2e" / folder)


def mutate(root: pathlib.Path, mutant: Mutant) -> None:
    """Put the defect into the copy. Raises :class:`ValueError` if the code has become different."""
    path = root / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: there are {text.count(mutant.old)} such places.")
    path.write_text(text.replace(mutant.old, mutant.new))


def try_out(mutant: Mutant, lives: int, seconds: float, ways: Sequence[str] = WAYS) -> Verdict:
    """Try until the mutant is found, in a copy of the packages."""
    with tempfile.TemporaryDirectory(prefix="kopf-mutant-") as folder:
        root = pathlib.Path(folder)
        copy_packages(root)
        mutate(root, mutant)
        sign = _run_tests(mutant, root) if "tests" in ways else ""
        if not sign and "model" in ways:
            sign = _explore_model(root)
        if sign or "lives" not in ways:
            return Verdict(mutant, 0, sign)
        return _live(mutant, root, lives, seconds)


def choose_tests(part: str) -> Sequence[str]:
    """The unit tests for the mutants of the part."""
    places = [[f"reactor/test_{name}.py", f"engines/{name}"] for name in TESTS[part]]
    found = [f"{CORE}/{one}" for pair in places for one in pair if (HERE / CORE / one).exists()]
    return [*found, *OUTSIDE.get(part, ())]


def _run_tests(mutant: Mutant, root: pathlib.Path) -> str:
    """The first test that fails; empty if all pass."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not long"]
    command = [sys.executable, "-m", "pytest", *options, *choose_tests(mutant.part)]
    env = {**os.environ, "PYTHONPATH": str(root)}
    try:
        done = subprocess.run(
            command, cwd=HERE, env=env, capture_output=True, text=True, timeout=TEST_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return "the tests: they do not end"
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    name = failed[0].partition("::")[2].partition(" - ")[0] if failed else "they cannot be run"
    return f"the tests: {name}" if done.returncode else ""


def _explore_model(root: pathlib.Path) -> str:
    """What the model of one object has found, in a few thousand states; empty if nothing."""
    options = ["--budget", "edit=1,lost=1,delete=1", "--limit", "3000"]
    command = [sys.executable, "-m", "e2e.simulation.model", *options]
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True)
    lines = [*done.stdout.splitlines()[1:], *done.stderr.splitlines()[-1:]]
    return f"the model: {lines[0]}" if done.returncode else ""


def _live(mutant: Mutant, root: pathlib.Path, lives: int, seconds: float) -> Verdict:
    command = [sys.executable, "-m", "e2e.simulation.hunts", str(lives), str(seconds)]
    env = {**os.environ, "PYTHONPATH": str(root), "PYTHONHASHSEED": "0"}
    limit = seconds * 2 + 60
    try:
        done = subprocess.run(
            command, cwd=root, env=env, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return Verdict(mutant, 0, "O4: a life does not end")
    if done.returncode:
        return Verdict(mutant, 0, f"it fails at once: {done.stderr.strip().splitlines()[-1]}")
    count, _, sign = done.stdout.strip().rpartition("\n")[2].partition(" ")
    return Verdict(mutant, int(count), sign)


def show(verdict: Verdict) -> str:
    mutant, lives, sign = verdict
    outcome = f"{lives} | {sign[:70]}" if sign else f"not in {lives} | "
    return f"| {mutant.part} | {mutant.name} | {outcome} |".replace("\n", " ")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="the mutants with this in their names")
    parser.add_argument("--lives", type=int, default=1000, help="at most, for each mutant")
    parser.add_argument("--seconds", type=float, default=120.0, help="at most, for each mutant")
    parser.add_argument("--by", default=",".join(WAYS), help="how to find them")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()
    began, verdicts = time.monotonic(), []
    chosen = [mutant for mutant in MUTANTS if args.only in mutant.name]
    print("| part | mutant | found after lives | by |\n|---|---|---|---|", flush=True)
    with ThreadPoolExecutor(args.processes) as pool:
        ways = args.by.split(",")
        for verdict in pool.map(lambda one: try_out(one, args.lives, args.seconds, ways), chosen):
            print(show(verdict), flush=True)
            verdicts.append(verdict)
    found = sum(bool(verdict.sign) for verdict in verdicts)
    print(f"{found} of {len(chosen)} found in {time.monotonic() - began:.0f} s")
    return 0 if found == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
