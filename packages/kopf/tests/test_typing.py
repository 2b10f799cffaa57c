"""What type checkers say of users' handlers: nothing of the good ones, and one error for each bad.

The files are in the folder ``typing``. Pyright ignores mypy's comments, and so sees more.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kopf_kits.sandbox import SandboxThread

FOLDER = Path(__file__).with_name("typing")
CHECKERS = {
    "mypy": ["mypy", "--strict", "--no-pretty", "--hide-error-context"],
    "pyright": ["pyright", "--pythonpath", sys.executable],
}

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),  # they go through all the packages when they have no cache yet
    pytest.mark.skipif(sys.platform == "win32", reason="the paths are parsed by colons"),
]


def check(name: str, checker: str, folder: Path = FOLDER) -> set[int]:
    """Run the checker on the file; get the numbers of the lines with errors."""
    command = [sys.executable, "-m", *CHECKERS[checker], str(folder / name)]
    env = {key: value for key, value in os.environ.items() if key != "FORCE_COLOR"}
    env |= {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "MYPY_FORCE_COLOR": "0"}
    done = subprocess.run(command, env=env, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert done.returncode in (0, 1), done.stdout
    lines = re.findall(rf"{re.escape(name)}:(\d+)(?::\d+)?(?: -|:) error", done.stdout)
    assert bool(lines) == (done.returncode == 1), done.stdout
    return {int(line) for line in lines}


@pytest.mark.parametrize("checker", list(CHECKERS))
def test_good_handlers_are_accepted(checker: str) -> None:
    assert check("good.py", checker) == set()


@pytest.mark.parametrize("checker", list(CHECKERS))
def test_k34_what_is_special_is_typed_strictly(checker: str) -> None:
    assert "# type:" not in (FOLDER / "strict.py").read_text("utf-8")
    assert check("strict.py", checker) == set()


@pytest.mark.parametrize("checker", list(CHECKERS))
def test_bad_handlers_are_refused(checker: str) -> None:
    lines = (FOLDER / "bad.py").read_text("utf-8").splitlines()
    bad = {number for number, line in enumerate(lines, start=1) if line.endswith("# BAD")}
    assert len(bad) == 22
    assert check("bad.py", checker) == bad


@pytest.mark.parametrize("checker", list(CHECKERS))
def test_kinds_of_the_cluster_are_typed(
    checker: str, kopf_sandbox: SandboxThread, tmp_path: Path
) -> None:
    """They are made for the test: the file of handlers imports them, as users would do."""
    handlers = tmp_path / "kinds_in_handlers.py"
    shutil.copy(FOLDER / handlers.name, handlers)
    command = [sys.executable, "-m", "kopf", "models", "-o", "kinds.py"]
    kinds = ["deployments", "configmaps", "networkpolicies", "statefulsets"]
    subprocess.run([*command, *kinds], cwd=tmp_path, check=True)
    lines = handlers.read_text("utf-8").splitlines()
    bad = {number for number, line in enumerate(lines, start=1) if line.endswith("# BAD")}
    assert len(bad) == 4
    assert check("kinds.py", checker, tmp_path) == set()
    assert check(handlers.name, checker, tmp_path) == bad


def test_good_handlers_work() -> None:
    """They are not only types: the decorators accept them at run time, too."""
    subprocess.run([sys.executable, str(FOLDER / "good.py")], check=True)
