"""Spare processes of ``kopf run --reload``: all modules are imported there, but no handlers.

Most of the time of a start goes to imports which are the same in every process. So, while
an operator works, its successor imports them, and then waits for its turn: for one byte in a pipe.
If the pipe is closed instead, the successor is not needed anymore.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

MARK = "_KOPF_SPARE"
"""The variable that tells a process that it is a spare one: of which pipe, and since when."""

GRANULARITY = 20_000_000
"""By how much (in nanoseconds) the times of files can be behind the clock, at most."""


class Spare:
    """A process that waits for its turn, as its parent sees it."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        reading, self._writing = os.pipe()
        try:
            mark = f"{reading} {time.time_ns()}"
            self._process = subprocess.Popen(command, env={**env, MARK: mark}, pass_fds=[reading])
        except BaseException:
            os.close(self._writing)
            raise
        finally:
            os.close(reading)

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> subprocess.Popen[bytes] | None:
        """It is its turn: let it load the files and go on; nothing if it has died meanwhile."""
        if self._process.poll() is not None:
            os.close(self._writing)
            return None
        with contextlib.suppress(BrokenPipeError):  # it is dying: this is seen by its exit code
            os.write(self._writing, b"!")
        os.close(self._writing)
        return self._process

    def discard(self) -> None:
        """It is not needed; there is nothing in it that must be finished."""
        os.close(self._writing)
        self._process.kill()
        self._process.wait()


def wait_for_turn() -> None:
    """In a spare process, import what is going to be needed, and wait; in others, do nothing.

    If anything of what is imported has been changed since (as packages were installed meanwhile),
    it is all imported again, in the same process but from scratch.
    """
    mark = os.environ.pop(MARK, None)
    if mark is None:
        return
    pipe, since = (int(part) for part in mark.split())
    _import_clients()
    told = os.read(pipe, 1)
    os.close(pipe)
    if not told:
        raise SystemExit(0)
    if _is_outdated(since):
        from kopf_kits.cli import reloading

        env = {**os.environ, reloading.MARK: "1"}
        os.execve(sys.executable, reloading.make_command(), env)


def _import_clients() -> None:
    """What the default login handlers use. It is their business if these are broken."""
    from kopf_cogs.clients.piggyback import import_clients

    with contextlib.suppress(Exception):
        import_clients()


def _is_outdated(since: int) -> bool:
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return any(_is_changed(file, since) for file in files if file is not None)


def _is_changed(path: str, since: int) -> bool:
    try:
        # Installers can keep the other time.
        return os.stat(path).st_ctime_ns > since - GRANULARITY
    except OSError:
        return False  # it is of an archive
