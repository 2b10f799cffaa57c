"""``kopf migrate`` on real clusters: with a migrator, with an idle one, and without."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from e2e.clusters import Cluster
from e2e.tests.convertibles import KIND, NO_CONVERSION, Kind, defining, read_etcd, until
from e2e.tests.harness import CRDS, GROUP, MERGE, World

COUNT = 30
GATE = "StorageVersionMigrator=true"
REQUESTS = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@contextlib.asynccontextmanager
async def migrating(world: World, *args: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the command; kill it if it is still there in the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kopf", "migrate", KIND, "--yes", "-o", "json", *args,
        env={**os.environ, "KUBECONFIG": str(world.kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def migrate(world: World, *args: str) -> Any:
    """Run the command to its end; get its output."""
    async with migrating(world, *args) as process:
        stdout, stderr = await process.communicate()
        assert process.returncode == 0, (stdout, stderr)
        return json.loads(stdout)


async def fill(kind: Kind) -> None:
    """Store the objects in the older version, and change the storage version after that."""
    for number in range(1, COUNT + 1):
        await kind.world.request("POST", kind.path("v1beta1"), kind.make("v1beta1", number))
    await kind.store_in("v1")
    await until(lambda: is_stored_in(kind, "v1"))


async def is_stored_in(kind: Kind, version: str) -> bool:
    """Whether the API server has noticed the change: by how it stores the next object."""
    await kind.world.attempt("DELETE", kind.path("v1", "obj-0"))
    await kind.world.request("POST", kind.path("v1"), kind.make("v1", 0))
    found = await asyncio.to_thread(read_etcd, kind.world.folder)
    await kind.world.request("DELETE", kind.path("v1", "obj-0"))
    return bool(found["obj-0"]["apiVersion"] == f"{GROUP}/{version}")


async def get_versions(kind: Kind) -> set[str]:
    found = await asyncio.to_thread(read_etcd, kind.world.folder)
    assert len(found) == COUNT
    return {value["apiVersion"].rpartition("/")[2] for value in found.values()}


async def verify(kind: Kind) -> None:
    """All is in the new version, and can be read with no conversions when others are removed."""
    assert await get_versions(kind) == {"v1"}
    assert await kind.get_stored() == ["v1"]
    page = await kind.world.request("GET", kind.path("v1"))
    versions = (await kind.world.request("GET", f"{CRDS}/{KIND}"))["spec"]["versions"]
    left = [version for version in versions if version["name"] == "v1"]
    patch = {"spec": {"versions": left, "conversion": NO_CONVERSION}}
    await kind.world.request("PATCH", f"{CRDS}/{KIND}", patch, MERGE)
    assert {item["spec"]["replicas"] for item in page["items"]} == {*range(1, COUNT + 1)}
    for item in page["items"]:
        assert item["spec"] == kind.make("v1", item["spec"]["replicas"])["spec"]


class StoringWorld(World):
    """A world whose storage can be looked into."""

    folder: pathlib.Path


@pytest.fixture
async def kind(world: World, cluster: Cluster) -> AsyncIterator[Kind]:
    if cluster.authority is None:
        pytest.skip("the storage of this cluster cannot be seen")
    world.folder = cluster.authority
    async with defining(world) as kind:
        yield kind
