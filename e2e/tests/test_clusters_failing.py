"""API servers are lost, restarted, and forget their history: nothing is lost for operators."""

from __future__ import annotations

import asyncio
import json
import logging
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from e2e.clusters import Cluster
from e2e.tests import harness
from e2e.tests.harness import GROUP, World
from e2e.tests.proxies import Proxy
from kopf_core.intents import decorators as on

KEX = (GROUP, "kexes")


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longer the server is absent, the longer are the delays of reconnecting."""
    monkeypatch.setattr(harness, "PATIENCE", 90.0)


@pytest.fixture
async def proxy(
    world: World, cluster: Cluster, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Proxy]:
    """The way of operators to the cluster; the tests have their own."""
    async with Proxy(cluster.url) as proxy:
        config = json.loads(json.dumps(cluster.kubeconfig))
        config["clusters"][0]["cluster"]["server"] = proxy.url
        path = tmp_path / "proxied.kubeconfig"
        path.write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield proxy


@pytest.fixture
def _handlers(world: World) -> None:
    @on.create(*KEX, id="fn", registry=world.registry)
    @on.update(*KEX, id="fn", registry=world.registry)
    def fn(name: str, spec: Any, reason: str, **_: Any) -> None:
        world.calls((str(reason), name, spec["n"]))

    @on.event(*KEX, id="event", registry=world.registry)
    def event_fn(name: str, type: str | None, **_: Any) -> None:
        if type == "DELETED":
            world.calls(("gone", name))


async def begin(world: World) -> None:
    for name in ["kept", "changed", "deleted"]:
        await world.create({"n": 0}, name)
    for name in ["kept", "changed", "deleted"]:
        await world.until_handled(name)


async def change(world: World) -> None:
    await world.create({"n": 1}, "created")
    await world.patch({"spec": {"n": 1}}, "changed")
    await world.delete("deleted")
    await world.create({"n": 1}, "fleeting")
    await world.delete("fleeting")


async def check(world: World, n: int = 1) -> None:
    """Everything is noticed, once; what has come and gone unnoticed does not matter."""
    await world.until_handled("created", {"n": n})
    await world.until_handled("changed", {"n": n})
    await world.calls.until(lambda calls: ("gone", "deleted") in calls)
    calls = [call for call in world.calls if call[1] != "fleeting"]
    assert sorted(calls) == sorted(
        [
            *[("create", name, 0) for name in ["kept", "changed", "deleted"]],
            ("create", "created", n),
            ("update", "changed", n),
            ("gone", "deleted"),
        ]
    )


@pytest.mark.usefixtures("_handlers")
async def test_b1_changes_are_noticed_after_the_connections_are_lost(world, proxy):
    async with world.operator():
        await begin(world)
        proxy.cut()
        await change(world)
        proxy.repair()
        await check(world)


@pytest.mark.usefixtures("_handlers")
async def test_b1_changes_are_noticed_after_the_history_is_compacted(
    world, proxy, cluster, caplog, logged
):
    caplog.set_level(logging.DEBUG, "kopf_cogs")
    if cluster.compact is None:
        pytest.skip("there is no way to compact its history")
    async with world.operator():
        await begin(world)
        proxy.cut()
        await change(world)
        page = await world.request("GET", world.path())
        await asyncio.to_thread(cluster.compact, int(page["metadata"]["resourceVersion"]))
        if cluster.restart is not None:  # or else it has the history in its caches
            await asyncio.to_thread(cluster.restart)
        proxy.repair()
        await check(world)
    assert logged("The resource version of kexes.v1.e2e.kopf.dev")


@pytest.mark.usefixtures("_handlers")
async def test_b1_changes_are_noticed_after_the_api_server_is_restarted(world, cluster):
    if cluster.restart is None:
        pytest.skip("there is no way to restart it")
    async with world.operator():
        await begin(world)
        await asyncio.to_thread(cluster.restart)
        await change(world)
        await check(world)


async def test_a3_lists_are_begun_anew_if_they_are_compacted_in_the_middle(world, cluster, logged):
    if cluster.compact is None:
        pytest.skip("there is no way to compact its history")
    world.settings.watching.chunk_size = 2
    seen: list[str] = []
    gate = asyncio.Event()

    @on.index(*KEX, id="idx", registry=world.registry)
    async def idx(name: str, **_: Any) -> None:
        seen.append(name)
        world.calls(("indexed", name))
        if len(seen) == 1:
            await gate.wait()

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(name: str, **_: Any) -> None:
        world.calls(("created", name))

    names = [f"obj-{n}" for n in range(5)]
    for name in names:
        await world.create({}, name)
    async with world.operator():
        await world.calls.until(len)
        await world.delete(names[-1])
        last = await world.create({}, "late")
        version = int(last["metadata"]["resourceVersion"])
        await asyncio.to_thread(cluster.compact, version)
        gate.set()
        for name in [*names[:-1], "late"]:
            await world.until_handled(name)
    created = [name for kind, name in world.calls if kind == "created"]
    assert sorted(created) == sorted([*names[:-1], "late"])
    assert not logged("", logging.ERROR)
