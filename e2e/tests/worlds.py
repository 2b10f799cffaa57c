"""Worlds of tests: their definitions and namespaces in a cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from e2e.clusters import Cluster
from e2e.tests.harness import CRDS, DEFINITIONS, World, make_namespace


def apply_definitions(cluster: Cluster) -> None:
    """Create the custom resources, and wait until they are served."""

    async def apply() -> None:
        world = _connect(cluster, "default")
        try:
            for definition in DEFINITIONS:
                with contextlib.suppress(AssertionError):  # from the previous runs
                    await world.request("POST", CRDS, definition)
                await _until_served(world, definition["metadata"]["name"])
        finally:
            await world.close()

    asyncio.run(apply())


@contextlib.asynccontextmanager
async def open_world(cluster: Cluster) -> AsyncIterator[World]:
    """Have a new namespace in the cluster, deleted in the end."""
    world = _connect(cluster, make_namespace())
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


def _connect(cluster: Cluster, namespace: str) -> World:
    return World(
        cluster.url,
        namespace,
        cluster.kubeconfig_path,
        headers=cluster.make_headers(),
        context=cluster.make_ssl_context(),
    )


async def _until_served(world: World, name: str) -> None:
    async with asyncio.timeout(60):
        while True:
            found = await world.request("GET", f"{CRDS}/{name}")
            conditions = found.get("status", {}).get("conditions") or []
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                break
            await asyncio.sleep(0.1)  # only real servers are that slow


async def _release(world: World, plural: str) -> None:
    """Nobody is there anymore to remove the finalizers."""
    for item in (await world.request("GET", world.path(plural=plural)))["items"]:
        world.plural = plural
        if item["metadata"].get("finalizers"):
            with contextlib.suppress(AssertionError):
                await world.patch({"metadata": {"finalizers": None}}, item["metadata"]["name"])
