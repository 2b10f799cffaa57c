"""``kopf run --reload``: source files are changed while the operator works, really."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import click
import pytest

from kopf_cogs.clients import piggyback
from kopf_cogs.clients.kubeconfig import read_kubeconfig
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.resources import CRDS
from kopf_kits.cli import reloading, spares
from kopf_kits.cli.sources import FOLDERS_LIMIT, find_changes, find_roots, scan
from kopf_kits.cli.spares import Spare

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
def running(
    path: Path, *args: str, start: Sequence[str] = ("-m", "kopf_kits.cli")
) -> Iterator[Running]:
    command = [sys.executable, *start, "run", "--reload", "--sandbox", *args]
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


@pytest.mark.long
@pytest.mark.timeout(600)
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


MODEL = """
import dataclasses
from kopf_cogs.structs.definitions import resource

@dataclasses.dataclass
class Spec:
    {fields}

@resource("boxes.example.com/v1")
@dataclasses.dataclass
class Box:
    spec: Spec
"""


def read_fields(lines: list[str]) -> set[str]:
    """The fields of the kind as they are defined in the sandbox of the command."""
    [line] = [line for line in lines if "The sandbox is ready" in line]
    path = Path(line.rpartition("KUBECONFIG=")[2])

    async def read() -> set[str]:
        async with Client(read_kubeconfig([path])) as client:
            found = await client.get(CRDS.get_url(name="boxes.example.com"))
        schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        return {*schema["properties"]["spec"]["properties"]}

    return asyncio.run(read())


@pytest.mark.long
@pytest.mark.timeout(600)
def test_changed_definitions_are_applied_again_unless_they_break_something(tmp_path: Path) -> None:
    path = tmp_path / "handlers.py"
    one, two = MODEL.format(fields="a: int = 1"), MODEL.format(fields="a: int = 1; b: int = 2")
    broken = MODEL.format(fields="b: int = 2")
    write(path, OPERATOR.format(title="the first", extra=one))
    with running(path, "--apply-crds") as process:
        process.read_until("It is the first.")
        process.read_until("The definitions are applied: boxes.example.com")
        assert read_fields(process.lines) == {"a"}
        write(path, OPERATOR.format(title="the second", extra=two))
        process.read_until("It is the second.")
        process.read_until("The definitions are applied: boxes.example.com")
        assert read_fields(process.lines) == {"a", "b"}
        write(path, OPERATOR.format(title="broken", extra=broken))
        process.read_until(".spec.a: the field is removed")
        process.read_until("Waiting for the files to be changed.")
        assert read_fields(process.lines) == {"a", "b"}
        write(path, OPERATOR.format(title="the third", extra=two))
        process.read_until("It is the third.")
        assert process.stop(signal.SIGTERM) == 0
    assert not any("Traceback" in line for line in process.lines)


@pytest.mark.long
@pytest.mark.timeout(600)
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


def test_run1_locks_of_editors_are_not_sources(tmp_path: Path) -> None:
    """Emacs locks a changed file by a symbolic link to nothing."""
    (tmp_path / ".#handlers.py").symlink_to("user@host.1:2")
    (tmp_path / "endless.py").symlink_to("endless.py")
    (tmp_path / "handlers.py").write_text("")
    assert list(scan([str(tmp_path)])) == [str(tmp_path / "handlers.py")]


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


NO_CLIENTS = """
from kopf_cogs.clients import piggyback
from kopf_cogs.clients.kubeconfig import read_kubeconfig
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.resources import CRDS
piggyback.import_clients = lambda: None  # they are slow to import
"""

ANNOUNCING = f"""
import os
from kopf_kits.cli import __main__, reloading, spares
{NO_CLIENTS}
reloading.SETTLING = 0
if spares.MARK in os.environ:
    os.write(1, b"spare %d\\n" % os.getpid())  # as a whole: others print at the same time
__main__.start()
"""


@pytest.mark.long
@pytest.mark.timeout(600)
def test_next_process_is_prepared_before_the_change(tmp_path: Path) -> None:
    path = tmp_path / "handlers.py"
    write(path, OPERATOR.format(title="the first", extra=""))
    telling = 'import os; os.write(1, b"loaded by %d\\n" % os.getpid())'
    with running(path, start=["-c", ANNOUNCING]) as process:
        process.read_until("spare")
        spare = process.lines[-1].split()[-1]
        write(path, OPERATOR.format(title="the second", extra=telling))
        process.read_until("It is the second.")
        assert process.stop(signal.SIGTERM) == 0
    assert any(f"loaded by {spare}" in line for line in process.lines)
    assert not any("Traceback" in line for line in process.lines)


WAITING = """
from kopf_kits.cli import spares
{setup}
with open({log!r}, "a") as log:
    print("begun", file=log)
spares.wait_for_turn()
with open({log!r}, "a") as log:
    print("its turn", file=log)
"""


def make_spare(tmp_path: Path) -> tuple[Spare, Path]:
    log = tmp_path / "log"
    command = [sys.executable, "-c", WAITING.format(log=str(log), setup=NO_CLIENTS)]
    return Spare(command, dict(os.environ)), log


def test_spare_goes_on_when_it_is_its_turn(tmp_path: Path) -> None:
    spare, log = make_spare(tmp_path)
    process = spare.start()
    assert process is not None
    assert process.wait(timeout=60) == 0
    assert log.read_text() == "begun\nits turn\n"


def test_spare_does_nothing_when_it_is_not_needed(tmp_path: Path) -> None:
    spare, log = make_spare(tmp_path)
    spare.discard()
    assert not log.exists() or "its turn" not in log.read_text()


def test_spare_ends_when_its_parent_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    monkeypatch.setenv(spares.MARK, f"{reading} 0")
    monkeypatch.setattr(piggyback, "import_clients", lambda: None)
    with pytest.raises(SystemExit) as info:
        spares.wait_for_turn()
    assert info.value.code == 0
    assert spares.MARK not in os.environ  # it is not for the processes of its own


def test_dead_spare_is_not_used(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit(1)"]
    spare = Spare(command, dict(os.environ))
    os.waitpid(spare.pid, 0)
    assert spare.start() is None


def test_spare_begins_anew_if_what_it_has_imported_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed = []
    reading, writing = os.pipe()
    os.write(writing, b"!")
    os.close(writing)
    monkeypatch.setenv(spares.MARK, f"{reading} {time.time_ns()}")
    monkeypatch.setattr(piggyback, "import_clients", lambda: None)
    monkeypatch.setattr(os, "execve", lambda *args: executed.append(args))
    module = ModuleType("imported")
    module.__file__ = str(tmp_path / "imported.py")
    monkeypatch.setitem(sys.modules, "imported", module)
    Path(module.__file__).write_text("")
    os.utime(module.__file__, (0, 0))  # as packages are unpacked with the times of their files
    spares.wait_for_turn()
    ((_, command, env),) = executed
    assert command == reloading.make_command()
    assert reloading.MARK in env
    assert spares.MARK not in env
