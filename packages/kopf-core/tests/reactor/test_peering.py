"""Operators that see each other: which of them work, over a local API server."""

import asyncio
import contextlib
import datetime
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from idleness import quiet, until

from kopf_cogs.aiokits.clocks import Clock, FakeClock, SystemClock
from kopf_cogs.clients.retries import Backoff
from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_core.engines.peering import member as timing
from kopf_core.engines.peering import peering_engine
from kopf_core.engines.peering.member import Member
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.life.operator import Operator, OperatorOptions

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
PATIENCE = 90.0


def make_definition(kind: str, group: str = "kopf.dev", **version: Any) -> dict[str, Any]:
    plural = f"{kind}s".lower()
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": loose}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster" if kind.startswith("Cluster") else "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": schema, **version}
            ],
        },
    }


class Peering:
    """The peering objects, as others see them."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.url = self.kind = self.api_version = self.subresource = ""

    async def define(self, kind: str, group: str = "kopf.dev", **version: Any) -> None:
        await self.cluster.client.post(CRDS, make_definition(kind, group, **version))
        self.kind, self.api_version = kind, f"{group}/v1"
        self.url = f"/apis/{group}/v1/{kind}s".lower()

    async def create(self, name: str = "default", namespace: str | None = None) -> None:
        url = self._locate(namespace)
        body = {"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": name}}
        await self.cluster.client.post(url, body)

    async def write(
        self, records: Any, name: str = "default", namespace: str | None = None
    ) -> None:
        url = f"{self._locate(namespace)}/{name}{self.subresource}"
        await self.cluster.client.patch(url, {"status": records}, content_type=MERGE)

    async def read(self, name: str = "default", namespace: str | None = None) -> dict[str, Any]:
        body = await self.cluster.client.get(f"{self._locate(namespace)}/{name}")
        return body.get("status") or {}

    async def has(self, identity: str, expected: bool = True) -> bool:
        return (identity in await self.read()) is expected

    def _locate(self, namespace: str | None) -> str:
        if namespace is None:
            return self.url
        root, _, plural = self.url.rpartition("/")
        return f"{root}/namespaces/{namespace}/{plural}"


class One:
    """One of the operators, with what it has handled."""

    def __init__(self, operator: Operator, journal: Any) -> None:
        self.operator = operator
        self.journal = journal

    async def until_paused(self, expected: bool = True) -> None:
        await until(lambda: self.operator.is_paused is expected)

    async def until_handled(self, *items: Any) -> None:
        await self.journal.until(lambda calls: {*items} <= {*calls})


def _make_namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def make_record(priority: int, **fields: Any) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC).isoformat()
    return {"priority": priority, "lifetime": 60, "lastseen": now} | fields


def make_settings(**peering: Any) -> OperatorSettings:
    settings = OperatorSettings()
    settings.posting.enabled = False
    settings.queueing.exit_timeout = 0.1
    settings.networking.error_backoffs = [0.05]
    for name, value in peering.items():
        setattr(settings.peering, name, value)
    return settings


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "TICK", 0.02)
    monkeypatch.setattr(timing, "RETRY", 0.02)
    monkeypatch.setattr(timing, "MAX_RETRY", 0.1)
    monkeypatch.setattr(timing, "RESTART", 0.02)
    monkeypatch.setattr(peering_engine, "HANDOVER_RESERVE", 0.0)


@pytest.fixture
def next_tick(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Awaitable[None]]:
    """Wait until the time is looked at, and what follows from that is over."""
    reassess, ticks = Member.reassess, list[Member]()

    def count(member: Member) -> None:
        reassess(member)
        ticks.append(member)

    monkeypatch.setattr(Member, "reassess", count)

    async def wait() -> None:
        before = len(ticks)
        await until(lambda: len(ticks) > before)
        await quiet()

    return wait


@pytest.fixture
async def peering(cluster: Any) -> Peering:
    peering = Peering(cluster)
    await peering.define("ClusterKopfPeering")
    return peering


@pytest.fixture
def launch(cluster: Any, journal: Any) -> Callable[..., Any]:
    """Run an operator with a name: it puts it into the journal, with the names of objects."""

    @contextlib.asynccontextmanager
    async def launch(
        identity: str = "op",
        *,
        clock: Clock | None = None,
        registry: OperatorRegistry | None = None,
        namespaces: list[str] | None = None,
        **peering: Any,
    ) -> AsyncIterator[One]:
        calls = type(journal)()
        registry = OperatorRegistry() if registry is None else registry

        @on.event("kopfexamples", registry=registry)
        async def event(name: str, type: Any, **_: Any) -> None:
            calls("-" + name if type == "DELETED" else name)

        ready = asyncio.Event()
        operator = Operator(
            OperatorOptions(
                ready_flag=ready,
                registry=registry,
                settings=make_settings(**peering),
                vault=Vault({secrets.token_hex(4): ConnectionInfo(server=cluster.sandbox.url)}),
                identity=identity,
                clusterwide=not namespaces,
                namespaces=namespaces or (),
                clock=clock or SystemClock(),
            )
        )
        task = asyncio.create_task(operator.run())
        await ready.wait()
        try:
            yield One(operator, calls)
        finally:
            operator.stop()
            async with asyncio.timeout(PATIENCE):
                await task

    return launch


# Whether there is a peering at all.


async def test_operators_are_alone_without_the_kind(cluster, launch):
    await cluster.create("a")
    async with launch() as one:
        await one.until_handled("a")


async def test_operators_are_alone_without_the_object(cluster, peering, launch):
    await cluster.create("a")
    async with launch() as one:
        await one.until_handled("a")


async def test_the_object_is_noticed_when_it_comes(peering, launch):
    async with launch() as one:
        await one.until_paused(False)
        await peering.create()
        await peering.write({"other": make_record(1)})
        await one.until_paused()


async def test_the_kind_is_noticed_when_it_comes(cluster, launch):
    async with launch() as one:
        await one.until_paused(False)
        peering = Peering(cluster)
        await peering.define("ClusterKopfPeering")
        await peering.create()
        await peering.write({"other": make_record(1)})
        await one.until_paused()


@pytest.mark.parametrize("kind", [True, False], ids=["with-kind", "without-kind"])
async def test_mandatory_peerings_are_waited_for(cluster, launch, logged, kind):
    await cluster.create("a")
    peering = Peering(cluster)
    if kind:
        await peering.define("ClusterKopfPeering")
    async with launch(mandatory=True) as one:
        await until(lambda: any("is mandatory" in text for text in logged(logging.WARNING)))
        assert one.operator.is_paused
        assert not one.journal
        if not kind:
            await peering.define("ClusterKopfPeering")
        await peering.create()
        await one.until_handled("a")
    resumed = [text for text in logged(logging.INFO) if text.startswith("Resuming operations")]
    assert resumed == ["Resuming operations after the pause: the peering exists."]


async def test_custom_names_are_other_peerings(cluster, peering, launch):
    await cluster.create("a")
    for name in ("default", "custom"):
        await peering.create(name)
    await peering.write({"other": make_record(1)}, "default")
    async with launch("first") as first, launch("second", name="custom") as second:
        await first.until_paused()
        await second.until_handled("a")
        assert not first.journal


async def test_standalone_operators_ignore_everybody(cluster, peering, launch):
    await cluster.create("a")
    await peering.create()
    await peering.write({"other": make_record(1)})
    async with launch(standalone=True) as one:
        await one.until_handled("a")
        assert (await peering.read()).keys() == {"other"}


@pytest.mark.parametrize("group", ["kopf.dev", "zalando.org"])
@pytest.mark.parametrize("version", [{}, {"subresources": {"status": {}}}], ids=["plain", "status"])
async def test_records_are_there_while_the_operator_runs(cluster, launch, group, version):
    peering = Peering(cluster)
    await peering.define("ClusterKopfPeering", group, **version)
    await peering.create()
    async with launch(priority=7, lifetime=30) as one:
        await one.until_paused(False)
        record = (await peering.read())["op"]
        assert record.keys() == {"priority", "lifetime", "lastseen"}
        assert (record["priority"], record["lifetime"]) == (7, 30)
        assert datetime.datetime.fromisoformat(record["lastseen"]).tzinfo is not None
    assert await peering.read() == {}


@pytest.mark.parametrize("stealth", [False, True])
async def test_stealth_keep_alives_are_sent_but_not_logged(peering, launch, logged, stealth):
    await peering.create()
    async with launch(stealth=stealth) as one:
        await one.until_paused(False)
        await until(lambda: peering.has("op"))
    assert await peering.read() == {}
    assert any("Keep-alive in" in message for message in logged()) is not stealth


async def test_namespaced_operators_have_peerings_in_each_namespace(cluster, launch):
    peering = Peering(cluster)
    await peering.define("KopfPeering")
    for namespace in ("ns1", "ns2"):
        await cluster.client.post("/api/v1/namespaces", _make_namespace(namespace))
        await peering.create(namespace=namespace)
    async with launch(namespaces=["ns1", "ns2", "default"]) as one:
        await one.until_paused(False)
        assert "op" in await peering.read(namespace="ns1")
        assert "op" in await peering.read(namespace="ns2")
        await peering.write({"other": make_record(1)}, namespace="ns2")
        await one.until_paused()
        await peering.write({"other": None}, namespace="ns2")
        await one.until_paused(False)
    assert await peering.read(namespace="ns1") == await peering.read(namespace="ns2") == {}


# Who works.


async def test_f10_switching_over_by_priority_misses_nothing(cluster, peering, launch):
    await peering.create()
    await cluster.create("a")
    await cluster.create("b")
    async with launch("low") as low:
        await low.until_handled("a", "b")
        async with launch("high", priority=5) as high:
            await high.until_handled("a", "b")
            assert low.operator.is_paused
            count = len(low.journal)
            await cluster.delete("a")
            await cluster.create("c")
            await high.until_handled("-a", "c")
            assert len(low.journal) == count
        await low.until_handled("-a", "c")


async def test_f10_nothing_ticks_in_pauses(cluster, peering, launch, journal):
    registry = OperatorRegistry()

    @on.daemon("kopfexamples", registry=registry)
    async def daemon(stopped: Any, **_: Any) -> None:
        journal("spawned")
        await stopped.wait()
        journal("stopped")

    await peering.create()
    await cluster.create("a")
    async with launch(registry=registry) as one:
        await journal.until(lambda calls: "spawned" in calls)
        await peering.write({"other": make_record(1)})
        await journal.until(lambda calls: "stopped" in calls)
        await peering.write({"other": None})
        await journal.until(lambda calls: calls == ["spawned", "stopped", "spawned"])
        await one.until_paused(False)


async def test_equal_priorities_pause_everybody(peering, launch, logged):
    await peering.create()
    async with launch("one", priority=3) as one:
        await one.until_paused(False)
        async with launch("two", priority=3) as two:
            await one.until_paused()
            await two.until_paused()
            warnings = [text for text in logged(logging.WARNING) if "same priority" in text]
            assert any("one (priority 3)" in text for text in warnings)
            assert any("two (priority 3)" in text for text in warnings)
            assert all("--priority" in text for text in warnings)
        await one.until_paused(False)


async def test_same_identities_are_never_fought_over(peering, launch):
    await peering.create()
    await peering.write({"op": make_record(100)})
    async with launch() as one:
        await one.until_paused(False)
        await peering.write({"op": make_record(200)})
        assert not one.operator.is_paused


async def test_frozen_operators_say_why(peering, launch, logged):
    await peering.create()
    await peering.write({"me@laptop": make_record(100, message="migration")})
    async with launch() as one:
        await until(lambda: any("in favour of" in text for text in logged(logging.INFO)))
        assert one.operator.is_paused
        await peering.write({"me@laptop": None})
        await one.until_paused(False)
    assert logged(logging.INFO, "kopf._core.engines.peering") == [
        "Pausing operations in favour of me@laptop (priority 100: migration).",
        "No longer paused by me@laptop (priority 100: migration). "
        "Resuming soon: the other operators may still be finishing their work.",
        "Resuming operations after the pause: there are no rivals anymore.",
    ]


# Permissions.

DENIAL = 'User "me" cannot {} resource "clusterkopfpeerings" in API group "kopf.dev"'


async def test_k8_one_error_at_the_exit_does_not_leave_the_record(cluster, peering, launch):
    """Otherwise, the others wait until the record is too old."""
    await peering.create()
    async with launch("leaving"):
        await until(lambda: peering.has("leaving"))
        cluster.sandbox.faults.fail(503, method="PATCH", path="*peerings/default", times=1)
    assert "leaving" not in await peering.read()


async def test_b3_operators_are_alone_while_they_may_not_look(cluster, peering, launch, logged):
    await peering.create()
    await peering.write({"other": make_record(1)})
    fault = cluster.sandbox.faults.fail(403, path="*peerings", message=DENIAL.format("list"))
    await cluster.create("a")
    async with launch() as one:
        await one.until_handled("a")
        async with asyncio.timeout(PATIENCE):
            await cluster.sandbox.journal.wait("GET", "*peerings", count=3)
        fault.release()
        await one.until_paused()
    [warning] = [text for text in logged(logging.WARNING) if "cannot" in text]
    assert DENIAL.format("list") in warning
    assert "works as if there is no peering" in warning


async def test_b3_mandatory_peerings_are_waited_for_until_permitted(
    cluster, peering, launch, logged
):
    await peering.create()
    fault = cluster.sandbox.faults.fail(403, path="*peerings", message=DENIAL.format("list"))
    await cluster.create("a")
    async with launch(mandatory=True) as one:
        async with asyncio.timeout(PATIENCE):
            await cluster.sandbox.journal.wait("GET", "*peerings", count=3)
        assert one.operator.is_paused
        fault.release()
        await one.until_handled("a")
    [warning] = [text for text in logged(logging.WARNING) if "cannot" in text]
    assert "The operator waits, as the peering is mandatory" in warning


async def test_b3_those_who_cannot_be_watched_are_read_in_keep_alives(
    cluster, peering, launch, logged
):
    await peering.create()
    cluster.sandbox.faults.fail(403, path="*peerings", watch=True, message=DENIAL.format("watch"))
    await cluster.create("a")
    async with launch(lifetime=1) as one:
        await one.until_handled("a")
        await peering.write({"other": make_record(1)})
        await one.until_paused()
        await peering.write({"other": None})
        await one.until_paused(False)
    assert len([text for text in logged(logging.WARNING) if "cannot watch" in text]) == 1


async def test_b4_those_who_cannot_be_seen_do_not_work(cluster, peering, launch, logged):
    await peering.create()
    fault = cluster.sandbox.faults.fail(
        403, method="PATCH", path="*peerings/default", message=DENIAL.format("patch")
    )
    await cluster.create("a")
    async with launch() as one:
        async with asyncio.timeout(PATIENCE):
            await cluster.sandbox.journal.wait("PATCH", "*peerings/default", count=5)
        assert one.operator.is_paused
        fault.release()
        await one.until_handled("a")
    [warning] = [text for text in logged(logging.WARNING) if "cannot" in text]
    assert DENIAL.format("patch") in warning
    assert "handles nothing" in warning


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    delays: list[float] = []

    class Recorded(Backoff):
        def advance(self) -> float:
            delays.append(super().advance())
            return delays[-1]

    monkeypatch.setattr(timing, "Backoff", Recorded)
    return delays


async def test_o3_every_failing_keep_alive_is_followed_by_a_delay(cluster, peering, launch, delays):
    await peering.create()
    cluster.sandbox.faults.fail(503, method="PATCH", path="*peerings/default")
    async with launch() as one:
        async with asyncio.timeout(PATIENCE):
            await cluster.sandbox.journal.wait("PATCH", "*peerings/default", count=8)
        assert one.operator.is_paused
    requests = [r for r in cluster.sandbox.journal if r.method == "PATCH"]
    assert len(requests) <= len(delays) + 2  # one is in work, one is at the exit
    assert delays[2] > delays[0]


async def test_o3_records_that_are_not_kept_are_told_of_once(cluster, launch, delays, logged):
    strict = {"type": "object", "properties": {"spec": {"type": "object"}}}
    peering = Peering(cluster)
    await peering.define("ClusterKopfPeering", schema={"openAPIV3Schema": strict})
    await peering.create()
    async with launch() as one:
        async with asyncio.timeout(PATIENCE):
            await cluster.sandbox.journal.wait("PATCH", "*peerings/default", count=8)
        assert one.operator.is_paused
    requests = [r for r in cluster.sandbox.journal if r.method == "PATCH"]
    assert len(requests) <= len(delays) + 2  # one is in work, one is at the exit
    (message,) = logged(logging.WARNING, "kopf._core.engines.peering")
    assert "x-kubernetes-preserve-unknown-fields" in message


# F8: clocks, deaths, and junk.


@pytest.mark.parametrize("body", [b"null", b'{"kind": "Status", "metadata": {}}'])
async def test_a10_senseless_replies_to_keep_alives_end_nothing(
    cluster, peering, launch, logged, body
):
    await peering.create()
    await peering.write({"dead": make_record(0, lastseen="2020-01-01T00:00:00Z")})
    fault = cluster.sandbox.faults.fail(200, method="PATCH", path="*peerings/default", body=body)
    await cluster.create("a")
    async with launch() as one:
        async with asyncio.timeout(PATIENCE):
            await cluster.sandbox.journal.wait("PATCH", "*peerings/default", count=3)
        assert one.operator.is_paused
        fault.release()
        await one.until_handled("a")
    [warning] = [text for text in logged(logging.WARNING) if "Keep-alive" in text]
    assert warning.endswith("retrying: the response is not the peering object")


@pytest.mark.parametrize("number", [0, 1], ids=["probe", "list"])
async def test_a2_hanging_reads_do_not_keep_the_operator_paused(
    cluster, peering, launch, logged, number
):
    await peering.create()
    fault = cluster.sandbox.faults.hang(method="GET", path="*peerings", skip=number, times=1)
    await cluster.create("a")
    async with launch(lifetime=2) as one:
        await one.until_handled("a")
        fault.release()
    assert fault.hits == 1
    reason = ["the request has timed out", "there is no response in time"][number]
    text = f"The peering 'default' cluster-wide cannot be read, retrying: {reason}"
    assert text in logged(logging.WARNING)


async def test_f8_nothing_is_handled_until_the_peering_is_read(cluster, peering, launch, logged):
    await cluster.create("a")
    await peering.create()
    cluster.sandbox.faults.fail(500, path="*peerings", times=5)
    async with launch() as one:
        await one.until_handled("a")
    failed = [n for n, r in enumerate(cluster.sandbox.journal) if "peerings" in r.path]
    handled = [n for n, r in enumerate(cluster.sandbox.journal) if r.path.endswith("kopfexamples")]
    assert failed[5] < handled[-1]


async def test_f8_junk_is_reported_once(cluster, peering, launch, logged):
    await peering.create()
    junk = {"text": "x", "list": [1], "bad": {"lifetime": "x", "lastseen": "garbage"}}
    await peering.write({**junk, "other": make_record(-1)})
    async with launch() as one:
        await one.until_paused(False)
        await peering.write({"other": make_record(-2)})
        await peering.write({"other": make_record(1)})
        await one.until_paused()
    [warning] = [text for text in logged(logging.WARNING) if "Senseless" in text]
    assert "'bad', 'list', 'text'" in warning


@pytest.mark.parametrize("skew", [-300, 0, 300])
async def test_f8_dead_peers_are_outlived_and_removed(cluster, peering, launch, next_tick, skew):
    await cluster.create("a")
    await peering.create()
    clock = FakeClock()
    lastseen = clock.now() + datetime.timedelta(seconds=skew)
    await peering.write({"dead": make_record(5, lastseen=lastseen.isoformat())})
    async with launch(clock=clock) as one:
        await one.until_paused()
        await until(lambda: peering.has("op"))
        for _ in range(5):
            clock.advance(10)
            await next_tick()
            assert one.operator.is_paused
        clock.advance(15)
        await one.until_handled("a")
        await until(lambda: peering.has("dead", False))


async def test_f8_statuses_can_be_emptied(peering, launch):
    await peering.create()
    async with launch() as one:
        await one.until_paused(False)
        await peering.cluster.client.patch(
            f"{peering.url}/default", {"status": None}, content_type=MERGE
        )
        await until(lambda: peering.has("op"))
        await one.until_paused(False)


# F9, F11, D1: those who were out of touch.


async def test_f11_frozen_processes_check_peers_before_they_go_on(
    cluster, peering, launch, journal
):
    """Others could have taken over: what was begun is not ours anymore."""
    registry, clock = OperatorRegistry(), FakeClock()

    @on.create("kopfexamples", registry=registry)
    async def create(name: str, **_: Any) -> None:
        journal("begun")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            journal("cancelled")
            raise

    await peering.create()
    await cluster.create("a")
    async with launch(registry=registry, clock=clock) as one:
        await journal.until(lambda calls: calls == ["begun"])
        cluster.sandbox.faults.fail(503, path="*peerings/default*")
        clock.advance(600)
        await journal.until(lambda calls: calls[1:] == ["cancelled"])
        assert one.operator.is_paused
        cluster.sandbox.faults.clear()
        await journal.until(lambda calls: calls[2:] == ["begun"])


async def test_k12_frozen_processes_begin_nothing_before_they_check_peers(
    cluster, peering, launch, journal, monkeypatch
):
    """What the loop or a thread comes to first, must not be a handler."""
    registry, clock, reassess = OperatorRegistry(), FakeClock(), Member.reassess
    resumed, is_frozen = asyncio.Event(), False

    @on.create("kopfexamples", registry=registry)
    async def first(**_: Any) -> None:
        journal("first")
        await resumed.wait()

    @on.create("kopfexamples", registry=registry)
    def second(**_: Any) -> None:
        journal("second")

    monkeypatch.setattr(Member, "reassess", lambda self: is_frozen or reassess(self))
    await peering.create()
    await cluster.create("a")
    async with launch(registry=registry, clock=clock) as one:
        await journal.until(lambda calls: calls == ["first"])
        is_frozen = True
        clock.advance(600)
        resumed.set()
        await until(lambda: one.operator.handling.orchestrator.is_idle)
        assert journal == ["first"]
        is_frozen = False
        await journal.until(lambda calls: "second" in calls)
    assert journal == ["first", "second"]


async def test_f9_operators_that_cannot_write_step_down(
    cluster, peering, launch, next_tick, logged
):
    clock = FakeClock()
    await peering.create()
    async with launch(clock=clock) as one:
        await one.until_paused(False)
        cluster.sandbox.faults.fail(503, path="*peerings/default*")
        for _ in range(5):
            clock.advance(10)
            await next_tick()
            assert not one.operator.is_paused
        clock.advance(10)
        await one.until_paused()
        cluster.sandbox.faults.clear()
        await one.until_paused(False)
    assert [text for text in logged(logging.WARNING) if "was not renewed in time" in text]
