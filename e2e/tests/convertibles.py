"""A kind of several versions, whose objects are converted by an operator for API servers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import pathlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any

from e2e.tests.harness import CRDS, GROUP, MERGE, PATIENCE, World
from kopf_core.intents import decorators as on
from kopf_kits.webhooks import WebhookServer

PLURAL = "convertibles"
KIND = f"{PLURAL}.{GROUP}"
VERSIONS = ("v1alpha1", "v1beta1", "v1")


def make_definition(storage: str = "v1beta1", served: Collection[str] = VERSIONS) -> dict[str, Any]:
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
                    "served": name in served,
                    "storage": name == storage,
                    "schema": {"openAPIV3Schema": schema},
                }
                for name in VERSIONS
            ],
        },
    }


NO_CONVERSION = {"strategy": "None", "webhook": None}

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
        self.is_called = False
        self.left: int | None = None
        """How many conversions to v1 are let through, if they are held at all."""

        self.held = asyncio.Event()
        self.released = asyncio.Event()

    def hold(self, left: int) -> None:
        """Hold all the conversions to v1 after so many of them, until they are released."""
        self.left = left
        self.held.clear()
        self.released.clear()

    def release(self) -> None:
        self.left = None
        self.released.set()

    async def pass_gate(self) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            self.held.set()
            await self.released.wait()

    async def store_in(self, version: str, *, served: Collection[str] = VERSIONS) -> None:
        """Change the storage version in the definition."""
        versions = make_definition(version, served)["spec"]["versions"]
        await self.world.request("PATCH", f"{CRDS}/{KIND}", {"spec": {"versions": versions}}, MERGE)

    async def get_stored(self) -> Any:
        definition = await self.world.request("GET", f"{CRDS}/{KIND}")
        return definition["status"]["storedVersions"]

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
            await self.pass_gate()
            spec["replicas"] = spec.pop("size")

        @on.convert("v1", "v1beta1", kind=KIND, registry=registry)
        def v1_to_beta(body: Any, spec: Any, **_: Any) -> Any:
            others = {key: value for key, value in spec.items() if key != "replicas"}
            return {**body, "spec": {**others, "size": spec["replicas"]}}


@contextlib.asynccontextmanager
async def defining(world: World, server: WebhookServer | None = None) -> AsyncIterator[Kind]:
    """Have the kind in the cluster, and the conversions in the operator."""
    world.settings.admission.managed = f"{world.namespace}.kopf.dev"
    world.settings.admission.server = server or WebhookServer(addr="127.0.0.1")
    await world.attempt("POST", CRDS, make_definition())
    kind = Kind(world)
    kind.declare()
    try:
        await until(kind.is_served)
        yield kind
    finally:
        kind.release()
        await world.attempt("DELETE", f"{CRDS}/{KIND}")
        await until(lambda: _is_gone(world))


async def _is_gone(world: World) -> bool:
    return (await world.attempt("GET", f"{CRDS}/{KIND}")).status == 404


def read_etcd(folder: pathlib.Path) -> dict[str, Any]:
    """All objects of the kind as they are stored, by their names; from the folder of etcd."""
    prefix = f"/registry/{GROUP}/{PLURAL}/"
    start = base64.b64encode(prefix.encode()).decode()
    end = base64.b64encode(f"{prefix[:-1]}0".encode()).decode()
    connection = http.client.HTTPConnection("localhost", timeout=PATIENCE)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(folder / "etcd:0"))
    with contextlib.closing(connection):
        body = json.dumps({"key": start, "range_end": end})
        connection.request("POST", "/v3/kv/range", body)
        found = json.loads(connection.getresponse().read())
    values = [json.loads(base64.b64decode(item["value"])) for item in found.get("kvs") or ()]
    return {value["metadata"]["name"]: value for value in values}
