"""``kopf.api`` and ``kopf.sync_api`` in handlers of a real operator, against the local API."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import kopf
from kopf_cogs.clients.kinds import Kinds, UnknownKindError
from kopf_cogs.clients.session import Client
from kopf_kits.sandbox import Sandbox

EXAMPLES = Path(__file__).parents[3] / "examples"
PARENT = {
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "metadata": {"name": "parent", "namespace": "ns1"},
    "spec": {},
}

Check = Callable[[], Awaitable[Any]]


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        await sandbox.apply(EXAMPLES / "crd.yaml")
        await sandbox.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns1"}})
        yield sandbox


@pytest.fixture
def registry() -> kopf.OperatorRegistry:
    return kopf.OperatorRegistry()


async def handle(sandbox: Sandbox, registry: kopf.OperatorRegistry) -> Any:
    """Run the operator until its only handler has returned or failed: get its outcome."""
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> Any:
        return kopf.ConnectionInfo(server=sandbox.url)

    memo = kopf.Memo(done=done)
    stop = asyncio.Event()
    operator = asyncio.create_task(
        kopf.operator(
            registry=registry, clusterwide=True, standalone=True, stop_flag=stop, memo=memo
        )
    )
    await sandbox.apply(PARENT)
    try:
        await asyncio.wait([done, operator], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.set()
        await operator
    return await done


def answer(memo: kopf.Memo, value: Any) -> None:
    done: asyncio.Future[Any] = memo["done"]
    done.get_loop().call_soon_threadsafe(lambda: done.done() or done.set_result(value))


def config_map(name: str | None, **data: str) -> dict[str, Any]:
    metadata = {} if name is None else {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def test_all_verbs_in_async_handlers(
    sandbox: Sandbox, registry: kopf.OperatorRegistry
) -> None:
    @kopf.on.create("kopfexamples", registry=registry)
    async def fn(memo: kopf.Memo, **_: Any) -> None:
        seen: list[Any] = []
        created = await kopf.api.create(config_map("cm1", a="1"), adopt=True)
        seen.append(created["metadata"]["ownerReferences"][0]["name"])
        applied = await kopf.api.apply(config_map(None, b="2"), adopt=True)
        seen.append((applied["metadata"]["name"], applied["metadata"]["namespace"]))
        patched = await kopf.api.patch("cm", "cm1", {"data": {"a": "3"}})
        seen.append(patched["data"])
        ops = [{"op": "remove", "path": "/data/a"}]
        seen.append((await kopf.api.patch("cm", "cm1", ops)).get("data") or None)
        seen.append([obj["metadata"]["name"] for obj in await kopf.api.list("v1/configmaps")])
        pages = kopf.api.list("configmaps", namespace=None, chunk_size=1)
        seen.append([obj["metadata"]["name"] async for obj in pages])
        await kopf.api.delete("configmaps", "cm1", uid=created["metadata"]["uid"])
        await kopf.api.delete("configmaps", "cm1", missing_ok=True)
        with pytest.raises(kopf.api.APINotFoundError):
            await kopf.api.get("configmaps", "cm1")
        answer(memo, seen)

    assert await handle(sandbox, registry) == [
        "parent",
        ("parent", "ns1"),
        {"a": "3"},
        None,
        ["cm1", "parent"],
        ["cm1", "parent"],
    ]


async def test_all_verbs_in_sync_handlers(
    sandbox: Sandbox, registry: kopf.OperatorRegistry
) -> None:
    @kopf.on.create("kopfexamples", registry=registry)
    def fn(memo: kopf.Memo, **_: Any) -> None:
        api = kopf.sync_api
        seen: list[Any] = [api.create(config_map("cm1", a="1"))["data"]]
        seen.append(api.apply(config_map("cm2", b="2"), adopt=True)["data"])
        seen.append(api.patch("configmaps", "cm1", {"data": {"a": "3"}})["data"])
        seen.append([obj["metadata"]["name"] for obj in api.list("configmaps", chunk_size=1)])
        api.delete("configmaps", "cm1")
        with pytest.raises(kopf.api.APINotFoundError):
            api.get("configmaps", "cm1")
        answer(memo, seen)

    assert await handle(sandbox, registry) == [
        {"a": "1"},
        {"b": "2"},
        {"a": "3"},
        ["cm1", "cm2"],
    ]


async def test_unknown_kinds_are_named(sandbox: Sandbox, registry: kopf.OperatorRegistry) -> None:
    @kopf.on.create("kopfexamples", registry=registry)
    async def fn(memo: kopf.Memo, **_: Any) -> None:
        try:
            await kopf.api.get("nothings.example.com", "x")
        except kopf.api.UnknownKindError as e:
            answer(memo, str(e))

    text = await handle(sandbox, registry)
    assert text == "There is no such kind in the cluster: nothings of example.com"


async def test_kinds_that_come_later_are_found(sandbox: Sandbox) -> None:
    async with Client(kopf.ConnectionInfo(server=sandbox.url)) as client:
        kinds = Kinds(client)
        crd = await kinds.resolve("crd")
        assert crd.kind == "CustomResourceDefinition"
        await sandbox.delete("customresourcedefinitions", "kopfexamples.kopf.dev")
        with pytest.raises(UnknownKindError):
            await kinds.resolve("kopfexamples.kopf.dev")
        await sandbox.apply(EXAMPLES / "crd.yaml")
        assert (await kinds.resolve("kopfexamples.kopf.dev")).kind == "KopfExample"


async def test_blocking_the_loop_is_refused(
    sandbox: Sandbox, registry: kopf.OperatorRegistry
) -> None:
    @kopf.on.create("kopfexamples", registry=registry)
    async def fn(memo: kopf.Memo, **_: Any) -> None:
        try:
            kopf.sync_api.get("pods", "x")
        except RuntimeError as e:
            answer(memo, str(e))

    text = await handle(sandbox, registry)
    assert text == "kopf.sync_api would block the operator here; await kopf.api instead."


async def test_async_functions_are_refused_in_sync_handlers(
    sandbox: Sandbox, registry: kopf.OperatorRegistry
) -> None:
    """They would do nothing, as nobody awaits them, and the handler would succeed."""
    verbs = ["get", "list", "create", "apply", "patch", "delete"]

    def get_error(verb: str) -> str:
        with pytest.raises(RuntimeError) as info:
            getattr(kopf.api, verb)("configmaps")
        return str(info.value)

    @kopf.on.create("kopfexamples", registry=registry)
    def fn(memo: kopf.Memo, **_: Any) -> None:
        answer(memo, [get_error(verb) for verb in verbs])

    for verb, message in zip(verbs, await handle(sandbox, registry), strict=True):
        assert message.endswith(f"in sync functions, call kopf.sync_api.{verb}().")


def test_async_functions_are_known_as_such() -> None:
    with mock.patch.object(kopf.api, "create") as create:
        assert isinstance(create, mock.AsyncMock)


async def test_there_is_no_client_outside_of_operators() -> None:
    with pytest.raises(LookupError, match="works only in handlers"):
        await kopf.api.get("pods", "x")


async def test_passing_errors_are_temporary_and_others_are_explained(
    sandbox: Sandbox, registry: kopf.OperatorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[str] = []

    @kopf.on.create("kopfexamples", registry=registry, id="fn", backoff=0.001)
    async def fn(memo: kopf.Memo, **_: Any) -> None:
        tries.append("")
        if len(tries) == 1:
            await kopf.api.create(config_map("cm"))
            await kopf.api.create(config_map("cm"))
        if len(tries) == 2:
            await kopf.api.create(config_map("Bad_Name"))
        answer(memo, len(tries))

    assert await handle(sandbox, registry) == 3
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.exc_info for record in errors] == [None, None]
    first, second = (record.getMessage() for record in errors)
    assert "'fn' failed temporarily: 409 AlreadyExists: configmaps" in first
    assert "'fn' failed with an exception and will try again in 0.001 seconds: 422" in second
