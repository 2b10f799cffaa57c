"""Ctrl+C and SIGTERM while the local cluster is being prepared."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click.testing
import pytest

from kopf_core.reactor.process import running
from kopf_kits import locals as locals_
from kopf_kits.cli import main
from kopf_kits.logs import preserved_logging

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def _process_preserved(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = [signal.getsignal(signum) for signum in SIGNALS]
    with preserved_logging():
        yield
    assert [signal.getsignal(signum) for signum in SIGNALS] == before


@pytest.mark.parametrize("signum", SIGNALS)
@pytest.mark.parametrize("args", [["sandbox"], ["run", "--sandbox", "handlers.py"]])
def test_exits_quietly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signum: signal.Signals, args: list[str]
) -> None:
    async def apply_manifests(*_: Any) -> list[str]:
        assert len(list(temporary.iterdir())) == 1
        signal.raise_signal(signum)
        await asyncio.Event().wait()
        return []

    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "handlers.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(locals_, "apply_manifests", apply_manifests)
    monkeypatch.setattr(running, "run", lambda **_: pytest.fail("It must not be running."))
    result = click.testing.CliRunner().invoke(main, args)
    assert result.exit_code == 0
    assert result.output == ""
    assert not list(temporary.iterdir())
