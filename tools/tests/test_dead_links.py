"""The check of links in the built documentation."""

from pathlib import Path

import dead_links
import pytest


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "style.css").write_text("")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "index.html").write_text('<h1 id="top">Inner</h1>')
    return tmp_path


@pytest.mark.parametrize(
    "link",
    [
        "inner/index.html",
        "inner/index.html#top",
        "inner/",
        "#here",
        "_static/style.css?v=1",
        "https://example.com/nothing",
        "mailto:me@example.com",
    ],
)
def test_good_links(site: Path, link: str) -> None:
    (site / "index.html").write_text(f'<p id="here"><a href="{link}">x</a></p>')
    assert [*dead_links.find_dead(site)] == []


@pytest.mark.parametrize(
    "link", ["absent.html", "inner/index.html#absent", "#absent", "_static/absent.svg"]
)
def test_dead_links(site: Path, link: str, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "index.html").write_text(f'<p id="here"><img src="{link}"></p>')
    assert dead_links.main([str(site)]) == 1
    assert capsys.readouterr().out == f"index.html: {link}\nDead links: 1.\n"
