"""The code of the documentation works: its handlers are driven by objects on a sandbox.

See `tools/snippets.py` for what can be told of a block, `tools/driving.py` for how it is driven.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import driving
import pytest
import snippet_params
import snippets

import kopf
from kopf_kits.runner import KopfRunner
from kopf_kits.sandbox import Sandbox, SandboxThread

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def registry() -> Iterator[kopf.OperatorRegistry]:
    with snippet_params.fresh_registry() as registry:
        yield registry


@pytest.fixture
async def sandbox(
    block: snippets.Block, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Sandbox]:
    snippet_params.place_files(block, tmp_path, monkeypatch)
    async with Sandbox() as sandbox:
        await sandbox.apply(ROOT / "examples" / "crd.yaml")
        monkeypatch.setenv("KUBECONFIG", str(sandbox.write_kubeconfig(tmp_path / "kubeconfig")))
        yield sandbox


@pytest.mark.parametrize("block", snippet_params.list_blocks())
async def test_code(
    block: snippets.Block,
    sandbox: Sandbox,
    registry: kopf.OperatorRegistry,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("STATUS_TOKEN", "a-token-for-the-status-page")
    module = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    code, expected, journal = snippets.load(block)
    module.__dict__["_journal"] = journal
    await asyncio.to_thread(exec, code, module.__dict__)
    snippets.hasten(module)
    merge_registries(registry, module)
    await define_kinds(sandbox, registry, block.objects)
    await call_tests(module, monkeypatch, tmp_path)
    memo = eval(block.hints.get("memo", "None"), module.__dict__)
    driver = driving.Driver(block, sandbox, registry, expected, journal, memo)
    missing = await driver.drive()
    if journal.failed:
        raise journal.failed[0]
    assert not missing, f"These functions were not called to the end: {missing}"


def merge_registries(target: kopf.OperatorRegistry, module: types.ModuleType) -> None:
    """Add the handlers of the block's own registries to those of the default one."""
    for value in vars(module).values():
        if isinstance(value, kopf.OperatorRegistry) and value is not target:
            for handler in value.handlers:
                target.append(handler)


async def call_tests(
    module: types.ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Call the tests of the block as pytest does, and its ``main()`` if it was not called."""
    for name, fn in [*vars(module).items()]:
        if name.startswith("test_") and inspect.isfunction(fn):
            await asyncio.to_thread(call_test, fn, monkeypatch=monkeypatch, tmp_path=tmp_path)


def call_test(fn: Callable[..., Any], **fixtures: Any) -> None:
    names = inspect.signature(fn).parameters
    with contextlib.ExitStack() as stack:
        if "kopf_sandbox" in names:
            cluster = stack.enter_context(SandboxThread())
            path = cluster.write_kubeconfig(fixtures["tmp_path"] / "kubeconfig")
            fixtures["monkeypatch"].setenv("KUBECONFIG", str(path))
            fixtures["kopf_sandbox"] = cluster
            fixtures["kopf_operator"] = lambda *args, **options: stack.enter_context(
                KopfRunner(["run", *args], timeout=60, **options)
            )
        fn(**{name: fixtures[name] for name in names})


async def define_kinds(
    sandbox: Sandbox, registry: kopf.OperatorRegistry, objects: list[dict[str, Any]]
) -> None:
    """Define the custom kinds which the block mentions, and the sandbox does not know."""
    for selector in registry.selectors:
        name = driving.get_any_name(selector)
        if name is None:
            continue
        group = selector.group or "kopf.dev"
        try:
            sandbox.cluster.registry.find(f"{name}.{selector.group}" if selector.group else name)
        except LookupError:
            plural = name.lower().removesuffix("s") + "s"
            await sandbox.apply(make_definition(group, plural, selector.version or "v1"))
    for body in objects:
        api_version, kind = body.get("apiVersion", "kopf.dev/v1"), body.get("kind", "KopfExample")
        if sandbox.cluster.registry.by_kind(api_version, kind) is None:
            group, _, version = api_version.rpartition("/")
            await sandbox.apply(make_definition(group, f"{kind.lower()}s", version))


def make_definition(group: str, plural: str, version: str) -> dict[str, Any]:
    kind = plural.removesuffix("s").capitalize()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
