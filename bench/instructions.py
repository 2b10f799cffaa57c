"""Counts of executed instructions, as valgrind sees them: a figure without noise.

They repeat to half a percent on any machine, busy or not, and thus compare better than times
where neighbours are loud. They are blind to caches, to the kernel, and to waiting.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.config import Config
from bench.driver import Measurement, Run, RunFailed
from bench.engines import Engine
from bench.scenarios import Scenario


@dataclasses.dataclass(frozen=True, slots=True)
class UnderValgrind(Engine):
    """The same engine with its instructions counted; not from the start, but when told so."""

    out: str = os.devnull
    is_counted: bool = False
    """Whether the instructions are counted since the start of the process."""

    def command(self, scenario: Scenario, server: str) -> list[str]:
        command = Engine.command(self, scenario, server)
        if not self.is_floor:  # scripts are not executables for valgrind
            command = [str(self.folder / "python"), *command]
        since = f"--instr-atstart={'yes' if self.is_counted else 'no'}"
        options = ["--tool=callgrind", since, f"--callgrind-out-file={self.out}"]
        return ["valgrind", *options, *command]


@contextmanager
def counting(run: Run) -> Iterator[None]:
    switch(run, "on")
    yield
    switch(run, "off")


def switch(run: Run, state: str) -> None:
    command = ["callgrind_control", "-i", state, str(run.operator.pid)]
    subprocess.run(command, check=True, capture_output=True)


def count_instructions(
    config: Config, scenario: Scenario, engine: Engine, size: int, out: Path
) -> Measurement:
    """Run it once under valgrind, 50 times slower than usual; leave its profile in the file."""
    result = Measurement(scenario.name, engine.name, size)
    try:
        with run_slowly(config, scenario, engine, size, out=str(out)) as run:
            for step in scenario.prepare:
                run.perform(step)
            with counting(run):
                for step in scenario.measured:
                    run.perform(step)
        result.instructions = read_total(out)
    except RunFailed as exc:
        result.error = str(exc)
    return result


def count_startup(config: Config, scenario: Scenario, engine: Engine, out: Path) -> Measurement:
    """From the start of the process until it asks for its first list, and goes quiet."""
    result = Measurement("ready to list", engine.name, 1)
    try:
        with run_slowly(config, scenario, engine, 1, out=str(out), is_counted=True) as run:
            switch(run, "off")
        result.instructions = read_total(out)
    except RunFailed as exc:
        result.error = str(exc)
    return result


def run_slowly(
    config: Config, scenario: Scenario, engine: Engine, size: int, **options: Any
) -> Run:
    """The run under valgrind, with enough time for that."""
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed.")
    config = dataclasses.replace(config, deadline=1800.0, patience=300.0)
    fields = {f.name: getattr(engine, f.name) for f in dataclasses.fields(engine)}
    return Run(config, scenario, UnderValgrind(**fields, **options), size)


def read_total(out: Path) -> int:
    for line in out.read_text(errors="replace").splitlines():
        if line.startswith("totals:"):
            return int(line.split()[1])
    raise ValueError(f"No totals in {out.name}")
