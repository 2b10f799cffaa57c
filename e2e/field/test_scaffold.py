"""New projects are installed and pass their own checks at once, with our wheels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TYPED_WITH_INDEX = '''"""Mypy demands the default value: see the documentation of arguments."""

from typing import Any

import kopf


@kopf.on.create("kopfexamples")
def typed_with_index(pods_by_node: kopf.Index[str, str] = kopf.Index(), **_: Any) -> None: ...
'''


def make_environ(wheels: Path) -> dict[str, str]:
    """As on a bare machine: nothing is activated, and nothing of this repository is on the path."""
    own = str(Path(sys.prefix) / "bin")
    path = [part for part in os.environ["PATH"].split(os.pathsep) if part != own]
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    return {**kept, "PATH": os.pathsep.join(path), "PIP_FIND_LINKS": str(wheels)}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("name", "option"),
    [("website", "--cluster-wide"), ("a-quite-long-name-of-some-project", "--namespaced")],
)
def test_n1_new_projects_pass_their_checks(
    wheels: Path, name: str, option: str, tmp_path: Path
) -> None:
    def run(*command: str | Path) -> None:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=make_environ(wheels),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run(sys.executable, "-m", "kopf", "init", name, option)
    project = tmp_path / name
    made = {path: path.read_text() for path in (project / "deploy").rglob("*") if path.is_file()}
    made[project / "manifests" / "crd.yaml"] = (project / "manifests" / "crd.yaml").read_text()
    make = ("make", "-C", name, f"PYTHON={sys.executable}")
    run(*make, "test", "demo")
    (project / "tests" / "typed_with_index.py").write_text(TYPED_WITH_INDEX)
    run(*make, "check")
    run(*make, "manifests")
    assert {path: path.read_text() for path in made} == made
    run(project / ".venv" / "bin" / "kopf", "init", "--update", f"--directory={name}")
