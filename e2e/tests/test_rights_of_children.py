"""The rights to children which the chapter of reconcilers grants, or less, on a real API server."""

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
KEX = (GROUP, "kexes")


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
def _reconciler(world: World) -> None:
    world.settings.scanning.disabled = True

    @on.reconcile(*KEX, id="fn", owns=["configmaps"], backoff=0.1, registry=world.registry)
    def fn(name: str, spec: Any, **_: Any) -> Any:
        metadata = {"name": f"{name}-{spec['field']}"}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}


async def until_found(world: World, name: str, status: int = 200) -> None:
    url = f"/api/v1/namespaces/{world.namespace}/configmaps/{name}"
    async with asyncio.timeout(PATIENCE):
        while (await world.attempt("GET", url)).status != status:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def hint(*verbs: str) -> str:
    rule = f'{{apiGroups: [""], resources: [configmaps], verbs: [{", ".join(verbs)}]}}'
    return f". Add this rule to the role of the operator: {rule}."


async def test_s1_documented_rights_to_children_are_enough(world, account, messages):
    async with world.operator():
        await world.create(name="a", spec={"field": "one"})
        await until_found(world, "a-one")
        await world.patch({"spec": {"field": "two"}}, name="a")
        await until_found(world, "a-two")
        await until_found(world, "a-one", status=404)
    assert not messages.find()


@pytest.mark.parametrize("verbs", [("create", "patch"), ("patch", "create")])
async def test_s4_absent_rights_to_apply_children_are_named_and_recovered_from(
    world, account, messages, verbs
):
    await account.restrict(verbs[0], "configmaps")
    async with world.operator():
        await world.create(name="a", spec={"field": "one"})
        await messages.until(hint(*verbs))
        await until_found(world, "a-one", status=404)
        await account.restore()
        await until_found(world, "a-one")


async def test_s4_absent_rights_to_delete_children_are_named_and_recovered_from(
    world, account, messages
):
    await account.restrict("delete", "configmaps")
    async with world.operator():
        await world.create(name="a", spec={"field": "one"})
        await until_found(world, "a-one")
        await world.patch({"spec": {"field": "two"}}, name="a")
        await messages.until(hint("delete"))
        await account.restore()
        await until_found(world, "a-one", status=404)
