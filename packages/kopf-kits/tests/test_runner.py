"""Operators in the background of tests."""

import asyncio
import importlib.util
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from free_ports import find_free_port

from kopf_core.intents import decorators
from kopf_core.intents.registries import (
    OperatorRegistry,
    get_default_registry,
    set_default_registry,
)
from kopf_kits.runner import KopfRunner

HANDLERS = """
import kopf
print("loaded")

@kopf.on.startup()
def startup_fn(logger, **_):
    logger.info("started up")

@kopf.on.cleanup()
def cleanup_fn(logger, **_):
    logger.info("cleaned up")
"""

BROKEN_SERVER = """
import time
from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_core.intents import decorators

@decorators.startup()
def startup_fn(settings, **_):
    settings.admission.server = serve

async def serve(fn):
    raise ZeroDivisionError("boo")
    yield

@decorators.validate("pods")
def validate_fn(**_):
    pass

def login_fn(**kwargs):
    time.sleep(0.1)
    return login_with_kubeconfig(**kwargs)

for number in range(LOGINS):
    decorators.login(id=f"login{number}")(login_fn)
"""

PROBING = """
import threading
from kopf_core.intents import decorators
from kopf_core.intents.registries import get_default_registry
from free_ports import find_free_port

registry = get_default_registry()
registry.connected = threading.Event()

@decorators.event("namespaces")
def event_fn(**_):
    registry.connected.set()
"""


def is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


@pytest.fixture
def handlers(tmp_path: Path) -> str:
    path = tmp_path / "handlers.py"
    path.write_text(HANDLERS.replace("import kopf\n", "from kopf_core.intents import decorators\n")
                    .replace("kopf.on.", "decorators."))  # fmt: skip
    return str(path)


def test_operator_runs_inside_of_the_block(handlers: str) -> None:
    with KopfRunner(["run", "--sandbox", handlers], timeout=30) as runner:
        assert not runner.future.done()
        with pytest.raises(RuntimeError, match="still running"):
            assert runner.output
    assert runner.future.done()
    assert runner.exit_code == 0
    assert runner.exception is None
    assert "loaded" in runner.stdout
    assert "started up" in runner.output
    assert "cleaned up" in runner.output
    assert b"loaded" in runner.stdout_bytes


def test_arguments_as_one_string(handlers: str) -> None:
    with KopfRunner(f"run --sandbox {handlers}", timeout=30) as runner:
        pass
    assert runner.exit_code == 0


def test_works_inside_of_a_running_loop(handlers: str) -> None:
    async def test() -> None:
        with KopfRunner(["run", "--sandbox", handlers], timeout=30) as runner:
            await asyncio.sleep(0)
        assert runner.exit_code == 0

    asyncio.run(test())


def test_process_is_left_as_it_was(handlers: str) -> None:
    registry = get_default_registry()
    count = len(registry.resource_handlers)
    level, loggers = logging.getLogger().level, list(logging.getLogger().handlers)
    with KopfRunner(["run", "--sandbox", "--verbose", handlers], timeout=30):
        pass
    assert get_default_registry() is registry
    assert len(registry.resource_handlers) == count
    assert (logging.getLogger().level, logging.getLogger().handlers) == (level, loggers)
    assert not [t for t in threading.enumerate() if t.name.startswith("kopf-runner")]


def test_run2_conversions_declared_before_the_runner_are_kept(tmp_path: Path) -> None:
    handlers = tmp_path / "handlers.py"
    handlers.write_text(
        "from kopf_core.intents.registries import get_default_registry\n"
        "print([str(one.id) for one in get_default_registry().conversions])\n"
    )
    default = get_default_registry()
    set_default_registry(OperatorRegistry())
    try:
        decorators.convert("v1", "v2", kind="kexes.kopf.dev", id="up")(lambda **_: None)
        # There is no webhook server for the conversion, so the operator exits with an error.
        with KopfRunner(["run", "--sandbox", str(handlers)], reraise=False, timeout=30) as runner:
            pass
    finally:
        set_default_registry(default)
    assert "['up']" in runner.output


def test_registry_can_be_given(handlers: str) -> None:
    registry = OperatorRegistry()
    default = get_default_registry()
    with KopfRunner(["run", "--sandbox", handlers], timeout=30, registry=registry) as runner:
        pass
    assert runner.exit_code == 0
    assert "started up" in runner.output
    assert get_default_registry() is default


def test_failures_are_raised_after_the_block() -> None:
    with (
        pytest.raises(FileNotFoundError, match="No such file or directory"),
        KopfRunner(["run", "nosuchfile.py"], timeout=30) as runner,
    ):
        assert runner.future.done()
    assert isinstance(runner.exception, FileNotFoundError)
    assert runner.exit_code == 1


def test_failures_are_kept_if_so_wanted() -> None:
    with KopfRunner(["run", "nosuchfile.py"], timeout=30, reraise=False) as runner:
        pass
    assert runner.exit_code == 1
    assert isinstance(runner.exception, FileNotFoundError)
    assert runner.exc_info is not None
    assert runner.exc_info[:2] == (FileNotFoundError, runner.exception)


@pytest.mark.parametrize(
    ("text", "error", "code"),
    [
        ("raise ValueError('boo')", ValueError, 1),
        ("def fn(:", SyntaxError, 1),
        ("import nosuchmodule4test", ModuleNotFoundError, 1),
        ("import sys; sys.exit(3)", SystemExit, 3),
    ],
)
def test_r32_failures_of_users_files_are_the_original_ones(
    tmp_path: Path, text: str, error: type[BaseException], code: int
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    with KopfRunner(["run", str(path)], timeout=30, reraise=False) as runner:
        pass
    assert type(runner.exception) is error
    assert runner.exit_code == code


def test_r32_absent_files_are_named() -> None:
    with KopfRunner(["run", "nosuchfile.py"], timeout=30, reraise=False) as runner:
        pass
    assert isinstance(runner.exception, FileNotFoundError)
    assert Path(runner.exception.filename) == Path("nosuchfile.py").absolute()


@pytest.mark.parametrize("args", [["--help"], ["run", "--help"], ["--version"]])
def test_r32_exits_on_demand_are_in_the_info(args: list[str]) -> None:
    with KopfRunner(args, timeout=30) as runner:
        pass
    assert runner.exception is None
    assert runner.exc_info is not None
    assert runner.exc_info[0] is SystemExit


def test_r33_lines_that_suites_wait_for_are_there_in_their_order(handlers: str) -> None:
    with KopfRunner(["run", "--sandbox", "--verbose", handlers], timeout=30) as runner:
        pass
    lines = [
        "Starting Kopf ",
        "started up",
        "Streaming tasks are stopped: finishing normally; tasks left: set()",
        "Core tasks are stopped: finishing normally; tasks left: set()",
        "cleaned up",
        "Root tasks are stopped: finishing normally; tasks left: set()",
        "Hung tasks stopping is skipped: no tasks given.",
    ]
    found = [runner.output.find(line) for line in lines]
    assert -1 not in found
    assert found == sorted(found)


FORMER_NAMES = {
    "Starting Kopf": "kopf._core.reactor.running",
    "Root tasks are stopped": "kopf._core.reactor.running",
    "Hung tasks stopping is skipped": "kopf._core.reactor.running",
    "Initial authentication has been initiated": "kopf._core.engines.activities",
    "Serving health status at": "kopf._core.engines.probing",
    "Starting the watch-stream for": "kopf._cogs.clients.watching",
    "Activity 'login_via": "kopf.activities.authentication",
    "Activity 'startup_fn'": "kopf.activities.startup",
}
"""What is logged by both generations, and by which loggers: deployments filter by them."""


def test_k43_loggers_have_their_former_names(tmp_path: Path, caplog: Any) -> None:
    path = tmp_path / "handlers.py"
    path.write_text(PROBING + HANDLERS)
    args = [
        "run",
        "--sandbox",
        "--verbose",
        "-L",
        f"http://127.0.0.1:{find_free_port()}/healthz",
        str(path),
    ]
    with KopfRunner(args, timeout=30):
        assert get_default_registry().connected.wait(30)  # type: ignore[attr-defined]
    for start, name in FORMER_NAMES.items():
        found = {rec.name for rec in caplog.records if rec.getMessage().startswith(start)}
        assert found == {name}, start


def test_k43_starts_are_as_quiet_as_they_were(tmp_path: Path, caplog: Any) -> None:
    path = tmp_path / "handlers.py"
    path.write_text(PROBING)
    with KopfRunner(["run", "--sandbox", str(path)], timeout=30):
        assert get_default_registry().connected.wait(30)  # type: ignore[attr-defined]
    others = {
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.INFO
        and record.name not in {"kopf.activities.authentication", "kopf.objects"}
    }
    assert others <= {
        "Initial authentication has been initiated.",
        "Initial authentication has finished.",
    }


def test_r33_logins_say_what_they_are_configured_with(tmp_path: Path) -> None:
    path = tmp_path / "handlers.py"
    path.write_text(PROBING)
    with KopfRunner(["run", "--sandbox", "--verbose", str(path)], timeout=30) as runner:
        assert get_default_registry().connected.wait(30)  # type: ignore[attr-defined]
    libraries = {"Client": "kubernetes", "Pykube": "pykube"}
    for name in [name for name, lib in libraries.items() if is_installed(lib)] or ["Client"]:
        assert f" {name} is configured via kubeconfig file." in runner.output
    assert "Connected to http://127.0.0.1:" in runner.output


@pytest.mark.parametrize("logins", [0, 2])
def test_failures_at_the_very_start_end_the_operator(tmp_path: Path, logins: int) -> None:
    """The login handlers are in their threads meanwhile: they must not keep the operator alive."""
    path = tmp_path / "handlers.py"
    path.write_text(BROKEN_SERVER.replace("LOGINS", str(logins)))
    with KopfRunner(["run", "--sandbox", "-A", str(path)], timeout=30, reraise=False) as runner:
        runner.future.exception(timeout=30)  # it ends with no signals and flags
    assert isinstance(runner.exception, ZeroDivisionError)
    assert runner.exit_code == 1


def test_failures_of_the_test_itself_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), KopfRunner(["run", "nosuchfile.py"], timeout=30):
        raise ZeroDivisionError


def test_failures_of_the_operator_are_told_with_those_of_the_test() -> None:
    """Usually, the test fails because the operator does: it waits in vain for what it does."""
    with (
        pytest.raises(TimeoutError) as info,
        KopfRunner(["run", "nosuchfile.py"], timeout=30, reraise=False),
    ):
        raise TimeoutError("kopfexamples/one is not as expected")
    [note] = info.value.__notes__
    assert note.startswith("The operator has failed: FileNotFoundError: ")
    assert "nosuchfile.py" in note


def test_failures_of_the_test_alone_are_left_as_they_are(handlers: str) -> None:
    with (
        pytest.raises(TimeoutError) as info,
        KopfRunner(["run", "--sandbox", handlers], timeout=30),
    ):
        raise TimeoutError
    assert not hasattr(info.value, "__notes__")


def test_commands_that_exit_by_themselves() -> None:
    with KopfRunner(["--version"], timeout=30) as runner:
        pass
    assert runner.exit_code == 0
    assert "version" in runner.output
