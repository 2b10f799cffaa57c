"""The worlds for the tests of operators: a cluster of this run, or a sandbox with faults."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from e2e.clusters import Cluster
from e2e.tests.accounts import Account, Messages
from e2e.tests.harness import CRDS, DEFINITIONS, World, make_namespace
from kopf_kits.sandbox import Sandbox


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "docs(section): the section of the documentation that is verified by the test"
    )


Logged = Callable[..., list[str]]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Logged:
    """What the framework has logged: the messages with the text, of the level or above."""
    caplog.set_level(logging.DEBUG, "kopf")

    def get(text: str, level: int = logging.DEBUG) -> list[str]:
        messages = [r.getMessage() for r in caplog.records if r.levelno >= level]
        return [message for message in messages if text in message]

    return get


@pytest.fixture(scope="session")
def _definitions(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The custom resources, once a run."""

    async def apply() -> None:
        world = World(
            cluster.url,
            "default",
            cluster.kubeconfig_path,
            headers=cluster.make_headers(),
            context=cluster.make_ssl_context(),
        )
        try:
            for definition in DEFINITIONS:
                with contextlib.suppress(AssertionError):  # from the previous runs
                    await world.request("POST", CRDS, definition)
                await _until_served(world, definition["metadata"]["name"])
        finally:
            await world.close()

    asyncio.run(apply())


async def _until_served(world: World, name: str) -> None:
    async with asyncio.timeout(20):
        while True:
            found = await world.request("GET", f"{CRDS}/{name}")
            conditions = found.get("status", {}).get("conditions") or []
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                break
            await asyncio.sleep(0.1)  # only real servers are that slow


@pytest.fixture
async def world(
    cluster: Cluster, _definitions: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """A new namespace in the cluster of this run: the emulator or a real one."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig_path))
    world = World(
        cluster.url,
        make_namespace(),
        cluster.kubeconfig_path,
        headers=cluster.make_headers(),
        context=cluster.make_ssl_context(),
    )
    meta = {"name": world.namespace}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    try:
        await world.request("POST", "/api/v1/namespaces", body)
        yield world
        for definition in DEFINITIONS:
            await _release(world, definition["spec"]["names"]["plural"])
        await world.request("DELETE", f"/api/v1/namespaces/{world.namespace}")
    finally:
        await world.close()


async def _release(world: World, plural: str) -> None:
    """Nobody is there anymore to remove the finalizers."""
    for item in (await world.request("GET", world.path(plural=plural)))["items"]:
        world.plural = plural
        if item["metadata"].get("finalizers"):
            with contextlib.suppress(AssertionError):
                await world.patch({"metadata": {"finalizers": None}}, item["metadata"]["name"])


@pytest.fixture
async def faulty(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A sandbox of this test alone, with its faults and journal at hand."""
    async with Sandbox() as sandbox:
        path = sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        monkeypatch.setenv("KUBECONFIG", str(path))
        await sandbox.apply(DEFINITIONS)
        namespace = make_namespace()
        await sandbox.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
        world = World(sandbox.url, namespace, path, sandbox=sandbox)
        try:
            yield world
        finally:
            sandbox.faults.clear()
            await world.close()


@pytest.fixture
def rules() -> list[Any]:
    """What the account is granted besides the rules of its manifest."""
    return []


@pytest.fixture
async def account(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    world: World,
    rules: list[Any],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Account]:
    """A service account of a manifest; the operators of the test are run with it."""
    manifest = getattr(request, "param", "namespaced")
    account = Account(world, cluster, manifest, tmp_path, "subs", "rares")
    account.extend(rules)
    await account.create()
    monkeypatch.setenv("KUBECONFIG", str(account.kubeconfig_path))
    yield account
    await account.delete()


@pytest.fixture
async def messages(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Messages]:
    handler = Messages()
    loggers = [logging.getLogger("kopf"), logging.getLogger("kopf_cogs")]
    for logger in loggers:
        caplog.set_level(logging.DEBUG, logger.name)
        logger.addHandler(handler)
    yield handler
    for logger in loggers:
        logger.removeHandler(handler)
