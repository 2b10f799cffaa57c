"""Sphinx: the pages of the site, beyond their texts.

- The tables for maintainers are not found by the search: their words hide the guides.
- The links from the sources back to the reference lead to the names under which they are there.
- ``llms.txt`` lists the pages for assistants which write code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

UNSEARCHED = (
    "decisions/*",
    "reference/compatibility",
    "reference/conformance",
    "reference/coverage",
    "reference/robustness",
    "reference/sections",
)
"""Pages which the search skips."""

SITE = "https://nolar.github.io/kopf"
BACK = re.compile(r'(class="viewcode-back" href="[^"#]*#)([^"]+)"')
TOC = re.compile(
    r"^```\{toctree\}\n:caption: ([^\n]+)\n:hidden:\n\n(.*?)^```", re.MULTILINE | re.DOTALL
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the extension."""
    app.connect("env-updated", hide_from_search)
    app.connect("html-page-context", mend_page)
    app.connect("build-finished", write_list)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def hide_from_search(app: Sphinx, env: Any) -> None:
    """Mark the pages which the search skips."""
    for name in env.found_docs:
        if any(fnmatch(name, pattern) for pattern in UNSEARCHED):
            env.metadata[name]["nosearch"] = True


def mend_page(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Mend the links from the page of a module back to the reference."""
    if page.startswith("_modules/") and "body" in context:
        context["body"] = mend_links(context["body"], app.env.domains.python_domain.objects)


def mend_links(body: str, names: Iterable[str]) -> str:
    """Lead the links to the same names in other modules, if there are none in their own."""
    known = {suffix: name for name in sorted(names, reverse=True) for suffix in _list_ends(name)}

    def mend(match: re.Match[str]) -> str:
        found = next((known[end] for end in _list_ends(match[2]) if end in known), match[2])
        return f'{match[1]}{found}"'

    return BACK.sub(mend, body)


def _list_ends(name: str) -> Iterator[str]:
    """All ends of a dotted name, from the longest one to the shortest one."""
    parts = name.split(".")
    return (".".join(parts[start:]) for start in range(len(parts)))


def write_list(app: Sphinx, error: Exception | None) -> None:
    """Write ``llms.txt`` beside the pages."""
    if error is None and app.builder.format == "html":
        text = render_list(Path(app.srcdir))
        (Path(app.outdir) / "llms.txt").write_text(text, "utf-8")


def render_list(folder: Path) -> str:
    """List the pages by sections, as the index does, with the first sentence of each."""
    lines = ["# Kopf", "", "> Kubernetes operators in a few decorated Python functions.", ""]
    lines += [f"Rules for assistants that write operators: {SITE}/AGENTS.md", ""]
    for caption, names in TOC.findall((folder / "index.md").read_text("utf-8")):
        lines += [f"## {caption}", ""]
        lines += [_render_item(folder, name) for name in names.split()]
        lines += [""]
    return "\n".join(lines)


def _render_item(folder: Path, name: str) -> str:
    text = (folder / f"{name}.md").read_text("utf-8")
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    intro = re.search(r"^# .+\n\n((?![:<`|#!-]).+(?:\n.+)*)", text, re.MULTILINE)
    words = re.sub(r"\]\([^)]*\)|[\[*]", "", " ".join(intro[1].split())) if intro else ""
    sentence = re.split(r"(?<=[.:])\s", words)[0].rstrip(":")
    link = f"- [{title[1] if title else name}]({SITE}/{name}.html)"
    return f"{link}: {sentence}" if sentence else link
