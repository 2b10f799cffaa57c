"""``kopf migrate`` on real clusters: with a migrator, with an idle one, and without."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from e2e.clusters import Cluster
from e2e.tests.convertibles import KIND, NO_CONVERSION, Kind, defining, read_etcd, until
from e2e.tests.harness import CRDS, GROUP, MERGE, PATIENCE, World, make_namespace
from kopf_kits.envtest import Envtest
from kopf_kits.envtest.assets import find_assets
from kopf_kits.envtest.commands import make_manager_command

COUNT = 30
GATE = "StorageVersionMigrator=true"
API = "storagemigration.k8s.io/v1beta1"
REQUESTS = f"/apis/{API}/storageversionmigrations"

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


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


@contextlib.asynccontextmanager
async def storing(cluster: Cluster) -> AsyncIterator[Kind]:
    """Have the kind in a new namespace of the cluster, and the operator that converts it."""
    if cluster.authority is None:
        pytest.skip("the storage of this cluster cannot be seen")
    world = StoringWorld(
        cluster.url,
        make_namespace(),
        cluster.kubeconfig_path,
        headers=cluster.make_headers(),
        context=cluster.make_ssl_context(),
    )
    world.folder = cluster.authority
    meta = {"name": world.namespace}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    try:
        await world.request("POST", "/api/v1/namespaces", body)
        async with defining(world) as kind, kind.serving():
            yield kind
    finally:
        await world.close()


@pytest.fixture
async def kind(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kind]:
    """The kind in a cluster which cannot migrate by itself."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig_path))
    async with storing(cluster) as kind:
        yield kind


@pytest.fixture(scope="module")
def gated(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane that accepts requests for migrations, with nobody to execute them."""
    if cluster.name != "envtest":
        pytest.skip("this cluster cannot be started with other options")
    path = tmp_path_factory.mktemp("gated") / "kubeconfig"
    arguments = [f"--feature-gates={GATE}", f"--runtime-config={API}=true"]
    with Envtest(apiserver_args=arguments) as envtest:
        envtest.write_kubeconfig(path)
        url, kubeconfig = envtest.url, envtest.kubeconfig()
        yield Cluster("envtest", url, kubeconfig, path, authority=envtest.folder)


@pytest.fixture
async def gated_kind(gated: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kind]:
    """The kind in the cluster which accepts requests for migrations."""
    monkeypatch.setenv("KUBECONFIG", str(gated.kubeconfig_path))
    async with storing(gated) as kind:
        yield kind


@contextlib.asynccontextmanager
async def executing(cluster: Cluster, log: pathlib.Path) -> AsyncIterator[None]:
    """Have somebody in the cluster who executes the requests for migrations."""
    assets = find_assets()
    assert assets.controller_manager is not None
    assert cluster.authority is not None
    command = make_manager_command(
        assets.controller_manager, cluster.authority, cluster.kubeconfig_path
    )
    controllers = "garbage-collector-controller,storage-version-migrator-controller"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *command, f"--controllers={controllers}", f"--feature-gates={GATE}", stderr=file
        )
        try:
            yield
        finally:
            process.kill()
            await process.wait()


async def until_halfway(kind: Kind) -> None:
    """Let the conversions through by a few, until some of the objects are rewritten."""
    while True:
        async with asyncio.timeout(PATIENCE):
            await kind.held.wait()
        if await get_versions(kind) == {"v1", "v1beta1"}:
            return
        kind.release()
        kind.hold(2)


async def kill(process: asyncio.subprocess.Process) -> None:
    process.kill()
    await process.wait()


async def test_n9_kopf_goes_on_after_a_kill(kind: Kind) -> None:
    await fill(kind)
    kind.hold(0)
    async with migrating(kind.world) as process:
        await until_halfway(kind)
        await kill(process)
    kind.release()
    assert {*await kind.get_stored()} == {"v1beta1", "v1"}
    result = await migrate(kind.world)
    assert (result["clusterMigrator"], result["doneBy"]) == (None, "kopf")
    assert (result["result"], result["objects"]) == ("migrated", COUNT)
    assert 0 < result["rewritten"] < COUNT
    await verify(kind)


async def test_n9_the_cluster_goes_on_after_a_kill(
    gated: Cluster, gated_kind: Kind, tmp_path: pathlib.Path
) -> None:
    kind, world = gated_kind, gated_kind.world
    await fill(kind)
    kind.hold(0)
    async with executing(gated, tmp_path / "log"):
        async with migrating(world) as process:
            await until_halfway(kind)
            await kill(process)
        assert (await world.attempt("GET", f"{REQUESTS}/kopf.{KIND}")).status == 200
        kind.release()
        # While conversions are held, its controllers retry the lists of the kind ever more rarely.
        result = await migrate(world, "--patience=180")
    assert (result["clusterMigrator"], result["doneBy"]) == (API, "cluster")
    assert (result["result"], result["rewritten"]) == ("migrated", 0)
    assert (await world.attempt("GET", f"{REQUESTS}/kopf.{KIND}")).status == 404
    await verify(kind)


async def test_n9_kopf_goes_on_when_nobody_executes_the_request(
    gated: Cluster, gated_kind: Kind, tmp_path: pathlib.Path
) -> None:
    """Also if the executor of the cluster has been there, and is gone in the middle."""
    kind, world = gated_kind, gated_kind.world
    await fill(kind)
    kind.hold(0)
    async with migrating(world, "--patience=1") as process:
        async with executing(gated, tmp_path / "log"):
            await until_halfway(kind)
        kind.release()
        stdout, stderr = await process.communicate()
    assert process.returncode == 0, (stdout, stderr)
    result = json.loads(stdout)
    assert (result["clusterMigrator"], result["doneBy"]) == (API, "kopf")
    assert b"there is no progress for 1 seconds. Kopf does." in stderr
    assert (await world.attempt("GET", f"{REQUESTS}/kopf.{KIND}")).status == 404
    await verify(kind)
