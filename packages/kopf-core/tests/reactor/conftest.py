"""Real parts of the operator over a local API server."""

import asyncio
import contextlib
import copy
import json
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.clients.session import Client
from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_cogs.structs.memos import Memo
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.execution import Execution
from kopf_core.actions.lifecycles import asap
from kopf_core.engines.background import BackgroundEngine
from kopf_core.engines.memories import ObjectMemories, ObjectMemory
from kopf_core.engines.records.writes import AwaitChange
from kopf_core.intents.indices import Indices
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.life.operator import Operator, OperatorOptions
from kopf_core.reactor.object.reconciliation import Reconciler
from kopf_core.reactor.object.subhandling import run_subhandlers
from kopf_core.reactor.streams.work import DONE, Requeue, TurnResult, WorkItem

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
            async with asyncio.timeout(60):
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
def cluster_options() -> dict[str, Any]:
    return {}


@pytest.fixture
async def cluster(
    settings: OperatorSettings, cluster_options: dict[str, Any]
) -> AsyncIterator[Cluster]:
    sandboxes = pytest.importorskip("kopf_kits.sandbox")
    options = sandboxes.ClusterOptions(**cluster_options)
    async with sandboxes.Sandbox(options=options) as sandbox:
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
        kwargs = {"vault": vault, "registry": registry, **kwargs}
        operator = Operator(OperatorOptions(settings=settings, **kwargs))
        task = asyncio.create_task(operator.run())
        try:
            yield operator
        finally:
            operator.stop()
            async with asyncio.timeout(60):
                await task

    return operate


@pytest.fixture
def make_definition() -> Callable[..., dict[str, Any]]:
    return make_crd


class Spine:
    """One object on a server, its reconciler, and nothing around them: turns are made by tests.

    It has no queue and no streams: what others do to the object is brought as its next event.
    """

    fence = None
    is_fenced = False

    def __init__(
        self, settings: OperatorSettings, resource: Resource, registry: OperatorRegistry
    ) -> None:
        self.settings = settings
        self.resource = resource
        self.registry = registry
        self.clock = FakeClock()
        self.body: dict[str, Any] = {}
        self.patches: list[Any] = []
        self.failures: list[Exception] = []
        self.looks: list[Exception] = []
        self.restart()

    def restart(self) -> None:
        """Forget all that is remembered by the operator; the object is listed again, if any."""
        self.memories = ObjectMemories(Memo())
        self.item = WorkItem("u", is_listed=True)
        self._reconciler: Reconciler | None = None
        if self.body:
            self.see(None)

    @property
    def reconciler(self) -> Reconciler:
        """It is made when all the handlers are there."""
        if self._reconciler is None:
            client: Any = self
            indices = Indices([])
            execution = Execution(
                settings=self.settings,
                lifecycle=asap,
                subhandling=run_subhandlers,
                clock=self.clock,
            )
            self._reconciler = Reconciler(
                client=client,
                resource=self.resource,
                handlers=self.registry.get_resource_handlers(self.resource),
                execution=execution,
                memories=self.memories,
                indices=indices,
                background=BackgroundEngine(
                    client=client,
                    settings=self.settings,
                    indices=indices,
                    execution=execution,
                    wake=lambda _: None,
                ),
            )
        return self._reconciler

    @property
    def memory(self) -> ObjectMemory:
        return self.memories["u"]

    @property
    def annotations(self) -> dict[str, str]:
        found: dict[str, str] = self.body["metadata"].get("annotations", {})
        return found

    def create(self, **spec: Any) -> None:
        metadata = {"name": "obj", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
        self.body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": metadata}
        self.body["spec"] = spec
        self.see("ADDED")

    def change(self, changes: Any) -> None:
        """By others; it is seen by the next turn."""
        self._merge(changes)
        self.see("MODIFIED")

    def see(self, type: Any, body: Any = None) -> None:
        """What has come from the stream, in this or in that state."""
        event = {"type": type, "object": copy.deepcopy(self.body if body is None else body)}
        self.item.take(event, keep=True)  # type: ignore[arg-type]

    async def patch(self, url: str, payload: Any, *, content_type: str) -> Any:
        """As a client of the API does it."""
        if self.failures:
            raise self.failures.pop(0)
        self.patches.append(json.loads(json.dumps(payload, default=dict)))
        if content_type == MERGE:
            self._merge(self.patches[-1])
        else:
            patches = pytest.importorskip("kopf_kits.sandbox.fields.patches")
            self._renew(patches.apply_json_patch(copy.deepcopy(self.body), self.patches[-1]))
        return copy.deepcopy(self.body)

    async def get(self, url: str) -> Any:
        """As a client of the API does it."""
        if self.looks:
            raise self.looks.pop(0)
        return copy.deepcopy(self.body)

    def rush(self) -> None:
        """Nothing waits here."""

    def _merge(self, changes: Any) -> None:
        after = copy.deepcopy(self.body)
        _merge(after, changes)
        self._renew(after)

    def _renew(self, after: Any) -> None:
        before, self.body = self.body, after
        if self.body != before:
            version = int(before["metadata"]["resourceVersion"]) + 1
            self.body["metadata"]["resourceVersion"] = str(version)

    async def turn(self) -> TurnResult:
        """Make one turn."""
        result = self.item.rest = await self.reconciler.process(self.item)
        return result

    async def settle(self) -> TurnResult:
        """Make turns until it waits for its time, or for nothing; our patches come back at once."""
        for _ in range(20):
            result = await self.turn()
            if not isinstance(result, AwaitChange):
                return result
            self.see("MODIFIED")
        raise AssertionError("The object is never settled.")

    async def wait(self) -> TurnResult:
        """The time has come for which the object waits; and then the same."""
        assert isinstance(self.item.rest, Requeue)
        self.clock.advance(self.item.rest.at - self.clock.monotonic())
        self.item.rest = DONE
        return await self.settle()


def _merge(target: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, val in changes.items():
        if val is None:
            target.pop(key, None)
        elif isinstance(val, dict):
            _merge(target.setdefault(key, {}), val)
        else:
            target[key] = val


@pytest.fixture
def spine(settings: OperatorSettings, resource: Resource, registry: OperatorRegistry) -> Spine:
    return Spine(settings, resource, registry)
