from __future__ import annotations

import sys
from pathlib import Path

import all_pythons
import pytest


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """There are no interpreters, unless they are put there."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def put(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    "place", ["bin", "pyenv/versions/3.99.1/bin", "cache/kopf/interpreters/debian/usr/bin"]
)
def test_interpreters_are_found(nowhere: Path, place: str) -> None:
    put(nowhere / place / "python3.99", "echo 3.99")
    assert all_pythons.find_python("3.99", "/bin/false") == str(nowhere / place / "python3.99")


def test_others_under_the_name_are_passed_over(nowhere: Path) -> None:
    put(nowhere / "bin" / "python3.99", "exit 1")
    put(nowhere / "pyenv/versions/a/bin/python3.99", "echo 3.99t")
    put(nowhere / "pyenv/versions/b/bin/python3.99", "echo 3.99")
    assert (all_pythons.find_python("3.99", "/bin/false") or "").endswith("b/bin/python3.99")


def test_this_interpreter_is_described(nowhere: Path) -> None:
    done = all_pythons.run([sys.executable, "-c", all_pythons.DESCRIBE])
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert done.stdout.strip().removesuffix("t").removeprefix(sys.implementation.name) in (
        version,
        version.removeprefix("cpython"),
    )


def test_absent_ones_are_skipped_with_a_line(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UV", "/bin/false")
    assert all_pythons.main(["3.99", "pypy3.99"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["skipped  3.99: not found", "skipped  pypy3.99: not found"]


def test_failures_are_reported(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put(nowhere / "bin" / "python3.98", "echo 3.98")
    put(nowhere / "bin" / "python3.99", "echo 3.99")
    put(
        nowhere / "uv",
        'echo "1 failed, 2 passed in 3s"; case "$*" in *python3.99*) exit 1;; esac',
    )
    monkeypatch.setenv("UV", str(nowhere / "uv"))
    assert all_pythons.main(["3.98", "3.99", "--", "-x"]) == 1
    out = capsys.readouterr().out
    assert "ok       3.98: 1 failed, 2 passed in 3s" in out
    assert "FAILED   3.99: 1 failed, 2 passed in 3s" in out
