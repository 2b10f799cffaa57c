"""What the tests of the documentation's code share: all blocks, and a registry for each of them."""

from __future__ import annotations

import contextlib
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
