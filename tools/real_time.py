"""Find tests that sleep, or that depend on how fast the machine is: those are to be rewritten.

    tools/real_time.py --check   exit 1 if there are any in what `make test` runs

What is waited for, tells of itself: by events and journals, or by ``tools/idleness.py``.
Time is faked by ``FakeClock``, or by ``tools/virtual_time.py``. Tests that live through real time
have the mark ``long``: they are not run by default.

Not found here: code that is run in other processes, and delays in settings, which are waited for
by the operator; nothing may depend on how long these take really.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

PATTERNS = ("packages/*/tests/**/*.py", "tools/tests/**/*.py", "bench/tests/**/*.py")
"""What `make test` runs."""

FOREVER = 60
"""Whoever sleeps for so long (in seconds) only hangs: no test lives for so long by default."""

HASTE = 10
"""A limit shorter than this (in seconds) can pass on a slow machine with nothing wrong."""

ALLOWED: Mapping[str, str] = {
    "packages/kopf-cogs/tests/aiokits/test_clocks.py": "it is about the clock of the machine",
    "packages/kopf-core/tests/engines/background/conftest.py": "it makes loops of virtual time",
    "packages/kopf-core/tests/reactor/test_fairness.py": "the whole load is in virtual time",
    "packages/kopf-kits/tests/simulation/test_simulation.py": "it is about virtual time",
    "packages/kopf-kits/tests/simulation/test_threads.py": "it is about virtual time",
}
"""Where it is fine, and why."""

CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "time"}
LIMITS = {"asyncio.timeout": 0, "asyncio.wait_for": 1, "asyncio.wait": 9}
"""The functions with limits, and the positions of these in the arguments."""


class Finding(NamedTuple):
    path: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.problem}"


def find_all(root: Path) -> Iterator[Finding]:
    """Everything that depends on real time, but where it is allowed."""
    for path in sorted(path for pattern in PATTERNS for path in root.glob(pattern)):
        name = path.relative_to(root).as_posix()
        if name not in ALLOWED:
            for line, problem in find(path.read_text("utf-8")):
                yield Finding(name, line, problem)


def find(source: str) -> Iterator[tuple[int, str]]:
    """The lines that depend on real time, and why."""
    tree = ast.parse(source)
    for node in [] if _is_long(tree) else _walk(tree):
        problem = _judge(node) if isinstance(node, ast.Call) else None
        if problem is not None:
            yield node.lineno, problem


def _walk(node: ast.AST) -> Iterator[ast.expr]:
    """All expressions, but of those functions that live in virtual time, or are long."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            marks = {ast.unparse(mark) for mark in child.decorator_list}
            if marks & {"timeless", "pytest.mark.long"}:
                continue
        if isinstance(child, ast.expr):
            yield child
        yield from _walk(child)


def _is_long(tree: ast.Module) -> bool:
    return any(
        ast.unparse(node.targets[0]) == "pytestmark" and "mark.long" in ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
    )


def _judge(call: ast.Call) -> str | None:
    name = ast.unparse(call.func)
    module, _, attribute = name.rpartition(".")
    if name == "time.sleep":
        return "it sleeps"
    if name == "asyncio.sleep" and not _is_fine(call, 0, least=FOREVER):
        return "it sleeps; wait for what is to happen"
    if attribute in CLOCKS and module == "time":
        return "it asks for the time of the machine"
    if attribute == "time" and module.endswith(("loop", "loop()")):
        return "it asks for the time of the loop"
    if name in LIMITS and not _is_fine(call, LIMITS[name], least=HASTE):
        return f"its limit is too short: {HASTE} seconds at least, or none"
    return None


def _is_fine(call: ast.Call, position: int, *, least: float) -> bool:
    """Whether the delay is none at all, or is long enough. Names are taken for long limits."""
    named = [keyword.value for keyword in call.keywords if keyword.arg in ("delay", "timeout")]
    value = next(iter([*call.args[position : position + 1], *named]), None)
    if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
        return value.value <= 0 or value.value >= least
    return value is None or least == HASTE or ast.unparse(value) == "math.inf"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", required=True)
    parser.parse_args()
    findings = [*find_all(ROOT)]
    for finding in findings:
        print(finding, file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
