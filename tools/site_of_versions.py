#!/usr/bin/env python3
"""Put the documentation of all versions into one site.

Usage: `python tools/site_of_versions.py SITE MAIN [RELEASES]`.

`MAIN` is the output of `make docs`. `RELEASES` is a folder with the archives of released versions,
`kopf-docs-1.46.0.tar.gz` and so on: the last patch of every minor version is taken. The newest
release is at the root of the site, so links to it stay; and every version has a folder of its own.
The list of versions is written into every one of them: there is no server that could tell it.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

ARCHIVE = re.compile(r"kopf-docs-(\d+)\.(\d+)\.(\d+)\.tar\.gz")
LIST = "_static/versions.js"


class Version(TypedDict):
    """A version in the list. Its path ends with a slash; the newest release has an empty one."""

    title: str
    path: str
    pages: list[str]


def choose(names: Iterable[str]) -> dict[str, str]:
    """The archives of the minor versions, with the newest version first."""
    found = sorted(
        (tuple(map(int, match.groups())), name)
        for name in names
        if (match := ARCHIVE.fullmatch(name))
    )
    newest = {f"{numbers[0]}.{numbers[1]}": name for numbers, name in found}
    return dict(reversed(newest.items()))


def list_pages(folder: Path) -> list[str]:
    """The names of the pages in a version, as they are in addresses."""
    return sorted(
        path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.html")
    )


def assemble(site: Path, main: Path, releases: Path | None = None) -> list[Version]:
    """Make the site anew. Returns the versions as they are listed in it."""
    shutil.rmtree(site, ignore_errors=True)
    archives = choose(path.name for path in releases.iterdir()) if releases else {}
    for name, archive in archives.items():
        with tarfile.open(Path(releases or "") / archive) as tar:
            tar.extractall(site / name, filter="data")
    shutil.copytree(main, site / "main", ignore=shutil.ignore_patterns(".*"))
    titles = [*archives, "main"]
    versions = [
        Version(title=title, path=f"{title}/" if number else "", pages=list_pages(site / title))
        for number, title in enumerate(titles)
    ]
    shutil.copytree(site / titles[0], site, dirs_exist_ok=True)
    _write_list(site, "", titles[0], versions)
    for title in titles:
        _write_list(site / title, "../", title, versions)
    return versions


def _write_list(folder: Path, root: str, title: str, versions: list[Version]) -> None:
    """Tell the pages in a folder of the site where its root is, and which versions are there."""
    text = json.dumps({"root": root, "title": title, "versions": versions})
    (folder / LIST).write_text(f"window.kopfVersions = {text};\n", "utf-8")


def main(args: list[str]) -> int:
    """Assemble the site of the folders in the command line."""
    if len(args) not in (2, 3):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    versions = assemble(*map(Path, args))
    sys.stdout.write(f"{args[0]}: {', '.join(version['title'] for version in versions)}.\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
