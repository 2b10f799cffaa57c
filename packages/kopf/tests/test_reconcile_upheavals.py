"""``@kopf.reconcile`` when objects refuse to be made or to go, and when their kinds vanish."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import kopf
from kopf_cogs.aiokits.clocks import SystemClock

from .conftest import make_crd


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def has_condition(message: str) -> Any:
    def check(obj: Any) -> bool:
        conditions = obj.get("status", {}).get("conditions", [])
        return any(c["message"] == message for c in conditions)

    return check


PEERINGS = Path(__file__).resolve().parents[3] / "examples" / "peering.yaml"
PROGRESS = r"metadata.annotations.kopf\.zalando\.org/fn"
GONE = b'{"kind": "Status", "code": 404, "message": "404 page not found"}'


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (413, "Request entity too large: limit is 3145728"),
        (422, "It is wrong."),
        pytest.param(500, "etcdserver: request is too large", id="too large for the storage"),
    ],
)
async def test_refused_children_hold_up_nothing_else(
    websites: Any, caplog: pytest.LogCaptureFixture, status: int, message: str
) -> None:
    @websites.reconcile(id="fn")
    def fn(name: str, spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map(f"small-{name}")
        if spec["x"] == "big":
            yield config_map("big")
        conditions.set("Ready", True, message=spec["x"])

    await websites.apply(x="big")
    where = {"method": "PATCH", "path": "*/configmaps/big"}
    with websites.sandbox.faults.fail(status, message=message, **where):
        async with websites.operating():
            await websites.wait(websites.kind, "web", jsonpath=PROGRESS)
            await websites.apply("other", x="1")
            await websites.wait(websites.kind, "other", check=has_condition("1"))
            await websites.patch(x="small")  # the retry is not waited for
            await websites.wait(websites.kind, "web", check=has_condition("small"))
    assert await websites.names() == ["small-other", "small-web"]
    assert websites.writes().count("PATCH big") == 1
    (told,) = [line for line in caplog.messages if "will try again in 60 seconds" in line]
    assert f" seconds: {status}" in told
    assert told.endswith(f": ConfigMap ns1/big: {message}")


async def test_kinds_that_vanish_amid_a_pass_are_waited_for(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @websites.reconcile(id="fn")
    def fn(**_: Any) -> Iterator[Any]:
        yield config_map("child")

    caplog.set_level(logging.INFO)
    await websites.apply()
    where = {"method": "PATCH", "path": "*/configmaps/child"}
    with websites.sandbox.faults.fail(404, body=GONE, **where):
        async with websites.operating():
            await websites.wait(websites.kind, "web", jsonpath=PROGRESS)
    assert "ConfigMap ns1/child must wait until its kind is served" in caplog.text
    assert "failed with an exception" not in caplog.text


async def test_children_that_hang_in_deletion_are_made_anew_when_gone(websites: Any) -> None:
    @websites.reconcile(id="fn")
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        live = yield config_map("child", x=spec["x"])
        gone = bool(live["metadata"].get("deletionTimestamp"))
        conditions.set("Ready", not gone, message=spec["x"])

    await websites.apply(x="1")
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=has_condition("1"))
        holder = {"metadata": {"finalizers": ["example.com/hold"]}}
        await websites.sandbox.patch("configmaps", "child", holder, namespace="ns1")
        await websites.sandbox.delete("configmaps", "child", namespace="ns1")
        await websites.patch(x="2")
        await websites.wait(websites.kind, "web", check=has_condition("2"))
        since = websites.now
        await websites.sandbox.patch(
            "configmaps", "child", {"metadata": {"finalizers": None}}, namespace="ns1"
        )
        await websites.wait("configmaps", "child", jsonpath="data.x", value="2")
    assert websites.writes(since).count("PATCH child") == 1


async def test_owners_made_anew_under_the_same_name_amid_a_pass(websites: Any) -> None:
    @websites.reconcile(id="fn")
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map("child", x=spec["x"])
        yield config_map("last", x=spec["x"])
        conditions.set("Ready", True, message=spec["x"])

    await websites.apply(x="1")
    where = {"method": "PATCH", "path": "*/configmaps/child", "times": 1}
    with websites.sandbox.faults.hang(**where) as fault:
        async with websites.operating():
            await websites.sandbox.journal.arrived("PATCH", "*/configmaps/child")
            await websites.sandbox.delete(websites.kind, "web", namespace="ns1")
            fresh = await websites.apply(x="2")
            fault.release()
            await websites.wait(websites.kind, "web", check=has_condition("2"))
            for name in ("child", "last"):
                live = await websites.wait("configmaps", name, jsonpath="data.x", value="2")
                assert live["metadata"]["ownerReferences"][0]["uid"] == fresh["metadata"]["uid"]


class Replica:
    """One of the operators with one lease; its reconciler waits in the middle of passes."""

    def __init__(self, websites: Any, name: str) -> None:
        self.name = name
        self.stop, self.led, self.lost, self.begun, self.gate = (asyncio.Event() for _ in range(5))
        self.registry = kopf.OperatorRegistry()
        self.settings = kopf.OperatorSettings()
        self.settings.leasing.name = "the-lease"
        self.settings.leasing.retry_period = 0.05

        @kopf.on.login(registry=self.registry)
        def login(**_: Any) -> Any:
            return kopf.ConnectionInfo(server=websites.sandbox.url, default_namespace="default")

        @kopf.on.leading(registry=self.registry)
        async def leading(**_: Any) -> None:
            self.led.set()
            self.lost.clear()

        @kopf.on.following(registry=self.registry)
        async def following(**_: Any) -> None:
            self.lost.set()
            self.led.clear()

        @kopf.reconcile(websites.kind, id="fn", owns=["configmaps"], registry=self.registry)
        async def fn(conditions: Any, **_: Any) -> AsyncIterator[Any]:
            yield config_map("first")
            self.begun.set()
            await self.gate.wait()
            yield config_map("last", by=self.name)
            conditions.set("Ready", True, message=self.name)

    async def run(self) -> None:
        await kopf.operator(
            registry=self.registry, settings=self.settings, clusterwide=True, stop_flag=self.stop
        )


async def test_leases_handed_over_amid_a_pass(websites: Any) -> None:
    """The next leader makes the pass from its beginning, and nothing is made twice or deleted."""
    one, two = Replica(websites, "one"), Replica(websites, "two")
    one.settings.queueing.exit_timeout = 0
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(one.run())
        await one.led.wait()
        group.create_task(two.run())
        await websites.apply()
        await one.begun.wait()
        two.gate.set()
        one.stop.set()
        await websites.wait(websites.kind, "web", check=has_condition("two"))
        two.stop.set()
    last = await websites.sandbox.get("configmaps", "last", namespace="ns1")
    assert last["data"] == {"by": "two"}
    writes = [write for write in websites.writes() if "lease" not in write]
    assert writes == ["PATCH first", "PATCH last", "PATCH status"]


async def test_passes_interrupted_by_lost_leases_are_made_again(websites: Any) -> None:
    """Whoever leads next; here, it is the same one. The quiet objects are looked at, too."""
    one = Replica(websites, "one")
    one.settings.leasing.duration, one.settings.leasing.renew_deadline = 1.0, 0.5
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(one.run())
        await one.led.wait()
        await websites.apply()
        await one.begun.wait()
        with websites.sandbox.faults.fail(500, path="*/leases/*"):
            await one.lost.wait()
        await one.led.wait()
        one.gate.set()
        await websites.wait(websites.kind, "web", check=has_condition("one"))
        one.stop.set()


class Line(logging.Handler):
    """Whoever waits for a line of the logs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self.logged = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._text in record.getMessage():
            self.logged.set()


@pytest.fixture
def pausing(caplog: pytest.LogCaptureFixture) -> Iterator[asyncio.Event]:
    """When it is paused by the peering."""
    caplog.set_level(logging.INFO)
    line, peering = (
        Line("Pausing operations in favour"),
        logging.getLogger("kopf._core.engines.peering"),
    )
    peering.addHandler(line)
    yield line.logged
    peering.removeHandler(line)


@pytest.mark.parametrize("is_in_time", [True, False], ids=["finished", "cancelled"])
async def test_s12_peering_pauses_amid_a_pass(
    websites: Any, pausing: asyncio.Event, is_in_time: bool
) -> None:
    """The pass has its time to finish; if it does not, it is made again when the pause is over."""
    begun, gate, ended = (asyncio.Event() for _ in range(3))
    calls: list[str] = []

    @websites.reconcile(id="fn")
    async def fn(spec: Any, conditions: Any, **_: Any) -> AsyncIterator[Any]:
        calls.append(spec["x"])
        try:
            yield config_map("first", x=spec["x"])
            begun.set()
            await gate.wait()
            yield config_map("last", x=spec["x"])
            conditions.set("Ready", True, message=spec["x"])
        finally:
            ended.set()

    async def set_peer(record: Any) -> None:
        await websites.sandbox.patch(peering, "default", {"status": {"peer": record}})

    def get_writes(since: int) -> list[str]:
        return [write for write in websites.writes(since) if write != "PATCH default"]

    peering = "clusterkopfpeerings.kopf.dev"
    await websites.sandbox.apply(PEERINGS)
    websites.settings.queueing.exit_timeout = 30.0 if is_in_time else 0.01
    await websites.apply(x="1")
    async with asyncio.timeout(60), websites.operating(standalone=False):
        await begun.wait()
        now = datetime.now(UTC).isoformat()
        await set_peer({"priority": 100, "lifetime": 3600, "lastseen": now})
        await pausing.wait()
        if is_in_time:
            gate.set()
        await ended.wait()
        if is_in_time:
            await websites.wait(websites.kind, "web", check=has_condition("1"))
        assert await websites.names() == ["first", "last"][: 1 + is_in_time]
        gate.set()
        since = websites.now
        await websites.patch(x="2")
        await websites.sandbox.delete("configmaps", "first", namespace="ns1")
        assert get_writes(since) == []
        if not is_in_time:  # otherwise, the others are believed to need as much time to finish
            await set_peer(None)
            await websites.wait(websites.kind, "web", check=has_condition("2"))
    assert get_writes(since) == (
        [] if is_in_time else ["PATCH first", "PATCH last", "PATCH status"]
    )
    assert calls == (["1"] if is_in_time else ["1", "2"])


@pytest.mark.parametrize(
    "change", [{"spec": {"x": "2"}}, {"metadata": {"labels": {"x": "2"}}}], ids=["spec", "labels"]
)
async def test_owners_changed_while_the_operator_is_down_do_not_wait_for_the_retry(
    websites: Any, change: Any
) -> None:
    calls: list[tuple[str, int]] = []

    @websites.reconcile(id="fn")
    async def fn(name: str, spec: Any, labels: Any, retry: int, **_: Any) -> list[Any]:
        calls.append((name, retry))
        if name == "web" and "2" not in (spec["x"], labels.get("x")):
            raise kopf.TemporaryError("not yet", delay=3600)
        return [config_map(f"of-{name}")]

    await websites.apply(x="1")
    async with websites.operating():
        await websites.wait(websites.kind, "web", jsonpath=PROGRESS)
    await websites.apply("other", x="1")
    async with websites.operating():  # it is not changed yet, so it waits
        await websites.wait("configmaps", "of-other")
    await websites.sandbox.patch(websites.kind, "web", change, namespace="ns1")
    async with websites.operating():
        await websites.wait("configmaps", "of-web")
        await websites.wait(
            websites.kind, "web", check=lambda o: not o["metadata"].get("annotations")
        )
    assert [retry for name, retry in calls if name == "web"] == [0, 1]


async def test_rec1_attempts_of_renamed_reconcilers_are_forgotten(websites: Any) -> None:
    """Otherwise, the object looks as if it waits for a retry that will never come."""

    @websites.reconcile(id="old")
    async def old(**_: Any) -> list[Any]:
        raise kopf.TemporaryError("not yet", delay=3600)

    old_progress = r"metadata.annotations.kopf\.zalando\.org/old"
    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", jsonpath=old_progress)
    websites = type(websites)(websites.sandbox)  # another version of the operator

    @websites.reconcile(id="new")
    async def new(spec: Any, **_: Any) -> list[Any]:
        if spec.get("broken"):
            raise kopf.TemporaryError("not yet", delay=3600)
        return [config_map("child")]

    async with websites.operating():
        await websites.wait("configmaps", "child")
        await websites.wait(
            websites.kind, "web", check=lambda o: not o["metadata"].get("annotations")
        )
        await websites.patch(broken=True)  # its own attempts stay
        await websites.wait(
            websites.kind, "web", jsonpath=r"metadata.annotations.kopf\.zalando\.org/new"
        )


@pytest.mark.parametrize("days", [-1, 1])
async def test_r12_d11_jumps_of_the_clock_do_not_time_out_passes(
    websites: Any, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """E.g. of a suspended machine: neither within the process, nor by what is stored."""
    real, jumps, runtimes = SystemClock.now, list[int](), list[timedelta]()
    monkeypatch.setattr(
        SystemClock, "now", lambda self: real(self) + timedelta(days=days) * len(jumps)
    )

    @websites.reconcile(id="fn", timeout=3600)
    async def fn(retry: int, runtime: timedelta, **_: Any) -> None:
        runtimes.append(runtime)
        jumps.append(retry)
        raise kopf.TemporaryError("not yet", delay=0.01 if retry < 2 else 600)

    def get_progress(obj: Any) -> Any:
        annotations = obj["metadata"].get("annotations", {})
        return json.loads(annotations.get("kopf.zalando.org/fn", "{}"))

    await websites.apply()
    async with websites.operating():
        obj = await websites.wait(
            websites.kind, "web", check=lambda obj: get_progress(obj).get("retries") == 3
        )
    assert all(timedelta(0) <= runtime < timedelta(hours=1) for runtime in runtimes)
    started, delayed = (
        datetime.fromisoformat(get_progress(obj)[k]) for k in ("started", "delayed")
    )
    assert timedelta(seconds=600) <= delayed - started < timedelta(hours=1)


@pytest.fixture
def wait_for_line(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[str], Awaitable[Any]]]:
    """Waits for a line in any of the logs, since it is called."""
    lines: list[Line] = []

    def wait(text: str) -> Awaitable[Any]:
        lines.append(Line(text))
        logging.getLogger("kopf").addHandler(lines[-1])
        return lines[-1].logged.wait()

    yield wait
    for line in lines:
        logging.getLogger("kopf").removeHandler(line)


@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "terminating"])
async def test_h2_children_come_back_with_their_kind_whatever_the_retries(
    websites: Any, caplog: pytest.LogCaptureFixture, wait_for_line: Any, is_gone: bool
) -> None:
    """The definition is deleted amid a pass: at once, or it waits for something."""
    begun, gate = asyncio.Event(), asyncio.Event()
    definition, name = make_crd("gadgets", "Gadget"), "gadgets.example.com"

    @kopf.on.event(name, registry=websites.registry)
    def seen(**_: Any) -> None:
        pass

    @websites.reconcile(id="fn", owns=["gadgets"], retries=1)
    async def fn(**_: Any) -> AsyncIterator[Any]:
        begun.set()
        await gate.wait()
        metadata = {"name": "gadget"}
        yield {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": metadata, "spec": {}}

    caplog.set_level(logging.INFO)
    held = {**definition, "metadata": {**definition["metadata"], "finalizers": ["a.b/hold"]}}
    await websites.sandbox.apply(definition if is_gone else held)
    await websites.apply()
    left, failed = wait_for_line("Unresolved resources"), wait_for_line("must wait until")
    async with websites.operating():
        await begun.wait()
        await websites.sandbox.delete("crd", name)
        if is_gone:
            await left
        gate.set()
        await failed
        if not is_gone:
            await websites.sandbox.patch("crd", name, {"metadata": {"finalizers": None}})
            await left
        await websites.sandbox.apply(definition)
        await websites.wait("gadgets", "gadget")
    assert "--namespace" not in caplog.text


async def test_h2_children_released_before_their_pass_ends_are_not_missed(websites: Any) -> None:
    """Nobody waits for the object at that moment: the function is told of the error only then."""
    refused, gone = asyncio.Event(), asyncio.Event()

    @websites.reconcile(id="fn")
    async def fn(conditions: Any, **_: Any) -> AsyncIterator[Any]:
        try:
            yield config_map("child")
        except kopf.TemporaryError:
            refused.set()
            await gone.wait()
            raise
        conditions.set("Ready", True, message="done")

    @kopf.on.event("configmaps", registry=websites.registry)
    def seen(type: str | None, **_: Any) -> None:
        if type == "DELETED":
            loop.call_soon_threadsafe(gone.set)

    loop = asyncio.get_running_loop()
    [owner] = await websites.sandbox.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    )
    ref = {"apiVersion": "v1", "kind": "Namespace", "name": "other", "controller": True}
    metadata = {"name": "child", "namespace": "ns1"}
    metadata["ownerReferences"] = [{**ref, "uid": owner["metadata"]["uid"]}]  # type: ignore[assignment]
    await websites.sandbox.create({**config_map("child"), "metadata": metadata})
    await websites.apply()
    async with websites.operating():
        await refused.wait()
        await websites.sandbox.delete("configmaps", "child", namespace="ns1")
        await websites.wait(websites.kind, "web", check=has_condition("done"))


async def test_h2_kinds_come_back_with_another_scope(websites: Any) -> None:
    """The children are cluster-scoped at first, then in the namespaces of their owners."""
    definition, name = make_crd("gadgets", "Gadget"), "gadgets.example.com"

    @websites.reconcile(id="fn", owns=["gadgets"])
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "gadget"}}
        conditions.set("Ready", True, message=spec["x"])

    await websites.sandbox.apply(definition | {"spec": definition["spec"] | {"scope": "Cluster"}})
    await websites.apply(x="1")
    async with websites.operating():
        await websites.wait("gadgets", "gadget", namespace=None)
        await websites.sandbox.delete("crd", name)
        await websites.wait("crd", name, namespace=None, gone=True)
        await websites.sandbox.apply(definition)
        await websites.sandbox.journal.wait("PATCH", "*/namespaces/ns1/gadgets/gadget")
        since = websites.now
        await websites.patch(x="2")
        await websites.wait(websites.kind, "web", check=has_condition("2"))
    assert "PATCH gadget" not in websites.writes(since)


async def test_h2_kinds_listed_amid_the_pass_that_misses_them_are_not_waited_for(
    websites: Any, wait_for_line: Any
) -> None:
    """The pass has not failed yet when it is told that they are there."""
    missed, gate = asyncio.Event(), asyncio.Event()
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "gadget"}}
    definition = make_crd("gadgets", "Gadget")

    @websites.reconcile(id="fn", owns=["gadgets"])
    async def fn(**_: Any) -> AsyncIterator[Any]:
        try:
            yield gadget
        except kopf.TemporaryError:
            missed.set()
            await gate.wait()
            raise

    await websites.apply()
    async with websites.operating():
        await missed.wait()
        await websites.sandbox.apply(definition)
        await websites.sandbox.journal.wait("GET", "*/gadgets", count=2)
        gate.set()
        await websites.wait("gadgets", "gadget")
