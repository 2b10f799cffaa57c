"""The command line as a whole process: what signals do to it."""

import signal
import subprocess
import sys

import pytest

from kopf_kits.cli import __main__ as process
from kopf_kits.cli import groups


@pytest.fixture(autouse=True)
def _handlers():
    """The signal handlers are of the whole process: leave them as they were."""
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
from kopf_core.reactor.exiting import AbandonedError
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
