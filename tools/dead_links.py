#!/usr/bin/env python3
"""Find dead links in the built documentation: `python tools/dead_links.py docs/_build/html`.

Sphinx checks the links of the pages. This checks everything that it has made: the pages of
modules with their back-links, the menus, the pictures, and the styles.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit


@dataclass
class Page:
    """What a page has: places to be linked to, and links."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)


class Reader(HTMLParser):
    """Read a page."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember the places and the links of an element."""
        for name, value in attrs:
            if value and (name == "id" or (name == "name" and tag == "a")):
                self.page.ids.add(value)
            if value and name in ("href", "src"):
                self.page.links.append(value)


def read_pages(root: pathlib.Path) -> dict[pathlib.Path, Page]:
    """Read all pages of the site."""
    pages = {}
    for path in sorted(root.rglob("*.html")):
        reader = Reader()
        reader.feed(path.read_text("utf-8"))
        pages[path.resolve()] = reader.page
    return pages


def find_dead(root: pathlib.Path) -> Iterator[str]:
    """Name the pages with their links that lead nowhere; those to other sites are not followed."""
    pages = read_pages(root)
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            is_dead = target in pages and anchor and anchor not in pages[target].ids
            if is_dead or not target.exists():
                yield f"{path.relative_to(root.resolve())}: {link}"


def main(args: list[str]) -> int:
    """Print the dead links; the exit code is 1 if there are any."""
    dead = [link for folder in args for link in find_dead(pathlib.Path(folder))]
    sys.stdout.write("".join(f"{link}\n" for link in dead))
    sys.stdout.write(f"Dead links: {len(dead)}.\n")
    return int(bool(dead))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
