"""Fragments become release notes, once."""

import datetime
from pathlib import Path

import changelog
import pytest

DAY = datetime.date(2026, 2, 3)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d/README.md").write_text("How to write fragments.")
    (tmp_path / "changelog.d/timers.speed.md").write_text("Timers cost\na heap entry.\n")
    (tmp_path / "changelog.d/login.fix.md").write_text("Logins expire.\n")
    old = "## 1.45.0 (2026-01-01)\n\n- Old.\n"
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{changelog.MARK}\n{old}")
    return tmp_path


def test_section_groups_by_kind_in_order(root: Path) -> None:
    assert changelog.build_section(root, "1.46.0", DAY) == (
        "## 1.46.0 (2026-02-03)\n\n"
        "### Fixes\n\n- Logins expire.\n\n"
        "### Speed\n\n- Timers cost\n  a heap entry.\n\n"
    )


def test_release_goes_on_top_and_uses_the_fragments_up(root: Path) -> None:
    changelog.write_release(root, "1.46.0", DAY)
    text = (root / "CHANGELOG.md").read_text()
    assert text.index("## 1.46.0") < text.index("## 1.45.0")
    assert changelog.find_fragments(root) == []
    assert (root / "changelog.d/README.md").exists()


@pytest.mark.parametrize("name", ["nokind.md", "what.unknown.md", "a.b.fix.md"])
def test_wrong_names_are_told(root: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "changelog.d" / name).write_text("Text.")
    assert changelog.main(["--check"], root=root) == 1
    assert name in capsys.readouterr().out


def test_empty_fragments_are_told(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "changelog.d/void.fix.md").write_text("\n")
    assert changelog.main(["--check"], root=root) == 1
    assert "void.fix.md: it is empty" in capsys.readouterr().out
