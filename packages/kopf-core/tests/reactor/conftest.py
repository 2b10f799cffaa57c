"""Real parts of the operator over a local API server."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kopf_cogs.clients.session import Client
from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.operator import Operator, OperatorOptions

KEXES = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"{CRDS}/kopfexamples.kopf.dev"
MERGE = "application/merge-patch+json"


def make_crd(*versions: str, **fields: Any) -> dict[str, Any]:
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "kopfexamples.kopf.dev"},
        "spec": {
            "group": "kopf.dev",
            "scope": "Namespaced",
            "names": {"kind": "KopfExample", "plural": "kopfexamples", "singular": "kopfexample"},
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": name == versions[0],
                    "schema": {"openAPIV3Schema": loose},
                    **fields,
                }
                for name in versions
            ],
        },
    }


class Cluster:
    """A local API server, and a client of it that is not the operator's one."""

    def __init__(self, sandbox: Any, client: Client) -> None:
        self.sandbox = sandbox
        self.client = client

    async def create(self, name: str, **spec: Any) -> Any:
        body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample"}
        return await self.client.post(KEXES, {**body, "metadata": {"name": name}, "spec": spec})

    async def patch(self, name: str, **spec: Any) -> Any:
        return await self.client.patch(f"{KEXES}/{name}", {"spec": spec}, content_type=MERGE)

    async def delete(self, name: str) -> None:
        await self.client.delete(f"{KEXES}/{name}")

    async def get(self, name: str) -> Any:
        return await self.client.get(f"{KEXES}/{name}")

    async def redefine(self, definition: Any) -> None:
        current = await self.client.get(CRD)
        definition["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
        await self.client.put(CRD, definition)


class Journal(list[Any]):
    """What has happened, and waiting for that."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def __call__(self, item: Any) -> None:
        self.append(item)
        self._changed.set()

    async def until(self, check: Callable[["Journal"], object]) -> None:
        try:
            async with asyncio.timeout(30):
                while not check(self):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"It has not happened: {[*self]!r}") from None


@pytest.fixture
def make_journal() -> type[Journal]:
    """For the tests that need several."""
    return Journal


@pytest.fixture
def journal(make_journal: type[Journal]) -> Journal:
    return make_journal()


@pytest.fixture
async def cluster(settings: OperatorSettings) -> AsyncIterator[Cluster]:
    sandboxes = pytest.importorskip("kopf_kits.sandbox")
    async with sandboxes.Sandbox() as sandbox:
        await sandbox.apply(make_crd("v1"))
        async with Client(ConnectionInfo(server=sandbox.url)) as client:
            yield Cluster(sandbox, client)


@pytest.fixture
def operate(
    cluster: Cluster, registry: OperatorRegistry, settings: OperatorSettings
) -> Callable[..., Any]:
    """Run an operator with the registry's handlers; its errors are raised in the end."""
    settings.posting.enabled = False

    @contextlib.asynccontextmanager
    async def operate(**kwargs: Any) -> AsyncIterator[Operator]:
        vault = Vault({secrets.token_hex(4): ConnectionInfo(server=cluster.sandbox.url)})
        kwargs = {"vault": vault, **kwargs}
        operator = Operator(OperatorOptions(registry=registry, settings=settings, **kwargs))
        task = asyncio.create_task(operator.run())
        try:
            yield operator
        finally:
            operator.stop()
            async with asyncio.timeout(30):
                await task

    return operate


@pytest.fixture
def make_definition() -> Callable[..., dict[str, Any]]:
    return make_crd
