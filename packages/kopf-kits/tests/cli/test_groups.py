"""What the command line loads, and that it is never loud when it is interrupted."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import click.testing
import pytest

from kopf_kits.cli import main
from kopf_kits.cli.groups import COMMANDS

LOADED = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"

OPERATOR = """
from kopf_core.intents import decorators
from kopf_core.actions.errors import PermanentError

@decorators.create("kopfexamples")
def create_fn(**_):
    pass

@decorators.startup()
def startup_fn(**_):
    raise PermanentError("enough")
"""

FRAMEWORK = {"kopf_core.reactor.process.running", "kopf_cogs.clients.session", "aiohttp", "asyncio"}
NOT_FOR_OPERATORS = {
    "aiohttp.web",
    "cryptography",
    "kopf_kits.certificates",
    "kopf_kits.envtest",
    "kopf_kits.hierarchies",
    "kopf_kits.locals",
    "kopf_kits.manifests",
    "kopf_kits.runner",
    "kopf_kits.sandbox",
    "kopf_kits.webhooks",
    "kubernetes",
    "pykube",
    "pytest",
    "yaml",
}


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def get_loaded(*args: str) -> set[str]:
    code = f"{LOADED}from kopf_kits.cli.groups import main; main({list(args)!r})"
    return set(run_python(code).stderr.split())


@pytest.mark.parametrize("args", [["--version"], ["--help"], ["run", "--help"], ["run", "--nope"]])
def test_framework_is_not_loaded_for_short_answers(args: list[str]) -> None:
    loaded = get_loaded(*args)
    assert "kopf_kits.cli.groups" in loaded
    assert not loaded & FRAMEWORK


def test_operators_load_nothing_they_do_not_need(tmp_path: Path) -> None:
    path = tmp_path / "handlers.py"
    path.write_text(OPERATOR)
    loaded = get_loaded("run", "-A", str(path))
    assert "kopf_core.reactor.life.operator" in loaded
    assert loaded & NOT_FOR_OPERATORS == set()


def test_version() -> None:
    result = click.testing.CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert re.fullmatch(r"kopf, version \d\S*\n", result.output)


def test_commands_are_listed_with_what_they_are_for() -> None:
    result = click.testing.CliRunner().invoke(main, ["--help"])
    assert set(COMMANDS) <= {"run", "sandbox", *COMMANDS}
    for name, (_, title) in COMMANDS.items():
        assert re.search(rf"(?m)^  {name} +{re.escape(title)}$", result.output)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_commands_are_those_that_are_listed(name: str) -> None:
    result = click.testing.CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: kopf {name} ")


@pytest.mark.parametrize("name", list(COMMANDS))
def test_commands_are_public(name: str) -> None:
    assert main.get_command(click.Context(main), name) is not None
    assert main.get_command(click.Context(main), "nosuchcommand") is None


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("guard", ["Exception", "SystemExit"])
def test_interrupting_is_quiet_while_files_are_loaded(
    tmp_path: Path, signum: signal.Signals, guard: str
) -> None:
    path = tmp_path / "handlers.py"
    path.write_text(
        f"import signal\ntry: signal.raise_signal({int(signum)})\nexcept {guard}: print('caught')\n"
    )
    command = [sys.executable, "-m", "kopf_kits.cli", "run", "-A", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize(("command", "code"), [("run", 0), ("sandbox", 0), ("release", 1)])
def test_interrupting_is_quiet_while_the_framework_is_loaded(command: str, code: int) -> None:
    script = f"""if True:
        import signal, sys

        class Interrupting:
            def find_spec(self, name, path=None, target=None):
                if name == "kopf_kits.cli.groups":
                    signal.raise_signal(signal.SIGINT)

        sys.meta_path.insert(0, Interrupting())
        sys.argv = ["kopf", "{command}", "-A"]
        from kopf_kits.cli.__main__ import start
        start()
    """
    done = run_python(script)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rnu", "No such command 'rnu'. Did you mean 'run'?"),
        ("handler", "No such command 'handler'. Did you mean 'handlers'?"),
        (
            "my/operator.py",
            "No such command 'my/operator.py'. Did you mean 'kopf run my/operator.py'?",
        ),
        ("xyz", "No such command 'xyz'."),
    ],
)
def test_s8_misspelt_commands_are_suggested(name: str, message: str) -> None:
    result = click.testing.CliRunner().invoke(main, [name])
    assert result.exit_code == 2
    assert result.output.splitlines()[-1] == f"Error: {message}"
