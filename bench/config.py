"""Everything one may want to turn: sizes, repetitions, cores, limits of time."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
PREDECESSOR_VERSION = "1.45.2"


def allowed_cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return []


def get_shared_envs() -> Path:
    """Where everything that is not ours is installed: out of this tree, for all its clones."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kopf" / "envs" / f"python-{sys.version_info[0]}.{sys.version_info[1]}"


def find_version(python: str) -> str:
    """The version of the interpreter, as in the names of folders: ``3.14``."""
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.strip()


WEBHOOK_PORT = 28443
"""Where the measured operators serve their webhooks: one operator at a time."""


@dataclass(frozen=True, slots=True)
class Config:
    """How to run. All times are in seconds; limits only end what hangs, they are no budgets."""

    repeat: int = 1
    scale: float = 1.0  # of all numbers of objects and events, for quick looks
    sizes: int = 3  # how many of a scenario's sizes to run, biggest first
    deadline: float = 180.0  # for one phase of one run
    quiet: float = 0.4  # how long the CPU must be idle to call the work done
    silence: float = 2.0  # how long the server must be asked for nothing, where it is never idle
    poll: float = 0.02
    patience: float = 5.0  # for the operator to exit when it is asked to
    window: float = 8.0  # how long to watch what goes on forever (timers)
    envs: Path = HERE / ".envs"  # of these sources
    shared_envs: Path = field(default_factory=get_shared_envs)
    results: Path = HERE / "results"
    cores: list[int] = field(default_factory=allowed_cores)
    python: str = (
        sys.executable
    )  # runs the measured programs; the load server runs on the interpreter of the bench
    is_jit_on: bool = False
    is_tls_on: bool = False

    def with_python(self, python: str) -> Config:
        """The same with another interpreter, and with environments of its own."""
        folder = f"python-{find_version(python)}"
        shared = self.shared_envs.parent / folder
        return dataclasses.replace(self, python=python, envs=self.envs / folder, shared_envs=shared)

    @property
    def operator_core(self) -> int | None:
        return self.cores[-1] if self.cores else None

    @property
    def server_core(self) -> int | None:
        return self.cores[0] if self.cores else None

    def scaled(self, count: int) -> int:
        return max(10, int(count * self.scale))
