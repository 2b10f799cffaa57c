"""The process that owns the servers of one control plane, so that none of them outlives its user.

It is run as a script of its own, with only the standard library. It reads commands from its stdin,
one JSON object a line, and reports on its stdout in the same way. When stdin ends, e.g. as
the user's process was killed, it stops the servers in the reverse order of their start. Then it
removes the folder with their files, and exits.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pathlib
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

GRACE = 5.0  # seconds for a server to exit by itself when asked to
PR_SET_PDEATHSIG = 1


class Supervisor:
    """Starts, watches, and stops the servers as it is told."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder
        self.servers: dict[str, subprocess.Popen[bytes]] = {}
        self.stopping = False
        self._buffer = b""
        self._die_with_parent = make_death_wish()

    def run(self) -> None:
        wakeup_out, wakeup_in = socket.socketpair()
        wakeup_out.setblocking(False)
        wakeup_in.setblocking(False)
        signal.set_wakeup_fd(wakeup_in.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_term)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
                selector.register(wakeup_out, selectors.EVENT_READ)
                while not self.stopping:
                    for key, _ in selector.select():
                        if key.fileobj is wakeup_out:
                            wakeup_out.recv(1024)
                            self.report_exits()
                        else:
                            self.read_commands()
        finally:
            self.stop()

    def _on_term(self, *_: object) -> None:
        self.stopping = True

    def read_commands(self) -> None:
        chunk = os.read(sys.stdin.fileno(), 65536)
        if not chunk:
            self.stopping = True
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            self.start(**json.loads(line))

    def start(self, name: str, argv: list[str], log: str) -> None:
        try:
            with open(log, "wb") as output:
                self.servers[name] = subprocess.Popen(
                    argv,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    preexec_fn=self._die_with_parent,
                )
        except OSError as e:
            report(name=name, error=e.strerror or str(e))
        else:
            report(name=name, pid=self.servers[name].pid)

    def report_exits(self) -> None:
        for name, server in list(self.servers.items()):
            if server.poll() is not None:
                del self.servers[name]
                report(name=name, code=server.returncode)

    def stop(self) -> None:
        for server in reversed(self.servers.values()):
            server.terminate()
            try:
                server.wait(GRACE)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        remove_folder(self.folder)


def report(**message: Any) -> None:
    """Tell the user's process, if it is still there to read it."""
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), json.dumps(message).encode() + b"\n")


def make_death_wish() -> Callable[[], None] | None:
    """Let the kernel kill the servers if this very process is killed. Only Linux can do so.

    The user's process cannot do so: there, the kernel ties it to the life of the starting thread.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def die_with_parent() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return die_with_parent


def remove_folder(folder: str) -> None:
    """Remove the folder; the last files of a server may appear while it is being removed."""
    for _ in range(10):
        shutil.rmtree(folder, ignore_errors=True)
        if not pathlib.Path(folder).exists():
            return
        time.sleep(0.05)


if __name__ == "__main__":
    Supervisor(sys.argv[1]).run()
