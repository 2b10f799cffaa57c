"""The alert rules are understood by Prometheus: by the same parser as in `promtool check rules`."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from e2e.programs import obtain

ALERTS = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "alerts.yaml"

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # it takes a minute to build


def check(path: pathlib.Path) -> subprocess.CompletedProcess[str]:
    command = [str(obtain("rules")), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_i_the_alerts_are_good_for_prometheus() -> None:
    done = check(ALERTS)
    assert (done.returncode, done.stdout) == (0, "")


def test_i_wrong_alerts_would_be_noticed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text(ALERTS.read_text().replace("max by (namespace)", "max bye (namespace)"))
    done = check(path)
    assert done.returncode == 1
    assert "KopfNobodyLeads" in done.stdout
