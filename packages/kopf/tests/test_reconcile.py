"""``@kopf.reconcile`` in a real operator against the local API, with everything that can happen."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import kopf
from kopf_kits.sandbox import Sandbox

GROUP = "example.com"
WEBSITES = f"websites.{GROUP}"
PATIENCE = 90.0
"""In seconds; it is only reached when a test fails."""

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": WEBSITES},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "websites", "singular": "website", "kind": "Website"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def website(name: str = "web", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns1"}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Website", "metadata": metadata, "spec": spec}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        await sandbox.apply(CRD)
        for name in ("ns1", "ns2"):
            await sandbox.apply(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        yield sandbox


@pytest.fixture
def registry(sandbox: Sandbox) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> Any:
        return kopf.ConnectionInfo(server=sandbox.url)

    return registry


@asynccontextmanager
async def operating(registry: kopf.OperatorRegistry) -> AsyncIterator[None]:
    stop = asyncio.Event()
    operator = asyncio.create_task(
        kopf.operator(registry=registry, clusterwide=True, standalone=True, stop_flag=stop)
    )
    try:
        yield
    finally:
        stop.set()
        await operator


async def wait(sandbox: Sandbox, kind: str, name: str, **options: Any) -> Any:
    return await sandbox.wait(kind, name, **{"namespace": "ns1"} | options)


def writes(sandbox: Sandbox, since: int = 0) -> list[str]:
    """The requests of the operator that have changed anything since that number."""
    return [
        f"{entry.method} {entry.path.rpartition('/')[2]}"
        for entry in sandbox.journal
        if entry.method != "GET"
        and entry.number > since
        and "/apis/authorization.k8s.io" not in entry.path
    ]


def is_ready(message: str) -> Any:
    def check(obj: Any) -> bool:
        conditions = obj.get("status", {}).get("conditions", [])
        return any(c["message"] == message and c["status"] == "True" for c in conditions)

    return check


async def test_children_are_applied_and_adopted(
    sandbox: Sandbox, registry: kopf.OperatorRegistry
) -> None:
    @kopf.reconcile(WEBSITES, owns=["configmaps"], registry=registry)
    def fn(spec: Any, name: str, conditions: Any, **_: Any) -> Iterator[Any]:
        live = yield config_map(f"{name}-cm", a=spec["a"])
        conditions.set("Ready", True, message=live["data"]["a"])

    await sandbox.apply(website(a="1"))
    async with operating(registry):
        child = await wait(sandbox, "configmaps", "web-cm")
        assert child["metadata"]["ownerReferences"][0]["name"] == "web"
        assert child["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "kopf"}
        assert child["data"] == {"a": "1"}
        parent = await wait(sandbox, WEBSITES, "web", check=is_ready("1"))
        assert parent["status"]["observedGeneration"] == parent["metadata"]["generation"]
        assert "finalizers" not in parent["metadata"]
        assert "annotations" not in parent["metadata"]
    assert writes(sandbox) == ["PATCH web-cm", "PATCH status"]


@pytest.mark.parametrize("restarted", [False, True])
async def test_steady_states_cost_no_writes(
    sandbox: Sandbox, registry: kopf.OperatorRegistry, restarted: bool
) -> None:
    @kopf.reconcile(WEBSITES, owns=["configmaps"], registry=registry)
    def fn(spec: Any, name: str, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map(name, a=spec["a"])
        conditions.set("Ready", True, message=spec["a"])

    await sandbox.apply(website(a="1"))
    since = 0
    async with operating(registry):
        await wait(sandbox, WEBSITES, "web", check=is_ready("1"))
        if not restarted:
            since = sandbox.journal[-1].number
            patch = {"metadata": {"labels": {"x": "y"}}}
            await sandbox.patch(WEBSITES, "web", patch, namespace="ns1")
            await sandbox.apply(website("other", a="2"))
            await wait(sandbox, WEBSITES, "other", check=is_ready("2"))
    if restarted:
        since = sandbox.journal[-1].number
        await sandbox.apply(website("other", a="2"))
        async with operating(registry):
            await wait(sandbox, WEBSITES, "other", check=is_ready("2"))
    assert writes(sandbox, since) == ["PATCH other", "PATCH status"]


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_children_are_repaired(
    sandbox: Sandbox, registry: kopf.OperatorRegistry, is_deleted: bool
) -> None:
    seen: list[str] = []

    @kopf.reconcile(WEBSITES, owns=["configmaps"], registry=registry)
    async def fn(spec: Any, triggers: Any, **_: Any) -> AsyncIterator[Any]:
        seen.extend(str(trigger) for trigger in triggers)
        yield config_map("web-cm", a=spec["a"])

    await sandbox.apply(website(a="1"))
    async with operating(registry):
        old = await wait(sandbox, "configmaps", "web-cm")
        if is_deleted:
            await sandbox.delete("configmaps", "web-cm", namespace="ns1")
        else:
            patch = {"data": {"a": "foreign", "theirs": "kept"}}
            await sandbox.patch("configmaps", "web-cm", patch, namespace="ns1")
        new = await wait(sandbox, "configmaps", "web-cm", check=lambda o: o["data"]["a"] == "1")
    assert (new["metadata"]["uid"] != old["metadata"]["uid"]) == is_deleted
    assert new["data"] == ({"a": "1"} if is_deleted else {"a": "1", "theirs": "kept"})
    assert seen == ["appeared", "child: ConfigMap ns1/web-cm"]


async def test_what_is_not_wanted_anymore_is_deleted(
    sandbox: Sandbox, registry: kopf.OperatorRegistry
) -> None:
    @kopf.reconcile(WEBSITES, owns=["configmaps"], registry=registry)
    def fn(spec: Any, **_: Any) -> Any:
        return [config_map(name) for name in spec["names"]]

    @kopf.reconcile(WEBSITES, owns=["configmaps"], prune=False, registry=registry)
    def keeping(spec: Any, **_: Any) -> Any:
        return [config_map(f"kept-{name}") for name in spec["names"]]

    foreign = config_map("foreign")
    foreign["metadata"]["namespace"] = "ns1"
    await sandbox.apply(foreign)
    await sandbox.apply(website(names=["a", "b"]))
    async with operating(registry):
        await wait(sandbox, "configmaps", "kept-b")
        await sandbox.patch(WEBSITES, "web", {"spec": {"names": ["b", "c"]}}, namespace="ns1")
        await wait(sandbox, "configmaps", "a", gone=True)
        await wait(sandbox, "configmaps", "kept-c")
        left = await sandbox.list("configmaps", namespace="ns1")
    names = {obj["metadata"]["name"] for obj in left}
    assert names == {"foreign", "b", "c", "kept-a", "kept-b", "kept-c"}


PROGRESS = "metadata.annotations['kopf.zalando.org/fn']"


async def test_nothing_is_deleted_when_a_pass_fails(
    sandbox: Sandbox, registry: kopf.OperatorRegistry
) -> None:
    @kopf.reconcile(WEBSITES, owns=["configmaps"], id="fn", backoff=3600, registry=registry)
    async def fn(spec: Any, **_: Any) -> AsyncIterator[Any]:
        if spec.get("broken"):
            raise ValueError("it is broken")
        yield config_map("a")

    await sandbox.apply(website())
    async with operating(registry):
        await wait(sandbox, "configmaps", "a")
        await sandbox.patch(WEBSITES, "web", {"spec": {"broken": True}}, namespace="ns1")
        parent = await wait(sandbox, WEBSITES, "web", jsonpath=PROGRESS)
        assert '"retries":1' in parent["metadata"]["annotations"]["kopf.zalando.org/fn"]
        await sandbox.patch(WEBSITES, "web", {"spec": {"broken": False}}, namespace="ns1")
        await wait(sandbox, WEBSITES, "web", check=lambda o: not o["metadata"].get("annotations"))
        assert await wait(sandbox, "configmaps", "a")


async def test_restarted_operators_keep_the_delays(
    sandbox: Sandbox, registry: kopf.OperatorRegistry
) -> None:
    calls: list[Any] = []

    @kopf.reconcile(WEBSITES, owns=["configmaps"], id="fn", registry=registry)
    async def fn(name: str, retry: int, **_: Any) -> list[Any]:
        calls.append((name, retry))
        if name == "web":
            raise kopf.TemporaryError("not yet", delay=3600)
        return [config_map("done")]

    await sandbox.apply(website())
    async with operating(registry):
        await wait(sandbox, WEBSITES, "web", jsonpath=PROGRESS)
    await sandbox.apply(website("other"))
    async with operating(registry):
        await wait(sandbox, "configmaps", "done")
    assert sorted(calls) == [("other", 0), ("web", 0)]


async def test_related_objects_trigger_passes(
    sandbox: Sandbox, registry: kopf.OperatorRegistry
) -> None:
    @kopf.reconcile(
        WEBSITES, owns=["configmaps"], related={"secrets": "spec.secretName"}, registry=registry
    )
    def fn(spec: Any, related: Any, **_: Any) -> Iterator[Any]:
        secret = related["Secret"].get(spec["secretName"])
        yield config_map("seen", data=secret["data"]["x"] if secret else "none")

    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s1", "namespace": "ns1"},
        "data": {"x": "MQ=="},
    }
    await sandbox.apply(website(secretName="s1"))
    async with operating(registry):
        await wait(sandbox, "configmaps", "seen", jsonpath="data.data", value="none")
        await sandbox.apply(secret)
        await wait(sandbox, "configmaps", "seen", jsonpath="data.data", value="MQ==")
        await sandbox.patch("secrets", "s1", {"data": {"x": "Mg=="}}, namespace="ns1")
        await wait(sandbox, "configmaps", "seen", jsonpath="data.data", value="Mg==")
        await sandbox.delete("secrets", "s1", namespace="ns1")
        await wait(sandbox, "configmaps", "seen", jsonpath="data.data", value="none")


async def test_objects_out_of_garbage_collection_hold_their_owner(
    sandbox: Sandbox, registry: kopf.OperatorRegistry
) -> None:
    deletions: list[str] = []

    @kopf.reconcile(WEBSITES, owns=["configmaps", "namespaces"], registry=registry)
    def fn(spec: Any, **_: Any) -> Iterator[Any]:
        yield config_map("near")
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}}
        far = config_map("far")
        far["metadata"]["namespace"] = "ns2"
        yield far

    @kopf.on.delete(WEBSITES, optional=True, registry=registry)
    def deleted(name: str, **_: Any) -> None:
        deletions.append(name)

    await sandbox.apply(website())
    async with operating(registry):
        await wait(sandbox, "namespaces", "far", namespace=None)
        far = await wait(sandbox, "configmaps", "far", namespace="ns2")
        assert "ownerReferences" not in far["metadata"]
        parent = await wait(sandbox, WEBSITES, "web", jsonpath="metadata.finalizers")
        assert parent["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        await sandbox.delete(WEBSITES, "web", namespace="ns1")
        await wait(sandbox, WEBSITES, "web", gone=True)
        await wait(sandbox, "configmaps", "near", gone=True)
    assert await sandbox.list("configmaps", namespace="ns2") == []
    assert "far" not in {o["metadata"]["name"] for o in await sandbox.list("namespaces")}
    assert deletions == ["web"]


async def test_the_finalizer_goes_when_it_is_not_needed_anymore(
    sandbox: Sandbox, registry: kopf.OperatorRegistry
) -> None:
    @kopf.reconcile(WEBSITES, owns=["namespaces"], registry=registry)
    def fn(spec: Any, **_: Any) -> Any:
        names = ["far"] if spec["far"] else []
        return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in names]

    await sandbox.apply(website(far=True))
    async with operating(registry):
        await wait(sandbox, "namespaces", "far", namespace=None)
        await sandbox.patch(WEBSITES, "web", {"spec": {"far": False}}, namespace="ns1")
        await wait(sandbox, "namespaces", "far", namespace=None, gone=True)
        await wait(sandbox, WEBSITES, "web", check=lambda o: not o["metadata"].get("finalizers"))


async def test_rejected_children_fail_the_pass_with_the_reason(
    sandbox: Sandbox, registry: kopf.OperatorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    @kopf.reconcile(WEBSITES, owns=["configmaps"], id="fn", backoff=3600, registry=registry)
    def fn(**_: Any) -> Iterator[Any]:
        yield config_map("good")
        yield config_map("Bad_Name")
        yield config_map("never")

    await sandbox.apply(website())
    async with operating(registry):
        await wait(sandbox, WEBSITES, "web", jsonpath=PROGRESS)
        left = await sandbox.list("configmaps", namespace="ns1")
    assert [obj["metadata"]["name"] for obj in left] == ["good"]
    errors = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert len(errors) == 1
    assert "'fn' failed with an exception and will try again" in errors[0]
    assert 'ConfigMap "Bad_Name" is invalid: metadata.name' in errors[0]


async def test_undeclared_kinds_are_named(
    sandbox: Sandbox, registry: kopf.OperatorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    @kopf.reconcile(
        WEBSITES, owns=["configmaps"], errors=kopf.ErrorsMode.PERMANENT, registry=registry
    )
    def fn(**_: Any) -> Iterator[Any]:
        yield config_map("good")
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}

    @kopf.reconcile(WEBSITES, owns=["configmaps"], registry=registry)
    def last(**_: Any) -> Iterator[Any]:
        yield config_map("last")

    await sandbox.apply(website())
    async with operating(registry):
        await wait(sandbox, "configmaps", "last")
    assert "its kind is not declared: add 'secrets' to owns=." in caplog.text


async def test_conflicts_are_reported_if_not_forced(
    sandbox: Sandbox, registry: kopf.OperatorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    @kopf.reconcile(WEBSITES, owns=["configmaps"], id="fn", force=False, registry=registry)
    def fn(**_: Any) -> Iterator[Any]:
        yield config_map("shared", a="ours")

    shared = config_map("shared", a="theirs")
    shared["metadata"]["namespace"] = "ns1"
    await sandbox.apply(shared)
    await sandbox.apply(website())
    async with operating(registry):
        await wait(sandbox, WEBSITES, "web", jsonpath=PROGRESS)
    assert "ConfigMap ns1/shared is also managed by others: .data.a: conflict with" in caplog.text
    assert (await sandbox.get("configmaps", "shared", namespace="ns1"))["data"] == {"a": "theirs"}


async def test_together_with_other_handlers(
    sandbox: Sandbox, registry: kopf.OperatorRegistry
) -> None:
    @kopf.on.create(WEBSITES, id="created", registry=registry)
    def created(conditions: Any, **_: Any) -> str:
        conditions.set("Created", True)
        return "well"

    @kopf.reconcile(WEBSITES, owns=["configmaps"], id="fn", registry=registry)
    def fn(conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map("cm")
        conditions.set("Ready", True, message="yes")

    await sandbox.apply(website())
    async with operating(registry):
        await wait(sandbox, WEBSITES, "web", condition="Created")
        obj = await wait(sandbox, WEBSITES, "web", check=is_ready("yes"))
        assert obj["status"]["created"] == "well"


async def test_again_makes_another_pass(sandbox: Sandbox, registry: kopf.OperatorRegistry) -> None:
    seen: list[Any] = []

    @kopf.reconcile(WEBSITES, owns=["configmaps"], registry=registry)
    def fn(triggers: Any, **_: Any) -> Iterator[Any]:
        seen.extend(trigger.kind for trigger in triggers)
        yield config_map("done") if len(seen) > 2 else kopf.Again(after=0.001)

    await sandbox.apply(website())
    async with operating(registry):
        await wait(sandbox, "configmaps", "done")
    assert seen == ["appeared", "again", "again"]


async def test_generators_return_the_last_wishes(
    sandbox: Sandbox, registry: kopf.OperatorRegistry
) -> None:
    seen: list[Any] = []

    @kopf.reconcile(WEBSITES, owns=["configmaps"], registry=registry)
    def fn(triggers: Any, **_: Any) -> kopf.Wishes:
        seen.extend(trigger.kind for trigger in triggers)
        yield config_map("first")
        if len(seen) > 1:
            return [config_map("last")]
        return kopf.Again(after=0.001)

    await sandbox.apply(website())
    async with operating(registry):
        await wait(sandbox, "configmaps", "last")
    assert "again" in seen


async def test_filtered_objects_are_left_alone(
    sandbox: Sandbox, registry: kopf.OperatorRegistry
) -> None:
    @kopf.reconcile(WEBSITES, owns=["configmaps"], field="spec.on", value=True, registry=registry)
    def fn(name: str, **_: Any) -> Iterator[Any]:
        yield config_map(name)

    await sandbox.apply(website("off", on=False))
    await sandbox.apply(website("on", on=True))
    async with operating(registry):
        await wait(sandbox, "configmaps", "on")
    assert len(await sandbox.list("configmaps", namespace="ns1")) == 1
