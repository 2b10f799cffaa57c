"""All packages carry the one version, and pin each other at it."""

from pathlib import Path

import lockstep
import pytest

PACKAGE = """\
[project]
name = "kopf-kits"
version = "1.46.0"
dependencies = ["kopf-core==1.46.0", "click>=8.1"]
optional = ["kopf-cogs[full-auth]==1.46.0; python_version > '3'"]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "packages/kopf-kits").mkdir(parents=True)
    (tmp_path / "packages/kopf-kits/pyproject.toml").write_text(PACKAGE)
    text = '[project]\nname = "workspace"\nversion = "0"\n\n[tool.kopf]\nversion = "1.46.0"\n'
    (tmp_path / "pyproject.toml").write_text(text)
    return tmp_path


def test_this_workspace_is_in_lockstep() -> None:
    assert lockstep.main(["--check"]) == 0


def test_equal_versions_pass(root: Path) -> None:
    assert lockstep.main(["--check"], root=root) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('version = "1.46.0"', 'version = "1.45.9"'),
        ("kopf-core==1.46.0", "kopf-core==1.45.9"),
        ("kopf-cogs[full-auth]==1.46.0", "kopf-cogs[full-auth]==1.45.9"),
    ],
)
def test_differing_versions_fail(
    root: Path, old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = root / "packages/kopf-kits/pyproject.toml"
    path.write_text(path.read_text().replace(old, new))
    assert lockstep.main(["--check"], root=root) == 1
    assert "kopf-kits/pyproject.toml is not at 1.46.0" in capsys.readouterr().out


def test_setting_reaches_everything_and_nothing_else(root: Path) -> None:
    assert lockstep.main(["--set", "2.0.0rc1"], root=root) == 0
    text = (root / "packages/kopf-kits/pyproject.toml").read_text()
    assert text == PACKAGE.replace("1.46.0", "2.0.0rc1")
    assert '[project]\nname = "workspace"\nversion = "0"' in (root / "pyproject.toml").read_text()
    assert lockstep.main(["--check"], root=root) == 0
