"""Spare processes of ``kopf run --reload``: all modules are imported there, but no handlers.

Most of the time of a start goes to imports which are the same in every process. So, while
an operator works, its successor imports them, and then waits for its turn: for one byte in a pipe.
If the parent closes the pipe instead, the successor exits.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

MARK = "_KOPF_SPARE"
"""The variable of a spare process: the pipe to wait at, and the time of the start."""

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
        """Let the process load the files and go on; ``None`` if it has died meanwhile."""
        if self._process.poll() is not None:
            os.close(self._writing)
            return None
        with contextlib.suppress(BrokenPipeError):  # it is dying: its exit code shows that
            os.write(self._writing, b"!")
        os.close(self._writing)
        return self._process

    def discard(self) -> None:
        """Kill the process: it has no work to finish."""
        os.close(self._writing)
        self._process.kill()
        self._process.wait()


def wait_for_turn() -> None:
    """In a spare process, import the clients, and wait; in other processes, do nothing.

    If an imported file has changed since the start (e.g. a user has installed a package),
    the same process begins from scratch, and imports everything again.
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
    """Import the libraries of the default login handlers, which deal with broken ones later."""
    from kopf_cogs.clients.piggyback import import_clients

    with contextlib.suppress(Exception):
        import_clients()


def _is_outdated(since: int) -> bool:
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return any(_is_changed(file, since) for file in files if file is not None)


def _is_changed(path: str, since: int) -> bool:
    try:
        # Installers can keep the time of modification.
        return os.stat(path).st_ctime_ns > since - GRANULARITY
    except OSError:
        return False  # the module is in an archive
