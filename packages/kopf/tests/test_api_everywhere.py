"""``kopf.api`` and ``kopf.sync_api`` wherever users run them, in operators and outside of them."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from free_ports import find_free_port
from idleness import until

import kopf
from kopf.testing import Connected, Sandbox, SandboxThread

EXAMPLES = Path(__file__).parents[3] / "examples"
PATIENCE = 120.0
"""In seconds; it is only reached when a test fails."""

PARENT = {
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "metadata": {"name": "parent", "namespace": "ns1", "uid": "1234"},
    "spec": {},
}


def config_map(name: str, **metadata: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


class Setup:
    """A sandbox, and an operator in it until something is in the cluster."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.registry = kopf.OperatorRegistry()
        self.settings = kopf.OperatorSettings()
        self.logins: list[str] = []
        self.liveness_endpoint: str | None = None

        @kopf.on.login(registry=self.registry)
        def login(**_: Any) -> Any:
            self.logins.append("")
            return kopf.ConnectionInfo(server=sandbox.url)

    async def run_until(self, name: str, **where: Any) -> Any:
        stop = asyncio.Event()
        operator = asyncio.create_task(
            kopf.operator(
                registry=self.registry, settings=self.settings, clusterwide=True,
                standalone=True, stop_flag=stop,
                liveness_endpoint=self.liveness_endpoint,
            )
        )  # fmt: skip
        where = {"namespace": "ns1", "timeout": PATIENCE} | where
        waiting = asyncio.create_task(self.sandbox.wait("configmaps", name, **where))
        await asyncio.wait([operator, waiting], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await operator
        return await waiting


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    async with Sandbox() as sandbox:
        await sandbox.apply(EXAMPLES / "crd.yaml")
        await sandbox.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns1"}})
        yield Setup(sandbox)


@pytest.mark.parametrize("is_sync", [False, True], ids=["async", "sync"])
async def test_in_startup_with_no_second_login(setup: Setup, is_sync: bool) -> None:
    body = config_map("done", namespace="ns1")

    def sync_fn(**_: Any) -> None:
        kopf.sync_api.apply(body)

    async def async_fn(**_: Any) -> None:
        await kopf.api.apply(body)

    kopf.on.startup(registry=setup.registry)(sync_fn if is_sync else async_fn)
    await setup.run_until("done")
    assert len(setup.logins) == 1


async def test_in_cleanup(setup: Setup) -> None:
    @kopf.on.create("kopfexamples", registry=setup.registry)
    async def create_fn(**_: Any) -> None:
        await kopf.api.create(config_map("begun"))

    @kopf.on.cleanup(registry=setup.registry)
    async def cleanup_fn(**_: Any) -> None:
        await kopf.api.create(config_map("done", namespace="ns1"))

    await setup.sandbox.apply(PARENT)
    await setup.run_until("begun")
    assert await setup.sandbox.get("configmaps", "done", namespace="ns1")


@pytest.mark.parametrize("is_sync", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("kind", ["daemon", "timer", "event", "index"])
async def test_in_the_handlers_of_objects(setup: Setup, kind: str, is_sync: bool) -> None:
    decorators = {
        "daemon": kopf.daemon("kopfexamples", registry=setup.registry),
        "timer": kopf.timer("kopfexamples", interval=3600, registry=setup.registry),
        "event": kopf.on.event("kopfexamples", registry=setup.registry),
        "index": kopf.index("kopfexamples", registry=setup.registry),
    }

    def sync_fn(**_: Any) -> None:
        kopf.sync_api.apply(config_map("done"), adopt=True)

    async def async_fn(**_: Any) -> None:
        await kopf.api.apply(config_map("done"), adopt=True)

    decorator: Any = decorators[kind]
    decorator(sync_fn if is_sync else async_fn)
    await setup.sandbox.apply(PARENT)
    child = await setup.run_until("done")
    assert child["metadata"]["ownerReferences"][0]["name"] == "parent"


async def test_in_webhooks(setup: Setup) -> None:
    @kopf.on.validate("kopfexamples", registry=setup.registry)
    async def check(name: str, **_: Any) -> None:
        seen = [obj["metadata"]["name"] for obj in await kopf.api.list("namespaces")]
        await kopf.api.create(config_map("done", namespace="ns1", generateName=f"{len(seen)}"))

    async def serve(fn: Any) -> AsyncIterator[Any]:
        yield {"url": "http://localhost/"}
        request = {
            "uid": "1", "operation": "CREATE", "object": PARENT, "name": "parent",
            "namespace": "ns1", "userInfo": {}, "dryRun": False,
            "kind": {"group": "kopf.dev", "version": "v1", "kind": "KopfExample"},
            "resource": {"group": "kopf.dev", "version": "v1", "resource": "kopfexamples"},
        }  # fmt: skip
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        response = await fn({**review, "request": request})
        assert response["response"]["allowed"]
        await asyncio.Event().wait()

    setup.settings.admission.server = serve
    await setup.run_until("done")


@pytest.mark.parametrize("is_sync", [False, True], ids=["async", "sync"])
async def test_in_probes(setup: Setup, is_sync: bool) -> None:
    setup.liveness_endpoint = f"http://127.0.0.1:{find_free_port()}/healthz"

    def sync_fn(**_: Any) -> str:
        created = kopf.sync_api.create(config_map("probed", namespace="ns1"))
        return str(created["metadata"]["name"])

    async def async_fn(**_: Any) -> str:
        created = await kopf.api.create(config_map("probed", namespace="ns1"))
        return str(created["metadata"]["name"])

    kopf.on.probe(id="it", registry=setup.registry)(sync_fn if is_sync else async_fn)
    url = setup.liveness_endpoint

    async def ask_and_finish() -> tuple[int, Any]:
        answer = await ask(url)
        await setup.sandbox.apply(config_map("done", namespace="ns1"))
        return answer

    asking = asyncio.create_task(ask_and_finish())
    await setup.run_until("done")
    assert await asking == (200, {"it": "probed"})
    assert len(setup.logins) == 1


async def ask(url: str) -> tuple[int, Any]:
    """What the probe says, as soon as there is anybody to say it."""
    async with aiohttp.ClientSession() as session:

        async def try_to_ask() -> tuple[int, Any] | None:
            with contextlib.suppress(aiohttp.ClientConnectorError):
                async with session.get(url) as response:
                    return response.status, await response.json()
            return None

        answer: tuple[int, Any] = await until(try_to_ask)
        return answer


async def test_failed_logins_at_the_start_are_told_of_and_final(setup: Setup) -> None:
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:
        await kopf.api.list("namespaces")

    @kopf.on.login(registry=registry, errors=kopf.ErrorsMode.PERMANENT)
    def login(**_: Any) -> Any:
        raise ValueError("no way")

    async with asyncio.timeout(PATIENCE):
        with pytest.raises(Exception, match="no way"):
            await kopf.operator(registry=registry, clusterwide=True, standalone=True)


# Outside of operators.


async def test_connected_async_functions() -> None:
    async with Sandbox() as sandbox:
        await sandbox.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns1"}})
        async with Connected(sandbox.url, body=PARENT):
            child = await kopf.api.create(config_map("one"), adopt=True)
            assert child["metadata"]["namespace"] == "ns1"
            assert child["metadata"]["ownerReferences"][0]["name"] == "parent"
        assert await sandbox.get("configmaps", "one", namespace="ns1")
    with pytest.raises(LookupError, match="works only in handlers"):
        await kopf.api.get("pods", "x")


def test_connected_sync_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = threading.active_count()
    with SandboxThread() as sandbox:
        config = sandbox.write_kubeconfig(tmp_path / "config")
        monkeypatch.setenv("KUBECONFIG", str(config))
        with Connected():
            kopf.sync_api.create(config_map("one", namespace="default"))
            names = [obj["metadata"]["name"] for obj in kopf.sync_api.list("configmaps")]
        assert "one" in names
        with pytest.raises(LookupError, match="works only in handlers"):
            kopf.sync_api.get("pods", "x")
    assert threading.active_count() == threads


def test_connected_functions_change_the_status_in_the_patch() -> None:
    with SandboxThread() as sandbox:
        with Connected(sandbox.url, body={**PARENT, "status": {"x": 1}}) as connected:
            kopf.update_status({"x": 2})
        assert connected.patch == {"status": {"x": 2}}
        assert not sandbox.journal.select("PATCH", "*")
    with pytest.raises(LookupError, match="only be used inside of a handler"):
        kopf.update_status({"x": 3})


def test_connecting_to_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    threads = threading.active_count()
    loop = asyncio.new_event_loop()
    monkeypatch.setattr(asyncio, "new_event_loop", lambda: loop)
    with pytest.raises(Exception, match="There is no current cluster"), Connected():
        raise AssertionError("unreachable")
    assert threading.active_count() == threads
    assert loop.is_closed()
