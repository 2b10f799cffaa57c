"""The site of all versions: which ones are taken, where they are, and what is told to the pages."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import site_of_versions

PREFIX = "window.kopfVersions = "


def make_build(folder: Path, text: str, *pages: str) -> Path:
    for page in ("index", *pages):
        path = folder / f"{page}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "_static").mkdir()
    (folder / ".doctrees").mkdir()
    (folder / ".doctrees" / "index").write_text("not for people")
    return folder


def make_archive(folder: Path, version: str, build: Path) -> None:
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / f"kopf-docs-{version}.tar.gz", "w:gz") as tar:
        tar.add(build, ".")


def read_list(folder: Path) -> Any:
    text = (folder / "_static" / "versions.js").read_text().rstrip()
    return json.loads(text.removeprefix(PREFIX).removesuffix(";"))


def test_the_newest_release_is_at_the_root(tmp_path: Path) -> None:
    releases = tmp_path / "releases"
    for version in ("1.9.0", "1.10.1", "1.10.0"):
        make_archive(releases, version, make_build(tmp_path / version, version, "reference/api"))
    made = make_build(tmp_path / "built", "main", "news")
    site = tmp_path / "site"
    site_of_versions.assemble(site, made, releases)
    texts = {name: (site / name / "index.html").read_text() for name in ("", "1.10", "1.9", "main")}
    assert texts == {"": "1.10.1", "1.10": "1.10.1", "1.9": "1.9.0", "main": "main"}
    assert not (site / "main" / ".doctrees").exists()
    assert read_list(site) == {
        "root": "",
        "title": "1.10",
        "versions": [
            {"title": "1.10", "path": "", "pages": ["index", "reference/api"]},
            {"title": "1.9", "path": "1.9/", "pages": ["index", "reference/api"]},
            {"title": "main", "path": "main/", "pages": ["index", "news"]},
        ],
    }
    assert read_list(site / "1.9")["root"] == "../"
    assert read_list(site / "1.9")["title"] == "1.9"


def test_unreleased_pages_are_at_the_root_before_the_first_release(tmp_path: Path) -> None:
    site = tmp_path / "site"
    versions = site_of_versions.assemble(site, make_build(tmp_path / "built", "main"))
    assert versions == [{"title": "main", "path": "", "pages": ["index"]}]
    assert (site / "index.html").read_text() == "main"


@pytest.mark.parametrize("args", [[], ["site"], ["a", "b", "c", "d"]])
def test_wrong_arguments_are_refused(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert site_of_versions.main(args) == 2
    assert "make docs" in capsys.readouterr().err
