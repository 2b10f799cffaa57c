"""Kinds and namespaces that come and go many times, and API groups that are broken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from e2e.tests import harness
from e2e.tests.harness import CRDS, GROUP, JSON, MERGE, get_essence, make_crd
from e2e.tests.test_clusters_changing import NAMESPACES, defined, inside, rare, until
from kopf_core.intents import decorators as on

KEX = (GROUP, "kexes")
TIMES = 20
MANY = 50

__all__ = ["rare"]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real servers delete namespaces and definitions slowly."""
    monkeypatch.setattr(harness, "PATIENCE", 120.0)
    monkeypatch.setattr("e2e.tests.test_clusters_changing.PATIENCE", 120.0)


async def become(check: Callable[[], object]) -> None:
    """Wait for what nobody tells of."""
    async with asyncio.timeout(harness.PATIENCE):
        while not check():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def is_handled(obj: harness.Obj, n: float) -> bool:
    """Whether nothing more is going to be stored: the definition can be deleted."""
    return obj.get("status") == {"n": n} and get_essence(obj) == {"spec": {"n": n}}


@pytest.mark.timeout(900)
async def test_c20_definitions_come_and_go_many_times_and_change_in_place(world, rare, logged):
    kind = rare[:-1].capitalize()

    @on.create(GROUP, rare, id="fn", registry=world.registry)
    @on.update(GROUP, rare, id="fn", registry=world.registry)
    def fn(spec: Any, patch: Any, **_: Any) -> None:
        patch.status["n"] = spec["n"]
        world.calls(spec["n"])

    path = f"{world.path(plural=rare)}/obj"
    url = f"{CRDS}/{rare}.{GROUP}"
    head = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "obj"}}

    async def until_stored(n: float) -> None:
        async with asyncio.timeout(harness.PATIENCE):
            while not is_handled(await world.request("GET", path), n):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async with world.operator() as operator:

        def is_known() -> bool:
            resources = operator.essentials.insights.resources
            return any(res.plural == rare and "status" in res.subresources for res in resources)

        for n in range(TIMES):
            async with defined(world, make_crd(rare, kind)):
                await world.request("POST", world.path(plural=rare), {**head, "spec": {"n": n}})
                await until_stored(n)
                if n % 5 == 0:
                    op = {"op": "add", "path": "/spec/versions/0/subresources"}
                    await world.request("PATCH", url, [{**op, "value": {"status": {}}}], JSON)
                    await become(is_known)  # until then, the status is not stored, with a warning
                    await until(world, f"{path}/status", is_there=True)
                    await world.request("PATCH", path, {"spec": {"n": n + 0.5}}, MERGE)
                    await until_stored(n + 0.5)
    expected = [m for n in range(TIMES) for m in ([n, n + 0.5] if n % 5 == 0 else [n])]
    assert world.calls == expected
    assert not logged("", logging.ERROR)


@pytest.mark.timeout(900)
async def test_c19_many_namespaces_come_and_go(world, logged):
    names = [f"{world.namespace}-{n}" for n in range(MANY)]

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(namespace: str, memo: Any, **_: Any) -> None:
        world.calls(("created", namespace, len(memo)))
        memo["seen"] = True

    @on.delete(*KEX, id="fn", registry=world.registry)
    def delete_fn(namespace: str, **_: Any) -> None:
        world.calls(("deleted", namespace))

    async with world.operator(namespaces=[f"{world.namespace}-*"]) as operator:
        for cycle in range(2):
            for name in names:
                await world.request("POST", NAMESPACES, {"metadata": {"name": name}})
                async with inside(world, name):
                    await world.create()
            await world.calls.until(lambda calls, n=cycle: len(calls) == (2 * n + 1) * MANY)
            for name in names:
                await world.request("DELETE", f"{NAMESPACES}/{name}")
            await world.calls.until(lambda calls, n=cycle: len(calls) == (2 * n + 2) * MANY)
            for name in names:
                await until(world, f"{NAMESPACES}/{name}", is_there=False)
        await become(lambda: not operator.handling.orchestrator.intakes)
    assert sorted(world.calls) == sorted(
        2 * [("created", name, 0) for name in names] + 2 * [("deleted", name) for name in names]
    )
    assert not logged("", logging.ERROR)


async def test_c20_scopes_are_switched(world, rare):
    kind = rare[:-1].capitalize()

    @on.create(GROUP, rare, id="fn", registry=world.registry)
    def fn(namespace: str | None, resource: Any, **_: Any) -> None:
        world.calls((namespace, resource.namespaced))

    head = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "obj"}}
    definition = make_crd(rare, kind)
    async with world.operator():
        for scope in ["Namespaced", "Cluster", "Namespaced"]:
            definition["spec"]["scope"] = scope
            path = world.path(plural=rare)
            if scope == "Cluster":
                path = path.replace(f"/namespaces/{world.namespace}", "")
            await world.request("POST", CRDS, definition)
            await until(world, path, is_there=True)
            count = len(world.calls)
            await world.request("POST", path, head)
            await world.calls.until(lambda calls, n=count: len(calls) > n)
            await world.request("DELETE", f"{CRDS}/{rare}.{GROUP}")
            await until(world, f"{CRDS}/{rare}.{GROUP}", is_there=False)
    assert world.calls == [(world.namespace, True), (None, False), (world.namespace, True)]


async def test_c20_failing_conversions_are_survived_and_recovered_from(
    world, rare, cluster, logged
):
    if cluster.name == "emulator":
        pytest.skip("the emulator never converts the objects")
    kind = rare[:-1].capitalize()
    group = f"{rare}.kopf.dev"
    definition = make_crd(rare, kind)
    definition["spec"]["group"], definition["metadata"]["name"] = group, f"{rare}.{group}"
    version = definition["spec"]["versions"][0]
    definition["spec"]["versions"].append({**version, "name": "v2", "storage": False})
    url, path = f"{CRDS}/{rare}.{group}", world.path(plural=rare).replace(GROUP, group)
    hook = {"clientConfig": {"url": "https://127.0.0.1:1/"}, "conversionReviewVersions": ["v1"]}
    broken = {"strategy": "Webhook", "webhook": hook}

    @on.create(group, rare, id="fn", registry=world.registry)
    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(resource: Any, **_: Any) -> None:
        world.calls(f"{resource.plural}.{resource.version}")

    head = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "obj"}}
    await world.request("POST", CRDS, definition)
    try:
        await until(world, path, is_there=True)
        await world.request("POST", path, head)
        await world.request("PATCH", url, {"spec": {"conversion": broken}}, MERGE)
        async with world.operator():
            await world.create()
            await world.until_handled()
            await become(lambda: logged("conversion webhook", logging.WARNING))
            assert f"{rare}.v2" not in world.calls
            working = {"conversion": {"strategy": "None", "webhook": None}}
            await world.request("PATCH", url, {"spec": working}, MERGE)
            await world.calls.until(lambda calls: f"{rare}.v2" in calls)
    finally:
        await world.request("DELETE", url)
        await until(world, url, is_there=False)
    assert world.calls == ["kexes.v1", f"{rare}.v2"]


async def test_c21_broken_api_services_are_skipped_until_they_recover(world, cluster, logged):
    """Handlers of any group make the operator look into all of them."""
    if cluster.name == "emulator":
        pytest.skip("the emulator has no API services; see the tests of discovery")
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    name = f"v1.{world.namespace}.kopf.dev"
    spec = {
        "group": name.removeprefix("v1."),
        "version": "v1",
        "service": {"name": "absent", "namespace": world.namespace},
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
    }

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(name: str, **_: Any) -> None:
        world.calls(name)

    await world.request("POST", services, {"metadata": {"name": name}, "spec": spec})
    try:
        async with world.operator():
            await world.create()
            await world.until_handled()
    finally:
        await world.request("DELETE", f"{services}/{name}")
    assert world.calls == ["obj"]
    assert not logged("", logging.ERROR)


@pytest.mark.timeout(900)
async def test_c19_two_thousand_namespaces_are_served_by_a_pattern(faulty):
    names = [f"many-{n}" for n in range(2000)]
    for name in names:
        await faulty.sandbox.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )

    @on.create(*KEX, id="fn", registry=faulty.registry)
    async def fn(namespace: str, **_: Any) -> None:
        faulty.calls(namespace)

    chosen = names[::100]
    async with faulty.operator(namespaces=["many-*"]) as operator:
        for name in chosen:
            async with inside(faulty, name):
                await faulty.create()
        await faulty.calls.until(lambda calls: len(calls) == len(chosen))
        await become(lambda: len(operator.handling.orchestrator.intakes) == len(names))
        for name in names[1:]:
            await faulty.request("DELETE", f"{NAMESPACES}/{name}")
        await become(lambda: len(operator.handling.orchestrator.intakes) == 1)
    assert sorted(faulty.calls) == sorted(chosen)
