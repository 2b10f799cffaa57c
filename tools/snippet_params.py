"""What the tests of the documentation's code share: all blocks, and a registry for each of them."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
import snippets

import kopf

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "reference").glob("*.md")),
]


def list_blocks() -> list[Any]:
    """All blocks of all pages, as parameters of a test; those that are not run are skipped."""
    return [
        pytest.param(
            block,
            id=str(block),
            marks=[pytest.mark.skip(reason=block.not_run)] if block.not_run is not None else [],
        )
        for page in PAGES
        for block in snippets.read_blocks(page)
    ]


@contextlib.contextmanager
def preserved_metrics() -> Iterator[None]:
    """Unregister the metrics which the blocks define: the same names cannot be defined twice."""
    added: list[Any] = []
    register = prometheus_client.REGISTRY.register

    def register_and_remember(collector: Any) -> None:
        register(collector)
        added.append(collector)

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(prometheus_client.REGISTRY, "register", register_and_remember)
        yield
    for collector in added:
        prometheus_client.REGISTRY.unregister(collector)


@contextlib.contextmanager
def fresh_registry() -> Iterator[kopf.OperatorRegistry]:
    """Let the blocks declare handlers and change defaults; nothing of it stays."""
    registry = kopf.OperatorRegistry()
    kopf.set_default_registry(registry)
    with snippets.preserved_loggers(), preserved_metrics():
        yield registry
    kopf.set_default_registry(kopf.OperatorRegistry())
    kopf.set_default_lifecycle(None)


def place_files(block: snippets.Block, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the files of its page into the folder, and let the block work and import from there."""
    files = read_files_of_the_sample() if block.page == "sample" else read_files_of_the_tutorial()
    for name, text in files:
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "claims", raising=False)


def read_files_of_the_tutorial() -> Iterator[tuple[str, str]]:
    for name in ("crd.yaml", "obj.yaml"):
        yield name, (ROOT / "examples" / name).read_text("utf-8")
    for name, page in (("example.py", "tutorial.md"), ("admission.py", "admission.md")):
        code = next(snippets.read_blocks(ROOT / "docs" / page)).code
        yield name, code.replace("port=54321", "")  # other tests can use this port meanwhile


def read_files_of_the_sample() -> Iterator[tuple[str, str]]:
    page = ROOT / "docs" / "sample.md"
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    manifests = [text for language, text in blocks if language == "yaml"]
    code = [text for language, text in blocks if language == "python" and "def test_" not in text]
    yield from (
        ("obj.yaml", manifests[0]),
        ("crd.yaml", manifests[1]),
        ("claims.py", "\n".join(code)),
    )
