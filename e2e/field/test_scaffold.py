"""New projects pass their own checks at once, in an environment with our wheels."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .environments import make_environment

TOOLS = ("mypy", "orjson", "prometheus-client", "pydantic", "pyright[nodejs]", "pytest", "ruff")


@pytest.fixture(scope="module")
def executables(wheels: Path) -> Path:
    return make_environment("scaffold", wheels, *TOOLS)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "option"),
    [("website", "--cluster-wide"), ("a-quite-long-name-of-some-project", "--namespaced")],
)
def test_n1_new_projects_pass_their_checks(
    executables: Path, name: str, option: str, tmp_path: Path
) -> None:
    def run(*command: str | Path) -> None:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    run(executables / "kopf", "init", name, option)
    project = tmp_path / name
    made = {path: path.read_text() for path in (project / "deploy").rglob("*") if path.is_file()}
    # The environment is there already: it is not to be made by the project.
    make = ("make", "-C", name, "-o", executables / "kopf", f"BIN={executables}")
    run(*make, "check")
    run(*make, "demo")
    run(*make, "manifests")
    assert {path: path.read_text() for path in made} == made
    run(executables / "kopf", "init", "--update", f"--directory={name}")
