"""Handlers with models: what they are given, and what becomes of the objects that are invalid."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pydantic
import pytest
from idleness import until

import kopf

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


@dataclasses.dataclass(frozen=True)
class Page:
    path: str
    updated: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True)
class Spec:
    replicas: int
    pages: list[Page] = dataclasses.field(default_factory=list)
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    mode: Mode = Mode.FAST


@dataclasses.dataclass(frozen=True)
class Status:
    phase: str | None = None
    count: int = 0


@kopf.resource("websites.example.com/v1", kind="Website")
@dataclasses.dataclass(frozen=True)
class Website:
    spec: Spec
    status: Status | None = None


@dataclasses.dataclass(frozen=True)
class Meta:
    name: str
    namespace: str | None = None


@kopf.resource("websites.example.com/v1", kind="Website")
@dataclasses.dataclass(frozen=True)
class Part:
    metadata: Meta
    spec: Spec


@dataclasses.dataclass(frozen=True)
class Credentials:
    data: dict[str, int]


class PydanticSpec(pydantic.BaseModel):
    replicas: int = pydantic.Field(ge=1)
    pages: dict[str, Any] = {}


@kopf.resource("websites.example.com/v1", kind="Website")
class PydanticWebsite(pydantic.BaseModel, extra="forbid", frozen=True):
    spec: PydanticSpec


class TypedSpec(TypedDict):
    replicas: int


class Calls(list[Any]):
    """What handlers were given, and waiting for that."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def __call__(self, *items: Any) -> None:
        self.append(items if len(items) > 1 else items[0])
        self._changed.set()

    async def until(self, check: Callable[[list[Any]], object]) -> None:
        async with asyncio.timeout(60):
            while not check(self):
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
def calls() -> Calls:
    return Calls()


def get_condition(obj: Any, type: str = "Valid") -> Any:
    conditions = obj.get("status", {}).get("conditions", [])
    return next((item for item in conditions if item["type"] == type), None)


def is_invalid(obj: Any) -> bool:
    return (get_condition(obj) or {}).get("status") == "False"


async def test_n1_dataclasses_are_given_whole(websites: Any, calls: Calls) -> None:
    @kopf.on.create(Website, registry=websites.registry)
    async def fn(spec: Spec, body: Website, status: Status | None, name: str, **_: Any) -> None:
        calls(spec, body, status, name)

    async with websites.operating():
        await websites.apply(
            replicas=3,
            pages=[{"path": "/", "updated": "2026-01-02T03:04:05Z", "unknown": 1}],
            labels={"a": "b"},
            mode="slow",
        )
        await calls.until(len)
    spec, body, status, name = calls[0]
    updated = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert spec == Spec(3, [Page("/", updated)], {"a": "b"}, Mode.SLOW)
    assert body.spec == spec
    assert status is None
    assert name == "web"


async def test_n1_pydantic_models_are_given_whole(websites: Any, calls: Calls) -> None:
    @kopf.on.create(PydanticWebsite, registry=websites.registry)
    def fn(spec: PydanticSpec, body: PydanticWebsite, **_: Any) -> None:
        spec.replicas += 1  # it is only a copy, as it is not frozen
        calls(spec, body)

    @kopf.on.create(PydanticWebsite, registry=websites.registry)
    def other(spec: PydanticSpec, body: PydanticWebsite, **_: Any) -> None:
        calls(spec, body)

    async with websites.operating():
        await websites.apply(replicas=3, pages={"a": {"b": 1}})
        await calls.until(lambda calls: len(calls) == 2)
    assert [spec.replicas for spec, _ in calls] == [4, 3]
    assert all(body.spec.pages == {"a": {"b": 1}} for _, body in calls)


async def test_n1_typed_dicts_are_the_dictionaries_as_ever(websites: Any, calls: Calls) -> None:
    @kopf.on.create(Website, registry=websites.registry)
    def fn(spec: TypedSpec, meta: Spec, body: kopf.RawBody, status: Unknown, **_: Any) -> None:
        calls(spec, meta, body, status)

    async with websites.operating():
        await websites.apply(replicas="wrong")
        await calls.until(len)
    types = [kopf.Spec, kopf.Meta, kopf.Body, kopf.Status]
    assert [type(value) for value in calls[0]] == types
    assert calls[0][0] == {"replicas": "wrong"}


async def test_n1_old_and_new_are_models(websites: Any, calls: Calls) -> None:
    @kopf.on.update(Website, registry=websites.registry)
    def whole(old: Website, new: Website, diff: Any, **_: Any) -> None:
        calls("whole", old.spec.replicas, new.spec.replicas, len(diff))

    @kopf.on.update(Website, field="spec", registry=websites.registry)
    def field(old: Spec, new: Annotated[Spec, "marked"], **_: Any) -> None:
        calls("field", old.replicas, new.replicas)

    @kopf.on.field(Website, field="spec.pages", registry=websites.registry)
    def pages(old: list[Page] | None, new: list[Page], **_: Any) -> None:
        calls("pages", old, new)

    async with websites.operating():
        await websites.apply(replicas=1)
        await websites.wait(websites.kind, "web", check=_is_handled)
        await websites.patch(replicas=2, pages=[{"path": "/"}])
        await calls.until(lambda calls: len(calls) == 3)
    assert sorted(calls) == [
        ("field", 1, 2),
        ("pages", None, [Page("/")]),
        ("whole", 1, 2, 2),
    ]


def _is_handled(obj: Any) -> bool:
    return "kopf.zalando.org/last-handled-configuration" in obj["metadata"].get("annotations", {})


async def test_n1_all_kinds_of_handlers_are_given_models(websites: Any, calls: Calls) -> None:
    registry = websites.registry

    def is_big(spec: Spec, **_: Any) -> bool:
        return spec.replicas > 1

    def has_index(_: str | None, spec: Spec, **__: Any) -> bool:
        return spec.mode is Mode.FAST

    def get_delay(spec: Spec, **_: Any) -> float:
        return 0.0 if spec.replicas else 60.0

    @kopf.on.event(Website, registry=registry, when=is_big, labels={"x": has_index})
    def on_event(spec: Spec, **_: Any) -> None:
        calls("event", spec.replicas)

    @kopf.index(Website, registry=registry, id="by_mode")
    def by_mode(spec: Spec, **_: Any) -> Any:
        return {spec.mode: spec.replicas}

    @kopf.timer(Website, registry=registry, interval=600, initial_delay=get_delay)
    def ticking(spec: Spec, by_mode: kopf.Index[Mode, int], **_: Any) -> None:
        calls("timer", spec.replicas, by_mode)
        calls("index", *by_mode[Mode.FAST])

    @kopf.daemon(Website, registry=registry)
    async def running(spec: Spec, stopped: kopf.DaemonStopped, **_: Any) -> None:
        calls("daemon", spec.replicas)
        await stopped.wait()

    @kopf.reconcile(Website, registry=registry)
    def wanted(spec: Spec, **_: Any) -> Any:
        calls("pass", spec.replicas)

    @kopf.on.resume(Website, registry=registry)
    @kopf.on.create(Website, registry=registry)
    def parent(spec: Spec, **_: Any) -> None:
        @kopf.subhandler()
        def child(spec: Spec, **_: Any) -> None:
            calls("child", spec.replicas)

    async with websites.operating():
        await websites.apply(replicas=2)
        await calls.until(lambda calls: len({call[0] for call in calls}) == 6)
    assert {call[:2] for call in calls} == {
        (name, 2) for name in ("event", "index", "timer", "daemon", "pass", "child")
    }


async def test_n1_annotated_filters_narrow_the_objects(websites: Any, calls: Calls) -> None:
    def is_big(spec: PydanticSpec, **_: Any) -> bool:
        return spec.replicas > 1

    @kopf.on.create(Website, registry=websites.registry, when=is_big)
    def fn(name: str, spec: Any, **_: Any) -> None:
        calls(name, type(spec))

    async with websites.operating():
        await websites.apply("small", replicas=1)
        await websites.apply("big", replicas=2)
        await calls.until(len)
    assert calls == [("big", kopf.Spec)]


async def test_n1_instances_are_made_once_for_all_handlers(websites: Any, calls: Calls) -> None:
    for number in range(3):

        @kopf.on.event(Website, registry=websites.registry, id=f"fn{number}")
        def fn(body: Website, spec: Spec, **_: Any) -> None:
            calls(body, spec)

    async with websites.operating():
        await websites.apply(replicas=1)
        await calls.until(lambda calls: len(calls) >= 3)
    assert len({id(body) for body, _ in calls[:3]}) == 1
    assert len({id(spec) for _, spec in calls[:3]}) == 1


async def test_n3_invalid_objects_wait_until_they_are_valid(
    websites: Any, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    """There is a condition, one event, one line; others go on; then, it is still a creation."""

    @kopf.on.create(Website, registry=websites.registry)
    def typed(spec: Spec, **_: Any) -> None:
        calls("typed", spec.replicas)

    @kopf.on.create(Website, registry=websites.registry)
    def untyped(**_: Any) -> None:
        calls("untyped")

    async with websites.operating():
        await websites.apply(replicas="many", pages=[{"path": 1}])
        obj = await websites.wait(websites.kind, "web", check=is_invalid)
        await calls.until(len)
        text = (
            "The object is invalid: spec.replicas: must be an integer, not 'many'; "
            "spec.pages[0].path: must be a string, not 1"
        )
        assert get_condition(obj)["reason"] == "InvalidObject"
        assert get_condition(obj)["message"] == text
        assert calls == ["untyped"]
        await websites.patch(replicas=2, pages=[])
        obj = await websites.wait(websites.kind, "web", check=lambda obj: not is_invalid(obj))
        await calls.until(lambda calls: ("typed", 2) in calls)
        assert get_condition(obj)["status"] == "True"
    events = await websites.sandbox.list("events", namespace="ns1")
    assert calls == ["untyped", ("typed", 2)]
    assert len([e for e in events if e["reason"] == "InvalidObject"]) == 1
    lines = [record.getMessage() for record in caplog.records]
    assert len([line for line in lines if text in line]) == 1
    assert not [line for line in lines if "Traceback" in line]


async def test_n3_k24_invalid_values_of_secrets_are_not_shown(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @kopf.on.create("secrets", registry=websites.registry)
    def typed(body: Credentials, **_: Any) -> None: ...

    def get_lines() -> list[str]:
        return [record.getMessage() for record in caplog.records]

    text = "The object is invalid: data.pin: must be an integer"
    meta = {"name": "one", "namespace": "ns1"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"pin": "czNjcjN0"}}
    async with websites.operating():
        await websites.sandbox.create(secret)
        await until(lambda: any(text in line for line in get_lines()))
    events = await websites.sandbox.list("events", namespace="ns1")
    assert [event["message"] for event in events if event["reason"] == "InvalidObject"] == [text]
    assert not [line for line in get_lines() if "czNjcjN0" in line]


async def test_n3_invalid_objects_cost_no_requests(websites: Any, calls: Calls) -> None:
    @kopf.on.create(Website, registry=websites.registry)
    @kopf.reconcile(Website, registry=websites.registry, owns=["configmaps"])
    def typed(spec: Spec, **_: Any) -> None:
        calls("typed")

    @kopf.on.event(Website, registry=websites.registry)
    def seen(labels: Any, **_: Any) -> None:
        calls(labels.get("x"))

    def is_observed(obj: Any) -> bool:
        generation = (get_condition(obj) or {}).get("observedGeneration")
        return bool(generation == obj["metadata"]["generation"])

    async with websites.operating():
        await websites.apply(replicas="many")
        await websites.wait(websites.kind, "web", check=is_observed)
        await websites.patch(other=1)
        await websites.wait(websites.kind, "web", check=is_observed)
        since = websites.now
        for number in ("1", "2"):
            labels = {"metadata": {"labels": {"x": number}}}
            await websites.sandbox.patch(websites.kind, "web", labels, namespace="ns1")
            await calls.until(lambda calls, number=number: number in calls)
        await websites.apply("valid", replicas=1)
        await websites.wait(websites.kind, "valid", check=_is_handled)
    own = [e for e in websites.sandbox.journal if e.number > since and e.method == "PATCH"]
    assert not [entry.path for entry in own if entry.path.endswith(("/web", "/web/status"))]


async def test_n3_invalid_objects_stop_and_start_daemons(websites: Any, calls: Calls) -> None:
    @kopf.daemon(Website, registry=websites.registry)
    async def fn(spec: Spec, stopped: kopf.DaemonStopped, **_: Any) -> None:
        calls("on", spec.replicas)
        await stopped.wait()
        calls("off", spec.replicas)

    async with websites.operating():
        await websites.apply(replicas=1)
        await calls.until(lambda calls: ("on", 1) in calls)
        await websites.patch(replicas="x")
        await calls.until(lambda calls: ("off", 1) in calls)
        await websites.patch(replicas=2)
        await calls.until(lambda calls: ("on", 2) in calls)


async def test_n3_children_of_invalid_objects_are_left(websites: Any, calls: Calls) -> None:
    @kopf.reconcile(Website, registry=websites.registry, owns=["configmaps"])
    def fn(spec: Spec, name: str, **_: Any) -> Any:
        yield {"apiVersion": "v1", "kind": "ConfigMap", "data": {"n": str(spec.replicas)}}

    async with websites.operating():
        await websites.apply(replicas=1)
        await websites.wait("configmaps", "web")
        await websites.patch(replicas="x")
        await websites.wait(websites.kind, "web", check=is_invalid)
        assert (await websites.wait("configmaps", "web"))["data"] == {"n": "1"}
        await websites.patch(replicas=2)
        await websites.wait("configmaps", "web", check=lambda obj: obj["data"] == {"n": "2"})


async def test_n3_deletion_of_invalid_objects_ends(websites: Any, calls: Calls) -> None:
    @kopf.on.delete(Website, registry=websites.registry)
    def typed(spec: Spec, **_: Any) -> None:
        calls("typed")

    @kopf.on.delete(Website, registry=websites.registry)
    def untyped(**_: Any) -> None:
        calls("untyped")

    async with websites.operating():
        await websites.apply(replicas="x")
        await websites.wait(websites.kind, "web", check=is_invalid)
        await websites.sandbox.delete(websites.kind, "web", namespace="ns1")
        await websites.wait(websites.kind, "web", gone=True)
    assert calls == ["untyped"]


async def test_n3_the_state_before_a_repair_is_none(websites: Any, calls: Calls) -> None:
    @kopf.on.update(Website, registry=websites.registry, field="spec")
    def fn(old: Spec | None, new: Spec, **_: Any) -> None:
        calls(old, new)

    async with websites.operating():
        await websites.apply(replicas="x")
        await websites.wait(websites.kind, "web", check=_is_handled)
        await websites.patch(replicas=2)
        await calls.until(len)
    assert calls == [(None, Spec(2))]


async def test_n3_events_and_indices_of_invalid_objects_are_skipped(
    websites: Any, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @kopf.on.event(Website, registry=websites.registry)
    def fn(name: str, spec: Spec, numbers: kopf.Index[str, int], **_: Any) -> None:
        calls(name, numbers)

    @kopf.index(Website, registry=websites.registry, id="numbers")
    def numbers(name: str, spec: Spec, **_: Any) -> Any:
        return {name: spec.replicas}

    async with websites.operating():
        await websites.apply("bad", replicas="x")
        await websites.apply("good", replicas=1)
        await calls.until(len)
        assert [*calls[0][1]] == ["good"]
    events = await websites.sandbox.list("events", namespace="ns1")
    assert {name for name, _ in calls} == {"good"}
    assert len([line for line in caplog.messages if "The object is invalid" in line]) == 1
    assert [event["reason"] for event in events] == ["InvalidObject"]


async def test_n4_only_what_has_changed_in_the_status_is_written(
    websites: Any, calls: Calls
) -> None:
    @kopf.on.create(Website, registry=websites.registry)
    def first(status: Status, **_: Any) -> None:
        kopf.update_status(dataclasses.replace(status, phase="Begun"))

    @kopf.on.update(Website, registry=websites.registry, field="spec")
    def then(status: Status, patch: kopf.Patch, **_: Any) -> None:
        kopf.update_status(dataclasses.replace(status, phase=None, count=2))
        calls({**patch})

    def has_begun(obj: Any) -> bool:
        return _is_handled(obj) and obj.get("status") == {"phase": "Begun"}

    async with websites.operating():
        await websites.apply(replicas=1)
        await websites.wait(websites.kind, "web", check=has_begun)
        await websites.sandbox.patch(
            websites.kind, "web", {"status": {"other": 1}}, namespace="ns1", subresource="status"
        )
        await websites.patch(replicas=2)
        await websites.wait(
            websites.kind, "web", check=lambda obj: obj.get("status") == {"other": 1, "count": 2}
        )
    assert calls == [{"status": {"phase": None, "count": 2}}]


@dataclasses.dataclass(frozen=True)
class ConditionalStatus:
    size: int = 0
    conditions: list[dict[str, Any]] = dataclasses.field(default_factory=list)


OLD = {"type": "Old", "status": "True"}
CONDITIONAL = {"kind": "Website", "metadata": {}, "status": {"size": 0, "conditions": [OLD]}}


def test_q_conditions_are_not_lost_when_a_model_says_the_rest_of_the_status() -> None:
    def fn(status: ConditionalStatus, conditions: kopf.Conditions, **_: Any) -> None:
        conditions.set("Ready", True)
        kopf.update_status(dataclasses.replace(status, size=1))

    result = kopf.testing.reconcile(fn, CONDITIONAL)
    assert result.patch["status"]["size"] == 1
    assert [one["type"] for one in result.patch["status"]["conditions"]] == ["Old", "Ready"]


def test_q_the_last_said_status_wins() -> None:
    def fn(status: ConditionalStatus, **_: Any) -> None:
        kopf.update_status(dataclasses.replace(status, size=1, conditions=[]))
        kopf.update_status(status)
        kopf.update_status({"other": 2})

    result = kopf.testing.reconcile(fn, CONDITIONAL)
    assert result.patch == {"status": {"size": 0, "conditions": [OLD], "other": 2}}


async def test_n5_models_are_yielded(websites: Any) -> None:
    @kopf.reconcile(Website, registry=websites.registry, owns=["configmaps", Website])
    def fn(spec: Spec, name: str, **_: Any) -> Any:
        if spec.replicas:
            live = yield Part(Meta(f"{name}-part"), Spec(0, mode=Mode.SLOW))
            data = {"of": live["metadata"]["name"]}
            yield [{"apiVersion": "v1", "kind": "ConfigMap", "data": data}, None]

    async with websites.operating():
        await websites.apply(replicas=1)
        await websites.wait("configmaps", "web")
        part = await websites.wait(websites.kind, "web-part")
    assert part["spec"] == {"replicas": 0, "mode": "slow", "pages": [], "labels": {}}
    assert part["metadata"]["ownerReferences"][0]["name"] == "web"


async def test_n5_models_of_pydantic_are_yielded() -> None:
    @kopf.reconcile(Website, registry=kopf.OperatorRegistry())
    def fn(spec: Spec, **_: Any) -> Any:
        yield PydanticWebsite(spec=PydanticSpec(replicas=spec.replicas))

    body = {"metadata": {"name": "web"}, "spec": {"replicas": 5}}
    assert kopf.testing.reconcile(fn, body).objects == [
        {
            "apiVersion": "example.com/v1",
            "kind": "Website",
            "metadata": {},
            "spec": {"replicas": 5, "pages": {}},
        }
    ]


async def test_n2_classes_with_no_definition_are_refused() -> None:
    with pytest.raises(TypeError, match=r"There is no @kopf.resource on Spec"):
        kopf.on.create(Spec)


@dataclasses.dataclass(frozen=True)
class AssertedSpec:
    replicas: int

    def __post_init__(self) -> None:
        if self.replicas >= 10:
            raise AssertionError("too many replicas")


async def test_n_repairs_of_what_was_asserted_are_handled_at_once(
    websites: Any, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @kopf.on.create(Website, registry=websites.registry)
    def fn(spec: AssertedSpec, **_: Any) -> None:
        calls(spec.replicas)

    async with websites.operating():
        await websites.apply(replicas=10)
        obj = await websites.wait(websites.kind, "web", check=is_invalid)
        assert get_condition(obj)["message"] == "The object is invalid: spec: too many replicas"
        await websites.patch(replicas=2)
        await calls.until(len)
    assert calls == [2]
    assert not [one for one in caplog.records if "filters" in one.getMessage()]
