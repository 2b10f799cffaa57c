"""The demo ends by itself or by Ctrl+C, and shows what it is for."""

import functools
import signal
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).resolve().parents[1] / "demo.py"


def test_demo_ends_by_itself() -> None:
    done = subprocess.run([sys.executable, str(DEMO)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "And here we are! Creating: " in done.stdout
    assert "message: hello world" in done.stdout
    assert "Normal  Greeting" in done.stdout
    assert "Deleting: kopf-example-1" in done.stdout
    assert "Handler 'create_fn' succeeded." in done.stderr
    assert max(len(line) for line in (done.stdout + done.stderr).splitlines()) <= 100


def test_demo_can_be_interrupted() -> None:
    command = [sys.executable, str(DEMO)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # Scripts start their background jobs with this signal ignored.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "Create an object" in line:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 0
    assert "Interrupted." in rest
