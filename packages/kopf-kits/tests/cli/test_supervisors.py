"""The supervisor of ``kopf run --processes``, with processes that are no operators."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from idleness import until

from kopf_kits.cli import processes
from kopf_kits.cli.processes import Supervisor

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="There are no such signals."),
]

EXITING = """
import os, signal, socket, sys

fileno, number, _ = os.environ["_KOPF_LINK"].split()
link = socket.socket(fileno=int(fileno))
if number == "2":
    open(sys.argv[1]).close()  # wait for the other process
    os.kill(os.getpid(), signal.SIGKILL)
signal.signal(signal.SIGTERM, lambda *_: link.sendall(b'{"exiting": true}\\n'))
open(sys.argv[1], "w").close()
for line in link.makefile():
    if "alone" in line:
        sys.exit(0)
"""

KILLED = """
import os, signal, sys

try:
    open(sys.argv[1], "x").close()
except FileExistsError:
    sys.exit(3)
os.kill(os.getpid(), signal.SIGRTMIN + 6)
"""

SUSPENDED = """
import os, signal, sys

signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
os.kill(os.getpid(), signal.SIGSTOP)
signal.pause()
"""


def notice(monkeypatch: pytest.MonkeyPatch) -> asyncio.Future[str]:
    """The first error in the log of the supervisor."""
    told = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(processes.logger, "error", told.set_result)
    return told


async def test_o_the_exit_does_not_wait_for_a_process_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "RESTARTING", 3600.0)
    os.mkfifo(tmp_path / "ready")
    told = notice(monkeypatch)
    supervisor = Supervisor([sys.executable, "-c", EXITING, str(tmp_path / "ready")], 2)
    running = asyncio.create_task(supervisor.run())
    assert await told == "Process 2 was killed by SIGKILL."
    supervisor.stop()
    assert await running == 0


async def test_o_processes_killed_by_signals_without_names_are_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "RESTARTING", 0.001)
    told = notice(monkeypatch)
    supervisor = Supervisor([sys.executable, "-c", KILLED, str(tmp_path / "lived")], 1)
    assert await supervisor.run() == 3
    assert await told == "Process 1 was killed by the signal 40."


async def test_o_the_exit_does_not_wait_for_a_process_that_is_suspended() -> None:
    supervisor = Supervisor([sys.executable, "-c", SUSPENDED], 1)
    running = asyncio.create_task(supervisor.run())
    worker = supervisor._workers[1]
    await until(lambda: worker.process is not None)
    assert worker.process is not None
    await asyncio.to_thread(os.waitid, os.P_PID, worker.process.pid, os.WSTOPPED | os.WNOWAIT)
    supervisor.stop()
    assert await running == 0
