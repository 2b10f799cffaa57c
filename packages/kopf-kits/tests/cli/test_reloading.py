"""``kopf run --reload``: source files are changed while the operator works, really."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from kopf_kits.cli import reloading
from kopf_kits.cli.sources import FOLDERS_LIMIT, find_changes, find_roots, scan

OPERATOR = """
from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_core.intents import decorators
{extra}

decorators.login()(login_with_kubeconfig)  # others import much, and cannot be interrupted

@decorators.startup()
def startup_fn(**_):
    print("It is {title}.", flush=True)
"""


class Running:
    """A command line whose output is read as it comes."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []

    def read_until(self, marker: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if marker in line:
                return
        raise AssertionError(f"No {marker!r} in {self.lines!r}")

    def stop(self, signum: signal.Signals) -> int:
        self.process.send_signal(signum)
        assert self.process.stdout is not None
        self.lines += self.process.stdout.read().splitlines()
        return self.process.wait(timeout=60)


@contextmanager
def running(path: Path, *args: str) -> Iterator[Running]:
    command = [sys.executable, "-m", "kopf_kits.cli", "run", "--reload", "--sandbox", *args]
    process = subprocess.Popen(
        [*command, str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield Running(process)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=60)
        if process.stdout is not None:
            process.stdout.close()


def write(path: Path, text: str) -> None:
    """As editors do: the file is never seen half-written."""
    new = path.with_name("new")
    new.write_text(text)
    new.replace(path)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_changes_are_reloaded_and_mistakes_are_survived(
    tmp_path: Path, signum: signal.Signals
) -> None:
    path = tmp_path / "handlers.py"
    write(path, OPERATOR.format(title="the first", extra=""))
    with running(path) as process:
        process.read_until("It is the first.")
        write(path, OPERATOR.format(title="the second", extra=""))
        process.read_until("It is the second.")
        write(path, "def broken(:")
        process.read_until("handlers.py:1: SyntaxError")
        process.read_until("Waiting for the files to be changed.")
        write(tmp_path / "helper.py", "")  # a new file beside, which is needed from now on
        write(path, OPERATOR.format(title="the third", extra="import helper"))
        process.read_until("It is the third.")
        assert process.stop(signum) == 0
    ready = [line for line in process.lines if "The sandbox is ready" in line]
    assert len(ready) == 1  # the cluster stays
    assert not any("Traceback" in line for line in process.lines)


@pytest.mark.timeout(120)
def test_stopping_is_quiet_when_there_is_nothing_to_run(tmp_path: Path) -> None:
    path = tmp_path / "handlers.py"
    with running(path) as process:
        process.read_until("does not exist")
        process.read_until("Waiting for the files to be changed.")
        process.stop(signal.SIGINT)
    assert not any("Traceback" in line for line in process.lines)


def test_sources_are_of_folders_and_packages(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    (tmp_path / "package" / "inner").mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").write_text("raise Exception('it is not imported')")
    other = tmp_path / "other" / "handlers.py"
    assert find_roots([str(other)], ["package.inner", "absent"]) == [
        str(tmp_path),
        str(tmp_path / "other"),
        str(tmp_path / "package"),
    ]


def test_environments_and_caches_are_not_sources(tmp_path: Path) -> None:
    for name in (".git", "__pycache__", "node_modules", "env", "inner"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.py").write_text("")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    (tmp_path / "data.json").write_text("")
    assert list(scan([str(tmp_path), str(tmp_path / "absent")])) == [
        str(tmp_path / "inner" / "file.py")
    ]


def test_folders_are_limited(tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text("")
    for index in range(FOLDERS_LIMIT):
        (tmp_path / f"d{index}").mkdir()
        (tmp_path / f"d{index}" / "file.py").write_text("")
    found = scan([str(tmp_path)])
    assert str(tmp_path / "handlers.py") in found
    assert len(found) == FOLDERS_LIMIT


def test_changes_are_of_times_sizes_and_presence() -> None:
    before = {"same": (1, 1), "touched": (1, 1), "resized": (1, 1), "removed": (1, 1)}
    after = {"same": (1, 1), "touched": (2, 1), "resized": (1, 2), "added": (1, 1)}
    assert find_changes(before, after) == ["added", "removed", "resized", "touched"]


@pytest.mark.parametrize(
    ("reload", "dev", "terminal", "expected"),
    [
        (None, False, True, False),
        (None, True, True, True),
        (None, True, False, False),  # scripts and containers with --dev are as they were
        (False, True, True, False),
        (True, False, False, True),
    ],
)
def test_development_reloads_in_terminals_only(
    monkeypatch: pytest.MonkeyPatch, reload: bool | None, dev: bool, terminal: bool, expected: bool
) -> None:
    monkeypatch.setattr(sys, "gettrace", lambda: None)
    monkeypatch.setattr(sys, "stdin", Terminal(terminal))
    monkeypatch.setattr(sys, "stderr", Terminal(terminal))
    assert reloading.is_wanted(reload, dev) is expected


class Terminal:
    def __init__(self, is_terminal: bool) -> None:
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def test_debuggers_are_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "gettrace", lambda: object())
    monkeypatch.setattr(sys, "stdin", Terminal(True))
    monkeypatch.setattr(sys, "stderr", Terminal(True))
    assert not reloading.is_wanted(None, dev=True)


def test_threads_cannot_reload() -> None:
    errors: list[Exception] = []

    def body() -> None:
        try:
            reloading.is_wanted(True, dev=False)
        except click.UsageError as e:
            errors.append(e)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert len(errors) == 1


def test_supervision_is_not_inherited_by_grandchildren(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(reloading.MARK, "1")
    assert reloading.is_supervised()
    assert reloading.MARK not in os.environ
    assert not reloading.is_supervised()
