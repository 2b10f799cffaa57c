"""Pinned child processes, and what the kernel knows of them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True, slots=True)
class Usage:
    """What the process has used till now."""

    cpu: float  # seconds, user and system, all threads, also of the gone ones
    rss: int  # bytes
    peak: int  # bytes


class Child:
    """A process pinned to one core since its very start."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        core: int | None,
        log: IO[bytes],
        cwd: Path | None = None,
        stdout: int | None = None,
    ) -> None:
        own = pin(core)  # inherited by the child, thus there is no moment when it is not pinned
        try:
            self.process = subprocess.Popen(
                command,
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log if stdout is None else stdout,
                stderr=log,
            )
        finally:
            unpin(own)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def cpu(self) -> float:
        return read_cpu(self.pid)

    def usage(self) -> Usage:
        return read_usage(self.pid)

    @property
    def is_waiting_for_cpu(self) -> bool:
        """True if it wants to run: then, being idle means only that others took the core."""
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "R"

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def stop(self, patience: float = 5.0) -> None:
        self.process.terminate()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def read_cpu(pid: int) -> float:
    # The kernel's clock of another process's CPU time: nanoseconds instead of ticks of 10 ms.
    return time.clock_gettime((~pid << 3) | 2)


def read_usage(pid: int) -> Usage:
    status = Path(f"/proc/{pid}/status").read_text()
    return Usage(read_cpu(pid), kilobytes(status, "VmRSS"), kilobytes(status, "VmHWM"))


def kilobytes(status: str, name: str) -> int:
    for line in status.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def pin(core: int | None) -> set[int] | None:
    if core is None:
        return None
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    return own


def unpin(own: set[int] | None) -> None:
    if own is not None:
        os.sched_setaffinity(0, own)
