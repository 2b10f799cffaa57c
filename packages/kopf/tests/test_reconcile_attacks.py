"""``@kopf.reconcile`` with functions that want what makes no sense, and among other handlers."""

import asyncio
import contextlib
import gc
import json
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from idleness import until

import kopf
from kopf_core.reactor.streams.stores import ObjectStore

PROGRESS = r"metadata.annotations.kopf\.zalando\.org/fn"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def has_condition(message: str) -> Any:
    def check(obj: Any) -> bool:
        conditions = obj.get("status", {}).get("conditions", [])
        return any(c["message"] == message for c in conditions)

    return check


def find_known(name: str) -> list[Any]:
    """What the operators know of the object of this name; users get copies of that."""
    stores = [obj for obj in gc.get_objects() if isinstance(obj, ObjectStore)]
    return [b for store in stores for b in store.values() if b["metadata"]["name"] == name]


async def test_objects_wanted_twice_differently_make_no_endless_passes(websites: Any) -> None:
    passes: list[str] = []

    @websites.reconcile(id="fn")
    def fn(spec: Any, name: str, conditions: Any, **_: Any) -> Iterator[Any]:
        if name == "web":
            passes.append("")
            yield config_map("child", a="1")
            with contextlib.suppress(kopf.PermanentError):
                yield config_map("child", a="2")
        conditions.set("Ready", True, message=spec["x"])

    where = {"path": "*/configmaps", "watch": True}
    async with websites.operating():
        await websites.apply("first", x="1")
        await websites.wait(websites.kind, "first", check=has_condition("1"))
        with websites.sandbox.faults.hold(**where):  # what was written comes back late
            await websites.apply(x="1")
            await websites.wait(websites.kind, "web", check=has_condition("1"))
        for n in range(5):
            await websites.apply(f"other-{n}", x="1")
            await websites.wait(websites.kind, f"other-{n}", check=has_condition("1"))
    assert len(passes) == 1
    assert [w for w in websites.writes() if w == "PATCH child"] == ["PATCH child"]


NONSENSE = {
    "number": (
        123,
        "or as instances of classes with @kopf.resource, or kopf.Again(); not <class 'int'>",
    ),
    "text": ("text", "Reconcilers yield objects as dictionaries"),
    "no kind": ({"metadata": {"name": "x"}}, "kind"),
    "metadata is a list": (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": []},
        "ConfigMap: metadata must be a dictionary, not []",
    ),
    "metadata is a text": (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": "x"},
        "metadata must be a dictionary",
    ),
    "name is a number": (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 123}},
        "metadata.name must be a string",
    ),
    "labels are a list": (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": ["a"]}},
        "metadata.labels must be a dictionary",
    ),
    "not json": (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": {1}}},
        "",
    ),
    "bytes": (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": b"b"}},
        "cannot be a part of what is wanted",
    ),
    "not a number": (
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "x"},
            "data": {"a": float("nan")},
        },
        "",
    ),
    "generated names": (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}},
        "generateName",
    ),
}


@pytest.mark.parametrize("what", NONSENSE)
async def test_nonsense_is_explained(
    websites: Any, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    wanted, explanation = NONSENSE[what]

    @websites.reconcile(id="fn", errors=kopf.ErrorsMode.PERMANENT)
    def fn(name: str, conditions: Any, **_: Any) -> Iterator[Any]:
        if name == "web":
            yield wanted
        conditions.set("Ready", True, message="fine")

    await websites.apply()
    async with websites.operating():
        await until(lambda: any(r.levelname == "ERROR" for r in caplog.records))
        await websites.apply("other")
        await websites.wait(websites.kind, "other", check=has_condition("fine"))
    errors = [r for r in caplog.records if r.levelname == "ERROR"]
    assert len(errors) == 1
    assert not [r for r in errors if r.exc_info] or what in ("bytes", "not a number")
    assert all(explanation in r.getMessage() for r in errors)


async def test_all_kinds_of_handlers_of_one_object(websites: Any) -> None:
    """Two reconcilers, handlers of changes, a daemon, a timer, far children, and finalizers."""
    registry, kind, calls = websites.registry, websites.kind, list[str]()

    def noted(fn_id: str) -> Any:
        def fn(**_: Any) -> None:
            calls.append(fn_id)

        return fn

    kopf.on.create(kind, registry=registry, id="created")(noted("created"))
    kopf.on.update(kind, registry=registry, id="updated", field="spec.x")(noted("updated"))
    kopf.on.delete(kind, registry=registry, id="deleted")(noted("deleted"))
    kopf.timer(kind, registry=registry, id="timer", interval=3600)(noted("timer"))

    @kopf.daemon(kind, registry=registry, id="daemon")
    async def daemon(stopped: Any, **_: Any) -> None:
        calls.append("daemon")
        await stopped.wait()
        calls.append("daemon is over")

    @websites.reconcile(id="near", owns=["configmaps"])
    def near(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map("near", x=spec["x"])
        conditions.set("Near", True, message=spec["x"])

    @websites.reconcile(id="far", owns=["configmaps", "namespaces"])
    async def far(spec: Any, conditions: Any, **_: Any) -> Any:
        child = config_map("far", x=spec["x"])
        child["metadata"]["namespace"] = "ns2"
        yield child
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "very-far"}}
        conditions.set("Far", True, message=f"far {spec['x']}")

    await websites.apply(x="1")
    async with websites.operating():
        for x in "12":
            await websites.patch(x=x)
            for message in (x, f"far {x}"):
                await websites.wait(kind, "web", check=has_condition(message))
            await websites.wait("configmaps", "near", jsonpath="data.x", value=x)
            await websites.wait("configmaps", "far", namespace="ns2", jsonpath="data.x", value=x)
        handled = "metadata.annotations['kopf.zalando.org/last-handled-configuration']"
        await websites.wait(kind, "web", jsonpath=handled, check=lambda o: "updated" in calls)
        await websites.sandbox.delete(kind, "web", namespace="ns1")
        await websites.wait(kind, "web", gone=True)
        await websites.wait("configmaps", "near", gone=True)
    assert await websites.names(namespace="ns2") == []
    assert "very-far" not in {
        o["metadata"]["name"] for o in await websites.sandbox.list("namespaces")
    }
    assert sorted(calls) == [
        "created", "daemon", "daemon is over", "deleted", "timer", "updated",
    ]  # fmt: skip
    deletions = [w for w in websites.writes() if w.startswith("DELETE")]
    assert sorted(deletions) == ["DELETE far", "DELETE very-far"]


async def test_functions_that_raise_midway_are_closed_and_repeated_with_nothing_deleted(
    websites: Any,
) -> None:
    closed: list[str] = []

    @websites.reconcile(id="fn", backoff=0.01)
    def fn(retry: int, conditions: Any, **_: Any) -> Iterator[Any]:
        try:
            yield config_map("a")
            if retry < 2:
                raise ValueError("midway")
            yield config_map("b")
            conditions.set("Ready", True, message="done")
        finally:
            closed.append("")

    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=has_condition("done"))
    assert len(closed) == 3
    writes = [w for w in websites.writes() if not w.startswith(("PATCH web", "PATCH status"))]
    assert writes == ["PATCH a", "PATCH b"]


async def test_objects_of_the_same_kind_can_be_owned(websites: Any) -> None:
    @websites.reconcile(id="fn", owns=[websites.kind])
    def fn(spec: Any, name: str, conditions: Any, **_: Any) -> Iterator[Any]:
        if spec["depth"]:
            yield {
                "apiVersion": "example.com/v1",
                "kind": "Website",
                "metadata": {"name": f"{name}-x"},
                "spec": {"depth": spec["depth"] - 1},
            }
        conditions.set("Ready", True, message=f"depth {spec['depth']}")

    await websites.apply(depth=3)
    async with websites.operating():
        await websites.wait(websites.kind, "web-x-x-x", check=has_condition("depth 0"))
        await websites.wait(websites.kind, "web", check=has_condition("depth 3"))
        await websites.sandbox.delete(websites.kind, "web-x-x", namespace="ns1")
        await websites.patch(depth=1)
        await websites.wait(websites.kind, "web-x", check=has_condition("depth 0"))
        await websites.wait(websites.kind, "web-x-x", gone=True)
        await websites.wait(websites.kind, "web-x-x-x", gone=True)


async def test_owners_deleted_amid_a_pass_leave_nothing_far_away(websites: Any) -> None:
    """The pass goes on until its end, and what it makes is deleted then."""

    @websites.reconcile(id="fn")
    def fn(**_: Any) -> Iterator[Any]:
        for name in ("far-1", "far-2"):
            child = config_map(name)
            child["metadata"]["namespace"] = "ns2"
            yield child

    await websites.apply()
    where = {"method": "PATCH", "path": "*/configmaps/far-1", "times": 1}
    with websites.sandbox.faults.hang(**where) as fault:
        async with websites.operating():
            await websites.sandbox.journal.wait("PATCH", "*/websites/web")
            await websites.sandbox.journal.arrived("PATCH", "*/configmaps/far-1")
            await websites.sandbox.delete(websites.kind, "web", namespace="ns1")
            fault.release()
            await websites.wait(websites.kind, "web", gone=True)
    assert await websites.names(namespace="ns2") == []


async def test_paused_operators_apply_nothing(websites: Any) -> None:
    from kopf_core.reactor.life.operator import Operator, OperatorOptions

    @websites.reconcile(id="fn")
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map("child", x=spec["x"])
        conditions.set("Ready", True, message=spec["x"])

    options = OperatorOptions(
        registry=websites.registry, settings=websites.settings, clusterwide=True
    )
    websites.settings.peering.standalone = True
    operator = Operator(options)
    task = asyncio.create_task(operator.run())
    await websites.apply(x="1")
    await websites.wait(websites.kind, "web", check=has_condition("1"))
    await operator.pause("test")
    since = websites.now
    await websites.patch(x="2")
    await websites.sandbox.delete("configmaps", "child", namespace="ns1")
    assert websites.writes(since) == []
    operator.resume("test")
    await websites.wait(websites.kind, "web", check=has_condition("2"))
    await websites.wait("configmaps", "child", jsonpath="data.x", value="2")
    assert websites.writes(since) == ["PATCH child", "PATCH status"]
    operator.stop()
    await task


async def test_known_fields_are_shared_between_all_children(websites: Any) -> None:
    """They are as big as the objects themselves, and nearly the same in all of them."""

    @websites.reconcile(id="fn")
    def fn(name: str, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map(f"of-{name}", x="1")
        conditions.set("Ready", True, message="1")

    await websites.apply("one")
    await websites.apply("other")
    async with websites.operating():
        for name in ("one", "other"):
            await websites.wait(websites.kind, name, check=has_condition("1"))
        known = [body for name in ("one", "other") for body in find_known(f"of-{name}")]
    fields = [body["metadata"]["managedFields"][0]["fieldsV1"]["f:data"] for body in known]
    assert len(fields) == 2
    assert fields[0] == {"f:x": {}}
    assert fields[0] is fields[1]


async def test_h2_children_wanted_twice_in_different_forms_are_an_error(websites: Any) -> None:
    """Otherwise, each pass would change them twice: from the second form to the first, and back."""

    @websites.reconcile(id="fn")
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map("child", x="1")
        yield config_map("child", x="1")  # the same is no news
        try:
            yield config_map("child", y="2")
        except kopf.PermanentError as e:
            conditions.set("Ready", False, message=f"{spec['n']}: {e}")

    text = "ConfigMap ns1/child is wanted twice in one pass, and not the same: "
    text += "let it be yielded once, with all that it must have."
    await websites.apply(n=1)
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=has_condition(f"1: {text}"))
        await websites.patch(n=2)
        await websites.wait(websites.kind, "web", check=has_condition(f"2: {text}"))
        child = await websites.wait("configmaps", "child")
    assert child["data"] == {"x": "1"}
    assert websites.writes().count("PATCH child") == 1


@pytest.mark.parametrize("status", [404, 409])
async def test_h2_refused_deletions_are_repeated(websites: Any, status: int) -> None:
    """They are denied by a webhook, or the kind is not served for a moment."""
    body = json.dumps({"kind": "Status", "code": status, "message": "not now"}).encode()

    @websites.reconcile(id="fn", owns=["configmaps", "namespaces"], backoff=0.01)
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}}
        if spec["wanted"]:
            yield config_map("child")
        conditions.set("Ready", True, message=str(spec["wanted"]))

    await websites.apply(wanted=True)
    faults = websites.sandbox.faults
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=has_condition("True"))
        with faults.fail(status, method="DELETE", path="*/child", body=body, times=1):
            await websites.patch(wanted=False)
            await websites.wait("configmaps", "child", gone=True)
            await websites.wait(websites.kind, "web", check=has_condition("False"))
        with faults.fail(status, method="DELETE", path="*/far", body=body, times=1):
            await websites.sandbox.delete(websites.kind, "web", namespace="ns1")
            await websites.wait(websites.kind, "web", gone=True)
    assert "far" not in await websites.names("namespaces", namespace=None)


async def test_h3_typos_in_children_hold_nobody_up(websites: Any) -> None:
    """The server says to such applies that it has failed, but it always will."""
    message = "failed to create typed patch object (...): .dta: field not declared in schema"
    body = json.dumps({"kind": "Status", "code": 500, "message": message}).encode()

    @websites.reconcile(id="fn")
    async def fn(spec: Any, conditions: Any, **_: Any) -> Any:
        try:
            yield config_map(spec["child"])
        except kopf.api.APIError as e:
            conditions.set("Ready", False, message=str(e))
        else:
            conditions.set("Ready", True, message="")

    await websites.apply(child="bad")
    where = {"method": "PATCH", "path": "*/configmaps/bad"}
    with websites.sandbox.faults.fail(500, body=body, **where) as fault:
        async with websites.operating():
            await websites.wait(
                websites.kind, "web", check=has_condition(f"500: ConfigMap ns1/bad: {message}")
            )
            await websites.patch(child="good")
            await websites.wait(websites.kind, "web", check=has_condition(""))
    assert fault.hits == 1


async def test_h2_children_applied_with_no_answer_do_not_outlive_their_owners(
    websites: Any,
) -> None:
    """The request is executed, but nobody says so, and the stream of the children is late."""
    sent: list[dict[str, Any]] = []

    @websites.reconcile(id="fn", owns=["namespaces"])
    def fn(**_: Any) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}}

    def keep(call: Any) -> bool:
        sent.append(json.loads(call.body))
        return True

    faults, path = websites.sandbox.faults, "/api/v1/namespaces/far"
    await websites.apply()
    async with websites.operating():
        with faults.fail(504, method="PATCH", path=path, match=keep):
            await websites.wait(websites.kind, "web", jsonpath=PROGRESS)
        with faults.hold(path="/api/v1/namespaces", watch=True):
            async with aiohttp.ClientSession(websites.sandbox.url) as session:
                params = {"fieldManager": "kopf", "force": "true"}
                headers = {"Content-Type": "application/apply-patch+yaml"}
                await session.patch(path, json=sent[0], params=params, headers=headers)
            await websites.wait("namespaces", "far", namespace=None)
            await websites.sandbox.delete(websites.kind, "web", namespace="ns1")
            await websites.wait("namespaces", "far", namespace=None, gone=True)
        await websites.wait(websites.kind, "web", gone=True)


async def test_h2_live_children_can_be_yielded_back(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What the server has added to them is not wanted, however it changes."""

    @websites.reconcile(id="fn")
    def fn(spec: Any, children: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        child = children["ConfigMap"].get("child") or config_map("child")
        child["data"] = {"x": "1"}
        live = yield child
        live["data"]["y"] = "2"
        yield {**live, "metadata": {**live["metadata"], "name": "copy"}}
        conditions.set("Ready", True, message=str(spec["n"]))

    await websites.apply(n=1)
    async with websites.operating():
        for n in (1, 2, 3):
            await websites.wait(websites.kind, "web", check=has_condition(str(n)))
            await websites.patch(n=n + 1)
        await websites.wait(websites.kind, "web", check=has_condition("4"))
    writes = [write for write in websites.writes() if "status" not in write]
    assert writes == ["PATCH child", "PATCH copy"]
    assert "is not stored as it was applied" not in caplog.text


async def test_h2_line_breaks_in_secrets_are_not_wanted_again(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """So prints ``base64`` of the command line; the server stores it in one line."""

    @websites.reconcile(id="fn", owns=["secrets"])
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        data = {"x": "YWJj\nZGVm\r\n", "y": "YQ=="}
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "data": data}
        conditions.set("Ready", True, message=str(spec["n"]))

    await websites.apply(n=1)
    for n in (1, 2):
        async with websites.operating():
            await websites.wait(websites.kind, "web", check=has_condition(str(n)))
        await websites.patch(n=n + 1)
    secret = await websites.wait("secrets", "token")
    assert secret["data"] == {"x": "YWJjZGVm", "y": "YQ=="}
    assert websites.writes().count("PATCH token") == 1
    assert "is not stored as it was applied" not in caplog.text
