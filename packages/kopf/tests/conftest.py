"""A local API with websites to be reconciled, and operators for them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

import kopf
from kopf_kits.sandbox import Sandbox

GROUP = "example.com"
PATIENCE = 90.0
"""In seconds; it is only reached when a test fails."""


ANYTHING: Mapping[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def make_crd(plural: str, kind: str, **schemas: Any) -> dict[str, Any]:
    """A definition where everything is permitted; or if there are schemas, only what they have."""
    schema = {"type": "object", "properties": schemas} if schemas else ANYTHING
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


class Websites:
    """The objects of the tests, and what is asked of the API about them."""

    kind = f"websites.{GROUP}"

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.registry = kopf.OperatorRegistry()
        self.settings = kopf.OperatorSettings()
        self.settings.networking.error_backoffs = [0.01]
        self.settings.queueing.error_delays = [0.01]

        @kopf.on.login(registry=self.registry)
        def login(**_: Any) -> Any:
            return kopf.ConnectionInfo(server=sandbox.url)

    async def define(self, **schemas: Any) -> None:
        """Permit only this in the objects since now."""
        await self.sandbox.apply(make_crd("websites", "Website", **schemas))

    def reconcile(self, **options: Any) -> Any:
        return kopf.reconcile(
            self.kind, registry=self.registry, **{"owns": ["configmaps"]} | options
        )

    async def apply(self, name: str = "web", namespace: str = "ns1", **spec: Any) -> Any:
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Website", "metadata": metadata, "spec": spec}
        return (await self.sandbox.apply(body))[0]

    async def patch(self, name: str = "web", **spec: Any) -> None:
        await self.sandbox.patch(self.kind, name, {"spec": spec}, namespace="ns1")

    async def wait(self, kind: str, name: str, **options: Any) -> Any:
        return await self.sandbox.wait(
            kind, name, **{"namespace": "ns1", "timeout": PATIENCE} | options
        )

    async def names(self, kind: str = "configmaps", namespace: str = "ns1") -> list[str]:
        objs = await self.sandbox.list(kind, namespace=namespace)
        return sorted(obj["metadata"]["name"] for obj in objs)

    def writes(self, since: int = 0) -> list[str]:
        """The requests of the operators that have changed anything since that number."""
        return [
            f"{entry.method} {entry.path.rpartition('/')[2]}"
            for entry in self.sandbox.journal
            if entry.method != "GET"
            and entry.number > since
            and "/events" not in entry.path
            and "/apis/authorization.k8s.io" not in entry.path
        ]

    @property
    def now(self) -> int:
        """The number of the latest request."""
        return self.sandbox.journal[-1].number if len(self.sandbox.journal) else 0

    @asynccontextmanager
    async def operating(self, **options: Any) -> AsyncIterator[None]:
        stop = asyncio.Event()
        options = {"clusterwide": True, "standalone": True} | options
        operator = asyncio.create_task(
            kopf.operator(registry=self.registry, settings=self.settings, stop_flag=stop, **options)
        )
        try:
            yield
        finally:
            stop.set()
            await operator


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def set_up(sandbox: Sandbox) -> Websites:
    await sandbox.apply(make_crd("websites", "Website"))
    for name in ("ns1", "ns2"):
        await sandbox.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return Websites(sandbox)


@pytest.fixture
def make_websites() -> Callable[[Sandbox], Awaitable[Websites]]:
    """For the tests with event loops of their own."""
    return set_up


@pytest.fixture
async def websites() -> AsyncIterator[Websites]:
    async with Sandbox() as sandbox:
        yield await set_up(sandbox)
