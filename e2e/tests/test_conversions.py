"""Objects of several versions of a kind, converted by the operator for API servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import kopf
from e2e.clusters import Cluster
from e2e.tests.harness import CRDS, GROUP, PATIENCE, World
from kopf_core.intents import decorators as on
from kopf_kits.webhooks import WebhookServer

PLURAL = "convertibles"
KIND = f"{PLURAL}.{GROUP}"
VERSIONS = ("v1alpha1", "v1beta1", "v1")
MERGE = "application/merge-patch+json"


def make_definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": KIND},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": PLURAL, "singular": "convertible", "kind": "Convertible"},
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": name == "v1beta1",
                    "schema": {"openAPIV3Schema": schema},
                }
                for name in VERSIONS
            ],
        },
    }


NONE = {"strategy": "None", "webhook": None}

FIELDS = {"v1alpha1": "number", "v1beta1": "size", "v1": "replicas"}
"""The same in different versions: as text, as an integer, as an integer with another name."""


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again: nobody tells when a definition has got to API servers."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if await check():
                return
            await asyncio.sleep(0.1)


class Kind:
    """The kind of these tests, in all its versions."""

    def __init__(self, world: World) -> None:
        self.world = world

    def path(self, version: str, name: str = "") -> str:
        root = f"/apis/{GROUP}/{version}/namespaces/{self.world.namespace}/{PLURAL}"
        return f"{root}/{name}" if name else root

    def make(self, version: str, number: int) -> dict[str, Any]:
        value = str(number) if version == "v1alpha1" else number
        return {
            "apiVersion": f"{GROUP}/{version}",
            "kind": "Convertible",
            "metadata": {"name": f"obj-{number}", "labels": {"n": str(number)}},
            "spec": {FIELDS[version]: value, "kept": {"a": [number]}},
        }

    async def read(self, version: str, number: int) -> Any:
        obj = await self.world.request("GET", self.path(version, f"obj-{number}"))
        assert obj["apiVersion"] == f"{GROUP}/{version}"
        assert obj["metadata"]["labels"] == {"n": str(number)}
        return obj["spec"]

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Run the operator; it takes a while for API servers to know whom to ask."""
        async with self.world.operator():
            await until(self.is_converted)
            yield

    async def is_converted(self) -> bool:
        path = f"{self.path('v1alpha1')}?dryRun=All"
        answer = await self.world.attempt("POST", path, self.make("v1alpha1", 0))
        return answer.status == 201 and "number" in answer.body["spec"] and self.is_called

    async def is_served(self) -> bool:
        return (await self.world.attempt("GET", self.path("v1beta1"))).status == 200

    async def is_configured(self) -> bool:
        definition = await self.world.request("GET", f"{CRDS}/{KIND}")
        return bool(definition["spec"]["conversion"]["strategy"] == "Webhook")

    is_called = False

    def declare(self) -> None:
        registry = self.world.registry

        @on.convert("v1alpha1", "v1beta1", kind=KIND, registry=registry)
        def alpha_to_beta(spec: Any, **_: Any) -> None:
            self.is_called = True
            spec["size"] = int(spec.pop("number"))

        @on.convert("v1beta1", "v1alpha1", kind=KIND, registry=registry)
        def beta_to_alpha(spec: Any, **_: Any) -> None:
            spec["number"] = str(spec.pop("size"))

        @on.convert("v1beta1", "v1", kind=KIND, registry=registry)
        async def beta_to_v1(spec: Any, **_: Any) -> None:
            spec["replicas"] = spec.pop("size")

        @on.convert("v1", "v1beta1", kind=KIND, registry=registry)
        def v1_to_beta(body: Any, spec: Any, **_: Any) -> Any:
            others = {key: value for key, value in spec.items() if key != "replicas"}
            return {**body, "spec": {**others, "size": spec["replicas"]}}


@pytest.fixture
async def kind(world: World, cluster: Cluster) -> AsyncIterator[Kind]:
    if cluster.name == "emulator":
        pytest.skip("the emulator never converts the objects")
    world.settings.admission.managed = f"{world.namespace}.kopf.dev"
    world.settings.admission.server = WebhookServer(addr="127.0.0.1")
    await world.attempt("POST", CRDS, make_definition())
    kind = Kind(world)
    kind.declare()
    yield kind
    await world.request("DELETE", f"{CRDS}/{KIND}")


@pytest.mark.timeout(120)
async def test_n8_objects_are_the_same_in_all_versions(kind: Kind) -> None:
    """Also those stored before the conversions were there; also ten at once; also later."""
    world = kind.world
    await until(kind.is_served)
    await world.request("POST", kind.path("v1beta1"), kind.make("v1beta1", 1))

    @on.create(f"{GROUP}/v1", PLURAL, registry=world.registry)
    async def created(name: str, spec: Any, **_: Any) -> None:
        if "replicas" not in spec:  # the server has not taken up the conversion of this kind yet
            raise kopf.TemporaryError("It is not converted.", delay=0.1)
        world.calls((name, spec["replicas"]))

    async with kind.serving():
        for number in range(2, 13):
            version = VERSIONS[number % 3]
            await world.request("POST", kind.path(version), kind.make(version, number))
        for version in VERSIONS:
            specs = await asyncio.gather(*(kind.read(version, n) for n in range(1, 13)))
            assert specs == [kind.make(version, n)["spec"] for n in range(1, 13)]
        await world.calls.until(lambda calls: len({*calls}) == 12)
        assert {*world.calls} == {(f"obj-{n}", n) for n in range(1, 13)}
        patch = {"spec": {"kept": {"a": ["changed"]}}}
        await world.request("PATCH", kind.path("v1alpha1", "obj-1"), patch, MERGE)
        assert await kind.read("v1", 1) == {"replicas": 1, "kept": {"a": ["changed"]}}
    assert await kind.is_configured()
    assert await kind.read("v1beta1", 2) == kind.make("v1beta1", 2)["spec"]
    async with kind.serving():  # at another port
        page = await world.request("GET", kind.path("v1"))
        assert {item["spec"]["replicas"] for item in page["items"]} == {*range(1, 13)}
        await world.request("PATCH", f"{CRDS}/{KIND}", {"spec": {"conversion": NONE}}, MERGE)
        await until(kind.is_configured)
