"""The command line as a whole process: what signals do to it."""

import json
import logging
import os
import signal
import subprocess
import sys

import pytest

from kopf_kits.cli import __main__ as process
from kopf_kits.cli import groups
from kopf_kits.logs import configure, preserved_logging


@pytest.fixture(autouse=True)
def _handlers(monkeypatch):
    """The signal handlers are of the whole process: leave them as they were."""
    monkeypatch.setattr(sys, "argv", ["kopf", "run"])
    previous = {signum: signal.getsignal(signum) for signum in process.SIGNALS}
    yield
    for signum, handler in previous.items():
        signal.signal(signum, handler)


@pytest.mark.parametrize("signum", process.SIGNALS)
def test_f1_signals_are_quiet_exits(monkeypatch, signum):
    monkeypatch.setattr(groups, "main", lambda **_: signal.raise_signal(signum))
    process.start()
    assert signal.getsignal(signum) is signal.SIG_IGN


@pytest.mark.parametrize("signum", process.SIGNALS)
def test_f1_signals_in_the_very_end_are_quiet_exits(monkeypatch, signum):
    """One more signal comes when everything is done, but right before they are ignored."""
    late = [signum]

    def install(installed, handler):
        if handler is signal.SIG_IGN and late:
            signal.raise_signal(late.pop())
        return original(installed, handler)

    original = signal.signal
    monkeypatch.setattr(groups, "main", lambda **_: None)
    monkeypatch.setattr(signal, "signal", install)
    process.start()
    assert not late
    assert signal.getsignal(signum) is signal.SIG_IGN


ABANDONING = """
import atexit, sys, threading
from kopf_core.reactor.life.exiting import AbandonedError
from kopf_kits.cli import __main__, groups

@groups.main.command()
def abandon():
    raise AbandonedError(["something"], 1)

atexit.register(print, "registered")
threading.Thread(target=threading.Event().wait).start()
sys.argv = ["kopf", "abandon"]
__main__.start()
"""


def test_f2_r39_processes_do_not_wait_for_what_they_have_abandoned():
    done = subprocess.run(
        [sys.executable, "-c", ABANDONING], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 1
    assert done.stdout == "registered\n"
    assert done.stderr == (
        "Error: The operator has exited, but this has not ended in 1 seconds, "
        "and is left as is: something.\n"
    )


LOSING = """
import kopf, signal

class Lossy:
    def __del__(self):  # the interpreter loses exceptions here, as it does in its own locks
        signal.raise_signal(signal.SIGTERM)

Lossy()

@kopf.on.startup()
def begin(**_):
    print("begun", flush=True)
    raise SystemExit(1)
"""


def test_k16_signals_are_not_lost_while_the_process_starts(tmp_path):
    (tmp_path / "handlers.py").write_text(LOSING)
    command = [sys.executable, "-m", "kopf_kits.cli", "run", "-A", str(tmp_path / "handlers.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "_Leave" in done.stderr  # it is lost
    assert (done.returncode, done.stdout) == (0, "")


CATCHING = """
import signal, time

class Lossy:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

if {is_lost}:
    Lossy()
else:
    try:
        signal.raise_signal(signal.SIGTERM)
    except BaseException:
        pass
print("loading", flush=True)
time.sleep(3600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="There are no such signals.")
@pytest.mark.parametrize("is_lost", [False, True], ids=["caught", "lost"])
def test_k16_the_second_signal_ends_a_process_that_is_starting(tmp_path, is_lost):
    (tmp_path / "handlers.py").write_text(CATCHING.format(is_lost=is_lost))
    command = [sys.executable, "-m", "kopf_kits.cli", "run", "-A", str(tmp_path / "handlers.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"loading\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=120) == 0
        finally:
            process.kill()


FAILING = """
import kopf

@kopf.on.startup(retries=1)
def fail(**_):
    raise ValueError("the text")
"""


def test_k44_failed_startups_are_told_with_the_tracebacks_of_users_code(tmp_path):
    (tmp_path / "handlers.py").write_text(FAILING)
    command = [sys.executable, "-m", "kopf_kits.cli", "run", "-A", str(tmp_path / "handlers.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    logged, _, told = done.stderr.partition("\nError: ")
    assert "Traceback (most recent call last):" in logged
    assert f'File "{tmp_path / "handlers.py"}", line 6, in fail' in logged
    assert logged.endswith("ValueError: the text")
    assert told.startswith("The startup activity has failed: 'fail' (")
    assert len(told.splitlines()) == 1


UNREAD = """
import kopf, sys

@kopf.on.startup(id="flood" * 100)  # the last line of the process is longer than those of the log
async def flood(logger, settings, **_):
    settings.process.ultimate_exiting_timeout = 0
    print("flooding", flush=True)
    while True:
        logger.info("x")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="There are no such signals.")
@pytest.mark.parametrize("number", [1, 2, 3])
def test_k16_exits_are_bounded_though_nobody_reads_the_log(tmp_path, number):
    (tmp_path / "handlers.py").write_text(UNREAD)
    command = [sys.executable, "-m", "kopf_kits.cli", "run", "-A", str(tmp_path / "handlers.py")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe) as process:
        try:
            assert process.stdout.readline() == b"flooding\n"
            for _ in range(number):
                process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=120) == 1
        finally:
            process.kill()


CLOSED = """
import fcntl, os, json, sys, kopf

@kopf.on.startup()
def look(**_):
    names = ["stdin", "stdout", "stderr"]
    modes = [fcntl.fcntl(number, fcntl.F_GETFD) for number in range(3)]
    with open(os.environ["SEEN"], "w") as file:
        json.dump([getattr(sys, name) is not None for name in names], file)
    print("printed")
    sys.exit(3)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Descriptors are not closed by numbers there.")
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_k17_closed_streams_are_not_needed(tmp_path, closed):
    (tmp_path / "handlers.py").write_text(CLOSED)
    command = [sys.executable, "-m", "kopf_kits.cli", "run", "-A", str(tmp_path / "handlers.py")]
    redirects = " ".join(f"{number}>&-" for number in closed)
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirects}', "sh", *command],
        env={**os.environ, "SEEN": str(tmp_path / "seen")},
        timeout=120,
    )
    assert done.returncode == 3
    assert json.loads((tmp_path / "seen").read_text()) == [True, True, True]


def test_k17_logs_can_be_configured_with_no_stderr(monkeypatch):
    with preserved_logging():
        monkeypatch.setattr(sys, "stderr", None)
        configure()
        logging.getLogger("some").error("This goes nowhere.")
