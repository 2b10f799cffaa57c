"""The worlds for the tests of operators: a cluster of this run, or a sandbox with faults."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from e2e.clusters import Cluster
from e2e.tests.accounts import Account, Messages
from e2e.tests.harness import DEFINITIONS, World, make_namespace
from e2e.tests.worlds import apply_definitions, open_world
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
def _definitions(cluster: Cluster) -> None:
    """The custom resources, once a run."""
    apply_definitions(cluster)


@pytest.fixture
async def world(
    cluster: Cluster, _definitions: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """A new namespace in the cluster of this run: the emulator or a real one."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig_path))
    async with open_world(cluster) as world:
        yield world


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
