"""Reconcilers among refusals, and among others who change the same objects: on any cluster."""

from __future__ import annotations

import asyncio
import json

import pytest

from e2e.clusters import Cluster
from e2e.tests.gateways import Gateway
from e2e.tests.harness import GROUP, MERGE, World
from kopf_core.intents import decorators as on

CHILDREN = ["a", "b", "c"]
APPLY = "application/apply-patch+yaml"


@pytest.fixture
async def gateway(world: World, cluster: Cluster, tmp_path, monkeypatch):
    """The gateway, with an operator behind it: three children, and a condition."""
    world.plural = "subs"

    @on.reconcile(
        GROUP, "subs", id="fn", owns=["configmaps"], backoff=0.01, registry=world.registry
    )
    def fn(spec, name, conditions, **_):
        for child in spec["names"]:
            yield config_map(f"{name}-{child}", spec["x"])
        conditions.set("Ready", True, message=spec["x"])

    async with Gateway(cluster).running() as gateway:
        config = gateway.write_kubeconfig(tmp_path / "gateway")
        monkeypatch.setenv("KUBECONFIG", str(config))
        async with world.operator():
            yield gateway


def config_map(name: str, x: str):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": x}}


def is_ready(message: str):
    def check(obj):
        conditions = ((obj or {}).get("status") or {}).get("conditions") or []
        is_clean = obj is not None and not obj["metadata"].get("annotations")
        return is_clean and any(c["message"] == message for c in conditions)

    return check


async def get_children(world: World, name: str):
    path = f"/api/v1/namespaces/{world.namespace}/configmaps"
    items = (await world.request("GET", path))["items"]
    return {
        item["metadata"]["name"].removeprefix(f"{name}-"): item
        for item in items
        if item["metadata"]["name"].startswith(f"{name}-")
    }


async def check_end(world: World, gateway: Gateway, name: str, x: str) -> None:
    """The end state is that of an undisturbed run, and nothing was made twice."""
    await world.until(is_ready(x), name)
    children = await get_children(world, name)
    assert [*children] == CHILDREN
    for child in children.values():
        assert child["data"] == {"x": x}
        assert [ref["name"] for ref in child["metadata"]["ownerReferences"]] == [name]
    made = [r.name for r in gateway.requests if r.status == 201 and r.name.startswith(f"{name}-")]
    assert sorted(made) == [f"{name}-{child}" for child in CHILDREN]
    assert not [r for r in gateway.requests if r.method == "DELETE"]


def is_about(name: str, request) -> bool:
    return request.is_write and (f"/{name}-" in request.path or f"/subs/{name}" in request.path)


REQUESTS = 4
"""How many requests an undisturbed pass makes: three children, and the status."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("status", [403, 409, 422, 429, 500, 0])
async def test_h2_refusals_at_any_request(world: World, gateway: Gateway, status: int) -> None:
    """No reply at all is the status 0."""
    for number in range(REQUESTS):
        name, left = f"n{number}", [number]

        def refuse(request, name=name, left=left):
            if not is_about(name, request):
                return None
            left[0] -= 1
            return status if left[0] == -1 else None

        gateway.refuse = refuse
        await world.create({"names": CHILDREN, "x": "1"}, name)
        await check_end(world, gateway, name, "1")
        assert left[0] < 0


@pytest.mark.timeout(600)
async def test_h2_owners_edited_at_any_request(world: World, gateway: Gateway) -> None:
    for number in range(REQUESTS):
        name, left = f"n{number}", [number]

        async def edit(request, name=name, left=left):
            if is_about(name, request):
                left[0] -= 1
                if left[0] == -1:
                    await world.patch({"spec": {"x": "2"}}, name)

        gateway.precede = edit
        await world.create({"names": CHILDREN, "x": "1"}, name)
        await check_end(world, gateway, name, "2")


@pytest.mark.timeout(600)
async def test_h2_owners_deleted_at_any_request(world: World, gateway: Gateway) -> None:
    """Nothing hangs, and nothing is done for them anymore; the operator serves others."""
    for number in range(REQUESTS):
        name, left = f"n{number}", [number]

        async def delete(request, name=name, left=left):
            if is_about(name, request):
                left[0] -= 1
                if left[0] == -1:
                    await world.delete(name)

        gateway.precede = delete
        await world.create({"names": CHILDREN, "x": "1"}, name)
        await world.until_gone(name)
    gateway.precede = None
    since = len(gateway.requests)
    await world.create({"names": CHILDREN, "x": "1"}, "last")
    await world.until(is_ready("1"), "last")
    assert sorted(gateway.find_writes(since)[-4:]) == sorted(
        ["PATCH status", *(f"PATCH last-{child}" for child in CHILDREN)]
    )


@pytest.mark.timeout(600)
async def test_h2_children_edited_deleted_and_taken_over(world: World, gateway: Gateway) -> None:
    path = f"/api/v1/namespaces/{world.namespace}/configmaps"
    await world.create({"names": CHILDREN, "x": "1"})
    await world.until(is_ready("1"))
    since = len(gateway.requests)

    # Edited: one request, and the fields of others stay.
    edit = {"data": {"x": "foreign", "theirs": "kept"}}
    await world.request("PATCH", f"{path}/obj-a", edit, MERGE)
    await until_child(world, "a", {"x": "1", "theirs": "kept"})
    assert gateway.find_writes(since) == ["PATCH obj-a"]

    # Taken over by another manager: it is taken back.
    taken = json.loads(json.dumps(config_map("obj-b", "theirs")))
    query = "?fieldManager=another&force=true"
    await world.request("PATCH", f"{path}/obj-b{query}", taken, APPLY)
    await until_child(world, "b", {"x": "1"})
    assert gateway.find_writes(since) == ["PATCH obj-a", "PATCH obj-b"]

    # Deleted: a new one is there.
    await world.request("DELETE", f"{path}/obj-c")
    await until_child(world, "c", {"x": "1"})
    assert gateway.find_writes(since) == ["PATCH obj-a", "PATCH obj-b", "PATCH obj-c"]

    # Steady: nothing is sent for it, though there are passes.
    await world.patch({"metadata": {"labels": {"any": "thing"}}})
    await world.create({"names": [], "x": "last"}, "last")
    await world.until(is_ready("last"), "last")
    assert gateway.find_writes(since)[3:] == ["PATCH status"]


async def until_child(world: World, name: str, data) -> None:
    async with asyncio.timeout(60):
        while True:
            if (await get_children(world, "obj")).get(name, {}).get("data") == data:
                break
            await asyncio.sleep(0.05)  # they are in no stream of the harness
