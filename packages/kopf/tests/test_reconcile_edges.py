"""``@kopf.reconcile`` where others, or the users themselves, make it hard."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import kopf
from kopf_kits.sandbox.verbs.writes import Writer

PROGRESS = "metadata.annotations['kopf.zalando.org/fn']"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def make_crd(plural: str, kind: str, spec: Any = None) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = anything if spec is None else {"type": "object", "properties": {"spec": spec}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


def is_quiet(obj: Any) -> bool:
    return not obj["metadata"].get("annotations")


async def test_objects_of_other_owners_are_not_stolen(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @websites.reconcile(id="fn")
    def fn(**_: Any) -> Iterator[Any]:
        yield config_map("shared", a="ours")

    owner = await websites.apply("other-owner")
    ref = {
        "apiVersion": "v1", "kind": "Website", "name": "somebody", "controller": True,
        "uid": owner["metadata"]["uid"],
    }  # fmt: skip
    theirs = config_map("shared", a="theirs")
    theirs["metadata"] |= {"namespace": "ns1", "ownerReferences": [ref]}
    await websites.sandbox.delete(websites.kind, "other-owner", namespace="ns1")
    holder = config_map("holder")
    holder["metadata"]["namespace"] = "ns1"
    holder = (await websites.sandbox.apply(holder))[0]
    theirs["metadata"]["ownerReferences"] = [
        ref | {"kind": "ConfigMap", "name": "holder", "uid": holder["metadata"]["uid"]}
    ]
    await websites.sandbox.apply(theirs)
    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", jsonpath=PROGRESS)
        live = await websites.sandbox.get("configmaps", "shared", namespace="ns1")
        assert live["data"] == {"a": "theirs"}
        assert "ConfigMap ns1/shared belongs to ConfigMap holder with the uid " in caplog.text
        # As soon as it is gone, there is a new one, with no waiting for the retry.
        await websites.sandbox.delete("configmaps", "shared", namespace="ns1")
        await websites.wait("configmaps", "shared", jsonpath="data.a", value="ours")
        await websites.wait(websites.kind, "web", check=is_quiet)


async def test_two_reconcilers_cannot_want_the_same_object(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @websites.reconcile(id="first")
    def first(**_: Any) -> Iterator[Any]:
        yield config_map("shared", a="first")

    @websites.reconcile(id="second")
    def second(**_: Any) -> Iterator[Any]:
        yield config_map("own")
        yield config_map("shared", a="second")

    @websites.reconcile()
    def third(**_: Any) -> Iterator[Any]:
        yield config_map("last")

    await websites.apply()
    async with websites.operating():
        await websites.wait("configmaps", "last")
    live = await websites.sandbox.get("configmaps", "shared", namespace="ns1")
    assert live["data"] == {"a": "first"}
    assert "ConfigMap ns1/shared is wanted by two reconcilers: 'first' and 'second'." in caplog.text


async def test_kinds_that_are_served_later_are_waited_for(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @websites.reconcile(id="fn", owns=["configmaps", "late.example.com"])
    def fn(**_: Any) -> Iterator[Any]:
        yield config_map("early")
        yield {"apiVersion": "example.com/v1", "kind": "Late", "metadata": {}, "spec": {"a": 1}}

    caplog.set_level(logging.INFO)
    await websites.apply()
    async with websites.operating():
        await websites.wait("configmaps", "early")
        await websites.wait(websites.kind, "web", jsonpath=PROGRESS)
        await websites.sandbox.apply(make_crd("late", "Late"))
        await websites.sandbox.wait(
            "late.example.com", "web", namespace="ns1", jsonpath="spec.a", value=1
        )
        await websites.wait(websites.kind, "web", check=is_quiet)
    waiting = [r for r in caplog.records if "must wait until" in r.getMessage()]
    assert 1 <= len(waiting) <= 2  # not served; and maybe: served, but not watched yet
    assert all(r.exc_info is None for r in waiting)


async def test_secrets_can_be_written_as_strings(websites: Any) -> None:
    @websites.reconcile(owns=["secrets", "configmaps"])
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {},
            "stringData": {"password": spec["password"]},
        }
        yield config_map(f"done-{spec['n']}")

    await websites.apply(password="hunter2", n=1)
    async with websites.operating():
        await websites.wait("secrets", "web", jsonpath="data.password", value="aHVudGVyMg==")
        await websites.wait("configmaps", "done-1")
        since = websites.now
        await websites.patch(n=2)
        await websites.wait("configmaps", "done-1", gone=True)
    assert websites.writes(since) == ["PATCH done-2", "DELETE done-1"]


async def test_fields_not_kept_by_the_server_are_not_applied_again_and_again(
    websites: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await websites.sandbox.apply(make_crd("stricts", "Strict"))
    shape = Writer._shape

    def drop(self: Writer, endpoint: Any, obj: Any, *args: Any) -> Any:
        """As a mutating webhook of others would do it."""
        obj = shape(self, endpoint, obj, *args)
        if endpoint.resource.kind == "Strict":
            obj["spec"] = {key: value for key, value in obj["spec"].items() if key != "unknown"}
        return obj

    monkeypatch.setattr(Writer, "_shape", drop)

    @websites.reconcile(owns=["stricts.example.com", "configmaps"])
    def fn(spec: Any, **_: Any) -> Iterator[Any]:
        wanted = {"a": 1, "unknown": 2}
        yield {"apiVersion": "example.com/v1", "kind": "Strict", "metadata": {}, "spec": wanted}
        yield config_map(f"done-{spec['n']}")

    await websites.apply(n=1)
    async with websites.operating():
        await websites.wait("configmaps", "done-1")
        since = websites.now
        await websites.patch(n=2)
        await websites.wait("configmaps", "done-1", gone=True)
        assert websites.writes(since) == ["PATCH done-2", "DELETE done-1"]
        patch = {"spec": {"a": 5}}
        await websites.sandbox.patch("stricts.example.com", "web", patch, namespace="ns1")
        await websites.wait("stricts.example.com", "web", jsonpath="spec.a", value=1)
    found = [r for r in caplog.records if "is not stored as it was applied" in r.getMessage()]
    assert [r.getMessage().partition(":")[2][:14] for r in found] == [" spec.unknown."]


async def test_servers_that_do_not_tell_of_managed_fields_block_nothing(
    websites: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E.g. when a webhook removes them: it is told of once, and only what is wanted matters."""
    monkeypatch.setattr("kopf_cogs.structs.managedfields.get_applied_fields", lambda *_: None)

    @websites.reconcile()
    def fn(spec: Any, **_: Any) -> Iterator[Any]:
        yield config_map("a", x="1")
        yield config_map(f"done-{spec['n']}")

    await websites.apply(n=1)
    async with websites.operating():
        await websites.wait("configmaps", "done-1")
        since = websites.now
        await websites.patch(n=2)
        await websites.wait("configmaps", "done-1", gone=True)
        assert websites.writes(since) == ["PATCH done-2", "DELETE done-1"]
        await websites.sandbox.patch("configmaps", "a", {"data": {"x": "2"}}, namespace="ns1")
        await websites.wait("configmaps", "a", jsonpath="data.x", value="1")
    found = [r.getMessage() for r in caplog.records if "is not stored as" in r.getMessage()]
    assert [message.partition(": ")[2][:22] for message in found if "/a " in message] == [
        "metadata.managedFields"
    ]


async def test_o2_handlers_are_not_repeated_if_the_exit_interrupts_a_pass(websites: Any) -> None:
    calls: list[str] = []
    started = asyncio.Event()

    @kopf.on.create("websites", id="a", registry=websites.registry)
    def a(**_: Any) -> None:
        calls.append("a")

    @websites.reconcile()
    async def fn(**_: Any) -> AsyncIterator[Any]:
        if not started.is_set():
            started.set()
            await asyncio.Event().wait()
        yield config_map("done")

    websites.settings.queueing.exit_timeout = 0
    await websites.apply()
    async with websites.operating():
        await started.wait()
    async with websites.operating():
        await websites.wait("configmaps", "done")
    assert calls == ["a"]


async def test_namespaced_operators_know_what_they_have_written(websites: Any) -> None:
    @websites.reconcile()
    def fn(spec: Any, **_: Any) -> Iterator[Any]:
        yield config_map("a")
        yield config_map(f"done-{spec['n']}")

    await websites.apply(n=1)
    async with websites.operating(clusterwide=False, namespaces=["ns1"]):
        await websites.wait("configmaps", "done-1")
        await websites.patch(n=2)
        await websites.wait("configmaps", "done-1", gone=True)
    assert websites.writes() == ["PATCH a", "PATCH done-1", "PATCH done-2", "DELETE done-1"]


async def test_children_in_namespaces_not_served_are_refused(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @websites.reconcile(id="fn")
    def fn(**_: Any) -> Iterator[Any]:
        far = config_map("far")
        far["metadata"]["namespace"] = "ns2"
        yield far

    await websites.apply()
    async with websites.operating(clusterwide=False, namespaces=["ns1"]):
        await websites.wait(websites.kind, "web", jsonpath=PROGRESS)
    assert await websites.names(namespace="ns2") == []
    assert "ConfigMap ns2/far is wanted in a namespace which the operator does not" in caplog.text


async def test_limited_reconcilers_hold_no_workers(websites: Any) -> None:
    gate, begun = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    websites.settings.queueing.worker_limit = 2

    @websites.reconcile(limit=1)
    def fn(name: str, **_: Any) -> Iterator[Any]:
        loop.call_soon_threadsafe(begun.set)
        gate.wait()
        yield config_map(name)

    @kopf.on.event("configmaps", registry=websites.registry)
    def other(**_: Any) -> None:
        pass

    @kopf.on.create(websites.kind, labels={"plain": "yes"}, registry=websites.registry)
    def plain(**_: Any) -> None:
        gate.set()

    try:
        for name in ("a", "b", "c", "d"):
            await websites.apply(name)
        async with websites.operating():
            async with asyncio.timeout(60):
                await begun.wait()
            body = await websites.apply("z")
            patch = {"metadata": {"labels": {"plain": "yes"}}}
            assert body["metadata"]["name"] == "z"
            await websites.sandbox.patch(websites.kind, "z", patch, namespace="ns1")
            for name in ("a", "b", "c", "d", "z"):
                await websites.wait("configmaps", name)
    finally:
        gate.set()


async def test_endless_functions_are_stopped(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @websites.reconcile()
    async def endless(**_: Any) -> AsyncIterator[Any]:
        while True:
            yield config_map("same")

    @websites.reconcile()
    def last(**_: Any) -> Iterator[Any]:
        yield config_map("last")

    await websites.apply()
    async with websites.operating():
        await websites.wait("configmaps", "last")
    assert "ConfigMap ns1/same is wanted more than 100 times in one pass" in caplog.text


async def test_a_thousand_of_children(websites: Any) -> None:
    @websites.reconcile()
    def fn(spec: Any, conditions: Any, **_: Any) -> Any:
        conditions.set("Ready", True, message=str(spec["n"]))
        return [config_map(f"cm-{i}") for i in range(spec["n"])]

    def check(text: str) -> Any:
        return lambda o: any(
            c["message"] == text for c in o.get("status", {}).get("conditions", [])
        )

    await websites.apply(n=1000)
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=check("1000"), timeout=120)
        assert len(await websites.names()) == 1000
        since = websites.now
        await websites.patch(n=999)
        await websites.wait(websites.kind, "web", check=check("999"), timeout=120)
    assert websites.writes(since) == ["DELETE cm-999", "PATCH status"]


async def test_a_timeout_amid_a_thread_ends_the_pass_in_order(
    websites: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is over when the function says so, while its thread still works."""
    loop, make_timeout = asyncio.get_running_loop(), asyncio.timeout
    gate, closed, scopes = threading.Event(), list[str](), list[asyncio.Timeout]()

    def remember(delay: float | None) -> asyncio.Timeout:
        scope = make_timeout(delay)
        if delay is not None and delay > 10_000:  # nobody else waits for so long
            scopes.append(scope)
        return scope

    def expire() -> None:
        scopes[0].reschedule(0)
        loop.call_soon(gate.set)  # right after it has expired

    monkeypatch.setattr(asyncio, "timeout", remember)

    @websites.reconcile(id="fn", timeout=20_000)
    def fn(**_: Any) -> Iterator[Any]:
        try:
            yield config_map("before")
            loop.call_soon_threadsafe(expire)
            gate.wait(30)
            yield config_map("after")
        finally:
            closed.append("closed")

    @websites.reconcile()
    def last(**_: Any) -> Iterator[Any]:
        yield config_map("last")

    await websites.apply()
    async with websites.operating():
        await websites.wait("configmaps", "last")
    assert await websites.names() == ["before", "last"]
    assert closed == ["closed"]
    assert "Reconciler 'fn' has timed out after" in caplog.text
    assert "already executing" not in caplog.text


async def test_conflicts_are_conditions_and_events(websites: Any) -> None:
    @websites.reconcile(id="fn", force=False)
    def fn(spec: Any, **_: Any) -> Iterator[Any]:
        yield config_map("shared", a=spec["a"])

    shared = config_map("shared", a="theirs")
    shared["metadata"]["namespace"] = "ns1"
    await websites.sandbox.apply(shared)
    await websites.apply(a="ours")
    async with websites.operating():
        parent = await websites.wait(websites.kind, "web", condition="Conflicting")
        message = parent["status"]["conditions"][0]["message"]
        assert message.startswith("ConfigMap ns1/shared is also managed by others: .data.a: conf")
        [entry] = await websites.sandbox.journal.wait("POST", "*/events")
        assert entry.json["message"] == message
        assert entry.json["type"] == "Warning"
        await websites.patch(a="theirs")
        await websites.wait(
            websites.kind, "web", check=lambda o: not o.get("status", {}).get("conditions")
        )


async def test_indices_of_other_kinds_trigger_passes(websites: Any) -> None:
    @kopf.index("secrets", id="sites", registry=websites.registry)
    def sites(body: Any, **_: Any) -> Any:
        return {"any": "irrelevant"}

    @kopf.index("services", id="by_secret", registry=websites.registry)
    def by_secret(spec: Any, **_: Any) -> Any:
        return {spec["selector"]["secret"]: spec["selector"]["website"]}

    @websites.reconcile(related={"secrets": "by_secret"})
    def fn(related: Any, **_: Any) -> Iterator[Any]:
        yield config_map("seen", names=",".join(sorted(related["Secret"])))

    async def apply(kind: str, name: str, **fields: Any) -> None:
        metadata = {"name": name, "namespace": "ns1"}
        await websites.sandbox.apply(
            {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}
        )

    await websites.apply()
    await apply("Secret", "s1")
    async with websites.operating():
        await websites.wait("configmaps", "seen", jsonpath="data.names", value="")
        selector = {"secret": "s1", "website": "web"}
        await apply("Service", "link", spec={"selector": selector, "ports": [{"port": 80}]})
        await websites.wait("configmaps", "seen", jsonpath="data.names", value="s1")
        await websites.sandbox.delete("services", "link", namespace="ns1")
        await websites.wait("configmaps", "seen", jsonpath="data.names", value="")


async def test_it_is_told_what_was_not_as_wanted(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @websites.reconcile(owns=["configmaps"])
    def fn(spec: Any, **_: Any) -> Iterator[Any]:
        yield config_map("web", x=spec["x"])

    caplog.set_level("INFO")
    await websites.apply(x="1")
    async with websites.operating():
        await websites.wait("configmaps", "web", jsonpath="data.x", value="1")
        await websites.apply(x="2")
        await websites.wait("configmaps", "web", jsonpath="data.x", value="2")
    told = [text for text in caplog.messages if text.startswith("Applied")]
    assert told == ["Applied ConfigMap ns1/web.", "Applied ConfigMap ns1/web: data.x."]


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (2, "data.a, data.b"),
        (3, "data.a, data.b, data.c"),
        (4, "data.a, data.b, data.c, and others"),
    ],
)
async def test_app1_all_changed_fields_are_named(
    websites: Any, caplog: pytest.LogCaptureFixture, count: int, told: str
) -> None:
    @websites.reconcile(owns=["configmaps"])
    def fn(spec: Any, **_: Any) -> Iterator[Any]:
        yield config_map("web", **dict.fromkeys("abcd"[:count], spec["x"]))

    caplog.set_level("INFO")
    await websites.apply(x="1")
    async with websites.operating():
        await websites.wait("configmaps", "web", jsonpath="data.a", value="1")
        await websites.apply(x="2")
        await websites.wait("configmaps", "web", jsonpath="data.a", value="2")
    assert f"Applied ConfigMap ns1/web: {told}." in caplog.messages


async def test_refused_repairs_are_not_taken_for_changes_by_others(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """E.g., a port of a service was renumbered: it cannot be repaired, but nobody fights."""

    @websites.reconcile(owns=["configmaps"], backoff=0.01)
    def fn(**_: Any) -> Iterator[Any]:
        yield config_map("web", x="1")

    await websites.apply()
    async with websites.operating():
        await websites.wait("configmaps", "web", jsonpath="data.x", value="1")
        with websites.sandbox.faults.fail(422, method="PATCH", path="*/configmaps/web", times=5):
            theirs = {"data": {"x": "2"}}
            await websites.sandbox.patch("configmaps", "web", theirs, namespace="ns1")
            await websites.wait("configmaps", "web", jsonpath="data.x", value="1")
    assert "422" in caplog.text
    assert "changed back by others" not in caplog.text


async def test_sim12_children_that_are_deleted_all_the_time_are_applied_less_often(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """E.g. by the garbage collector, while the stream is late with the deletion of the owner."""
    passes: list[int] = []

    @websites.reconcile(owns=["configmaps"])
    def fn(**_: Any) -> Iterator[Any]:
        passes.append(1)
        yield config_map("web", x="1")

    await websites.apply()
    async with websites.operating():
        for _ in range(6):
            await websites.wait("configmaps", "web")
            await websites.sandbox.delete("configmaps", "web", namespace="ns1")
    assert "ConfigMap ns1/web is deleted by others all the time" in caplog.text
    assert len(passes) == 6


async def test_sim12_children_deleted_by_our_own_will_are_not_fought_for(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @websites.reconcile(owns=["configmaps"])
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        conditions.set("Ready", True, message=spec["x"])
        if spec["x"] == "yes":
            yield config_map("web")

    await websites.apply(x="yes")
    async with websites.operating():
        for _ in range(7):
            await websites.wait("configmaps", "web")
            await websites.apply(x="no")
            await websites.wait("configmaps", "web", gone=True)
            await websites.apply(x="yes")
    assert "by others all the time" not in caplog.text


async def test_one_name_of_the_operator_for_everything(websites: Any) -> None:
    websites.settings.name = "sites.example.com"

    @websites.reconcile(owns=["configmaps", "namespaces"])
    def fn(name: str, body: Any, **_: Any) -> Iterator[Any]:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}}
        yield config_map(name)
        kopf.event(body, type="Normal", reason="Done", message="Well done.")

    @kopf.on.create(websites.kind, registry=websites.registry)
    def created(**_: Any) -> None:
        pass

    await websites.apply()
    async with websites.operating():
        child = await websites.wait("configmaps", "web")
        key = "sites.example.com/last-handled-configuration"
        owner = await websites.wait(websites.kind, "web", jsonpath=f"metadata.annotations['{key}']")
        [entry, *_] = await websites.sandbox.journal.wait("POST", "*/events")
    assert child["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "sites.example.com"}
    assert {*child["metadata"]["annotations"]} == {
        "sites.example.com/applied-by",
        "sites.example.com/applied-digest",
    }
    managers = {item["manager"] for item in child["metadata"]["managedFields"]}
    assert managers == {"sites.example.com"}
    assert owner["metadata"]["finalizers"] == ["sites.example.com/finalizer"]
    assert entry.json["reportingComponent"] == "sites.example.com"


async def test_unlisted_kinds_hold_the_deletion(
    websites: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is told by the end of the child, not by asking again and again.
    monkeypatch.setattr("kopf_core.reactor.object.reconciliation.CLEANING_POLLING", 3600.0)

    @websites.reconcile(id="fn", owns=["namespaces"])
    def fn(**_: Any) -> Iterator[Any]:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}}

    await websites.apply()
    async with websites.operating():
        await websites.wait("namespaces", "far", namespace=None)
    await websites.sandbox.delete(websites.kind, "web", namespace="ns1")
    since = websites.now
    with websites.sandbox.faults.fail(
        500, method="GET", path="/api/v1/namespaces", watch=False, times=5
    ):
        async with websites.operating():
            await websites.wait(websites.kind, "web", gone=True)
            await websites.wait("namespaces", "far", namespace=None, gone=True)
    assert websites.writes(since)[:2] == ["DELETE far", "PATCH web"]
