"""The code from the docs of daemons, timers, and indices: it is loaded and run as it is."""

from __future__ import annotations

import logging
import pathlib
import re
from typing import Any

import pytest

from e2e.tests.harness import FINALIZER, World, get_finalizers
from kopf_core.engines.background import BackgroundEngine
from kopf_core.intents.handlers import IndexingHandler, SpawningHandler
from kopf_core.intents.registries import OperatorRegistry, set_default_registry
from kopf_kits.sandbox import Sandbox

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("daemons", "timers", "indexing", "reference/background")
EXAMPLES = ("14-daemons", "15-timers", "16-indexing")
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pod", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "any"}]},
}


def collect() -> list[Any]:
    snippets = []
    for page in PAGES:
        text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        assert blocks
        snippets += [pytest.param(block, id=f"{page}-{n}") for n, block in enumerate(blocks, 1)]
    for name in EXAMPLES:
        source = (ROOT / "examples" / name / "example.py").read_text("utf-8")
        snippets.append(pytest.param(source, id=name))
    return snippets


MEANT_ERRORS = (
    "is over. Again!",
    "One of the first three attempts.",
    "Bad luck.",
    "check it again",
    "fourth attempt",
    "no new values",
    "was the first attempt",
    "was the only attempt",
    "is tried again",
)
"""What the handlers in the examples raise on purpose, if they are called before the end."""


@pytest.fixture
def registry():
    registry = OperatorRegistry()
    set_default_registry(registry)
    yield registry
    set_default_registry(OperatorRegistry())


@pytest.mark.docs("daemons", "timers", "indexing", "indexing/recipes", "reconciliation")
@pytest.mark.parametrize("source", collect())
async def test_code_of_documentation_works(source, registry, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    exec(compile(source, "example.py", "exec"), {"__name__": "example"})
    handlers = registry.resource_handlers
    monkeypatch.setattr(BackgroundEngine.exit, "__defaults__", (0,))  # cancel them at once
    async with Sandbox() as sandbox:
        path = sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        monkeypatch.setenv("KUBECONFIG", str(path))
        await sandbox.apply(ROOT / "examples" / "crd.yaml")
        await sandbox.create(POD)
        await sandbox.apply(ROOT / "examples" / "obj.yaml")
        annotations = {"some-annotation": "some-value"}
        labels = {"some-label": "some-value"}
        await sandbox.patch(
            "kopfexamples",
            "kopf-example-1",
            {"metadata": {"annotations": annotations, "labels": labels}},
        )
        world = World(sandbox.url, "default", path)
        world.path = (  # type: ignore[method-assign]
            lambda name="", plural=None: (
                "/apis/kopf.dev/v1/namespaces/default/kopfexamples" + (name and f"/{name}")
            )
        )
        try:
            async with world.operator(registry) as operator:
                if any(isinstance(handler, SpawningHandler) for handler in handlers):
                    await world.until(
                        lambda obj: get_finalizers(obj) == [FINALIZER], "kopf-example-1"
                    )
                    assert operator.handling.background.spawned
                if any(isinstance(handler, IndexingHandler) for handler in handlers):
                    assert set(operator.essentials.indices) == {
                        str(h.id) for h in handlers if isinstance(h, IndexingHandler)
                    }
        finally:
            await world.close()
    assert not [
        record
        for record in caplog.records
        if record.levelno >= logging.ERROR
        and not any(error in record.message for error in MEANT_ERRORS)
    ]
