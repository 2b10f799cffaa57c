"""``kopf run --reload``: the operator is a process of its own, started anew when the files change.

Python cannot reliably replace imported code, so the supervisor replaces the process. The operator
exits as it does by a signal: handlers finish, objects keep the progress. The local cluster, if
there is one, stays in this process. The supervisor prepares the next process ahead: see ``spares``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from types import FrameType

import click

from kopf_kits.cli.interrupts import blocked_interrupts
from kopf_kits.cli.sources import Stamps, find_changes, find_roots, scan
from kopf_kits.cli.spares import Spare

MARK = "_KOPF_RELOADED"
"""The variable that tells the operator's process that it is under supervision."""

POLLING = 0.1  # seconds between the looks at the files
SETTLING = 1.0  # seconds for the operator to start before its successor takes the processor
PATIENCE = 3.0  # seconds to exit after each signal: two are to terminate, the third kills
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def is_wanted(reload: bool | None, dev: bool) -> bool:
    """Whether to reload: by the option, or in development at a terminal with no debugger."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if reload and not in_main_thread:
        raise click.UsageError("Use --reload only in the command line: it starts processes.")
    if reload is not None:
        return reload
    is_watched = sys.stdin.isatty() and sys.stderr.isatty()
    return dev and is_watched and in_main_thread and sys.gettrace() is None


def is_supervised() -> bool:
    """Whether a supervisor runs this process. Only the first call tells it; no child knows it."""
    return os.environ.pop(MARK, None) is not None


def run_reloading(paths: Iterable[str], modules: Iterable[str]) -> int:
    """Run the command of this process in other ones until a signal; return the exit code."""
    return _Supervisor(make_command(), find_roots(paths, modules)).run()


def make_command() -> list[str]:
    """The command line of this process."""
    return [sys.executable, *sys.orig_argv[1:]]


class _Supervisor:
    """Starts the operator, restarts it when the files change, and stops it at signals."""

    def __init__(self, command: list[str], roots: list[str]) -> None:
        self._command = command
        self._roots = roots
        self._spare: Spare | None = None
        self._env = {**os.environ, MARK: "1"}
        self._signals = 0  # the signals that have asked the supervisor to exit
        self._passed = 0  # the part of them that the operator has got

    def run(self) -> int:
        with self._handled_signals(), contextlib.closing(self):
            while True:
                known = scan(self._roots)
                child = self._start()
                changes = self._wait_for_changes(child, known)
                if not changes:
                    return max(child.wait(), 0)  # a negative code is of a signal: a proper exit
                names = ", ".join(os.path.relpath(path) for path in changes)
                click.echo(f"Reloading, as it is changed: {names}", err=True)
                _end(child)

    def close(self) -> None:
        """Discard the spare process: the operator does not start anymore."""
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.discard()

    def _start(self) -> subprocess.Popen[bytes]:
        spare, self._spare = self._spare, None
        if spare is not None and (process := spare.start()) is not None:
            return process
        with blocked_interrupts():
            return subprocess.Popen(self._command, env=self._env)

    def _prepare_next(self) -> None:
        with blocked_interrupts(), contextlib.suppress(OSError):
            self._spare = Spare(self._command, self._env)

    def _wait_for_changes(self, child: subprocess.Popen[bytes], known: Stamps) -> list[str]:
        """The changed files; none if the operator has exited with zero, or at a signal."""
        is_told = False
        settled = time.monotonic() + SETTLING
        while True:
            code = child.poll()
            if code == 0 or (code is not None and self._signals):
                return []
            if self._signals:
                self._pass_signals(child)
            elif changes := find_changes(known, scan(self._roots)):
                return changes
            elif code is not None and not is_told:
                click.echo("Waiting for the files to be changed.", err=True)
                is_told = True
            elif self._spare is None and time.monotonic() >= settled:
                self._prepare_next()
            time.sleep(POLLING)

    def _pass_signals(self, child: subprocess.Popen[bytes]) -> None:
        while self._passed < self._signals:
            self._passed += 1
            child.terminate()

    @contextlib.contextmanager
    def _handled_signals(self) -> Iterator[None]:
        previous = {signum: signal.signal(signum, self._on_signal) for signum in SIGNALS}
        try:
            yield
        finally:
            for signum, handler in previous.items():
                signal.signal(signum, handler)

    def _on_signal(self, _signum: int, _frame: FrameType | None) -> None:
        self._signals += 1


def _end(child: subprocess.Popen[bytes]) -> None:
    for action in (child.terminate, child.terminate, child.kill):
        action()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(PATIENCE)
            return
