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

from bench.config import Config
from bench.driver import Measurement, Run, RunFailed
from bench.engines import Engine
from bench.scenarios import Scenario


@dataclasses.dataclass(frozen=True, slots=True)
class UnderValgrind(Engine):
    """The same engine with its instructions counted; not from the start, but when told so."""

    out: str = os.devnull

    def command(self, scenario: Scenario, server: str) -> list[str]:
        command = Engine.command(self, scenario, server)
        if not self.is_floor:  # scripts are not executables for valgrind
            command = [str(self.folder / "python"), *command]
        options = ["--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={self.out}"]
        return ["valgrind", *options, *command]


@contextmanager
def counting(run: Run) -> Iterator[None]:
    def switch(state: str) -> None:
        command = ["callgrind_control", "-i", state, str(run.operator.pid)]
        subprocess.run(command, check=True, capture_output=True)

    switch("on")
    yield
    switch("off")


def count_instructions(
    config: Config, scenario: Scenario, engine: Engine, size: int, out: Path
) -> Measurement:
    """Run it once under valgrind, 50 times slower than usual; leave its profile in the file."""
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed.")
    config = dataclasses.replace(config, deadline=1800.0, patience=300.0)
    fields = {f.name: getattr(engine, f.name) for f in dataclasses.fields(engine)}
    result = Measurement(scenario.name, engine.name, size)
    try:
        with Run(config, scenario, UnderValgrind(**fields, out=str(out)), size) as run:
            for step in scenario.prepare:
                run.perform(step)
            with counting(run):
                for step in scenario.measured:
                    run.perform(step)
        result.instructions = read_total(out)
    except RunFailed as exc:
        result.error = str(exc)
    return result


def read_total(out: Path) -> int:
    for line in out.read_text(errors="replace").splitlines():
        if line.startswith("totals:"):
            return int(line.split()[1])
    raise ValueError(f"No totals in {out.name}")
