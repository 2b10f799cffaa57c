"""The user's side of the supervisor: the servers are started through it, and die with it."""

from __future__ import annotations

import json
import os
import pathlib
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from .errors import EnvtestError

TAIL = 8  # lines of the log in the error messages
STOP_TIMEOUT = 30.0


class Servers:
    """The running servers of one control plane.

    They live until this object is closed, or until this process ends, even by a signal:
    see :mod:`.supervisor`.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__()
        self.folder = folder
        self.pids: dict[str, int] = {}
        self._names: list[str] = []
        self._killed: set[str] = set()
        self._buffer = b""
        script = pathlib.Path(__file__).with_name("supervisor.py")
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", os.fspath(script), os.fspath(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the user's process, which then stops all
        )

    def start(self, name: str, argv: Sequence[str | os.PathLike[str]]) -> None:
        """Start one more server. If it dies, the next :meth:`check` raises."""
        self._names.append(name)
        args = [os.fspath(arg) for arg in argv]
        command = {"name": name, "argv": args, "log": os.fspath(self.get_log(name))}
        assert self._supervisor.stdin is not None
        try:
            self._supervisor.stdin.write(json.dumps(command).encode() + b"\n")
            self._supervisor.stdin.flush()
        except OSError as e:
            raise EnvtestError(f"{name} is not started: its supervisor has been killed.") from e

    def kill(self, name: str) -> None:
        """Kill a server as in a crash, and wait for its end; then it can be started again."""
        self._killed.add(name)
        os.kill(self.pids[name], signal.SIGKILL)
        deadline = time.monotonic() + STOP_TIMEOUT
        while name in self.pids and time.monotonic() < deadline:
            self.check(timeout=deadline - time.monotonic())

    def check(self, timeout: float = 0) -> None:
        """Wait for news of the servers, and raise if one of them is dead or was not started."""
        assert self._supervisor.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._supervisor.stdout, selectors.EVENT_READ)
            if not selector.select(timeout):
                return
        chunk = os.read(self._supervisor.stdout.fileno(), 65536)
        if not chunk:
            raise EnvtestError("The servers are gone: their supervisor has been killed.")
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            self._handle(**json.loads(line))

    def _handle(
        self, name: str, pid: int | None = None, code: int | None = None, error: str | None = None
    ) -> None:
        if pid is not None:
            self.pids[name] = pid
        elif error is not None:
            raise EnvtestError(f"{name} cannot be started: {error}.")
        elif name in self._killed:
            self._killed.discard(name)
            self.pids.pop(name, None)
        else:
            ending = f"was killed by signal {-code}" if code and code < 0 else f"exited ({code})"
            raise EnvtestError(f"{name} {ending}{self.quote_log(name)}")

    def get_log(self, name: str) -> pathlib.Path:
        return self.folder / f"{name}.log"

    def read_log(self, name: str) -> str:
        try:
            return self.get_log(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def quote_log(self, name: str) -> str:
        lines = self.read_log(name).strip().splitlines()[-TAIL:]
        if not lines:
            return " and said nothing."
        return "; the end of its log:\n" + "\n".join(f"  {line[:500]}" for line in lines)

    def close(self) -> None:
        """Stop the servers in the reverse order of their start, and remove their files."""
        process = self._supervisor
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.close()
        except OSError:
            pass
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
