"""The rights which the chapter of reconcilers grants for children, on a real API server."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import pytest
import yaml

from e2e.clusters import Cluster
from e2e.tests.harness import GROUP, PATIENCE, World
from kopf_core.intents import decorators as on

CHAPTER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "reconciling.md"
CLUSTER_WIDE = pytest.mark.parametrize("account", ["cluster-wide"], indirect=True)


@pytest.fixture(autouse=True)
def _real(cluster: Cluster) -> None:
    if cluster.name == "emulator":
        pytest.skip("the emulator does not check permissions")


@pytest.fixture
def rules() -> list[Any]:
    section = CHAPTER.read_text("utf-8").partition("\n## Permissions\n")[2]
    found: list[Any] = yaml.safe_load(section.partition("```yaml\n")[2].partition("```")[0])[
        "rules"
    ]
    return found


@pytest.fixture(autouse=True)
def _handlers(world: World) -> None:
    world.settings.peering.standalone = True  # the definitions for other tests can be there

    @on.reconcile(GROUP, "kexes", id="keep", owns=["configmaps"], registry=world.registry)
    def keep(name: str, spec: Any, **_: Any) -> Any:
        if "mode" in spec:
            data = {"mode": spec["mode"]}
            yield {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name},
                "data": data,
            }


async def until_child(world: World, mode: str | None) -> None:
    url = f"/api/v1/namespaces/{world.namespace}/configmaps/obj"
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = await world.attempt("GET", url)
            if (answer.body.get("data") or {}).get("mode") == mode:
                break
            await asyncio.sleep(0.1)


@CLUSTER_WIDE
async def test_documented_rights_to_children_are_enough(world, account, messages):
    async with world.operator():
        await world.create({"mode": "slow"})
        await until_child(world, "slow")
        await world.patch({"spec": {"mode": "fast"}})
        await until_child(world, "fast")
        await world.patch({"spec": {"mode": None}})
        await until_child(world, None)
    assert not messages.find()


@CLUSTER_WIDE
@pytest.mark.parametrize("verb", ["create", "patch"])
async def test_children_need_both_creation_and_patching(world, account, messages, verb):
    await account.restrict(verb, "configmaps")
    async with world.operator():
        await world.create({"mode": "slow"})
        await messages.until(f'cannot {verb} resource "configmaps"')
    await until_child(world, None)
