"""What happens to the work of a leader when the lease is taken by others, and given back."""

import asyncio
import threading
from typing import Any

import pytest
from idleness import quiet, until

from kopf_cogs.clients.session import Client
from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_core.actions.lifecycles import all_at_once
from kopf_core.engines.background.spawned import SpawnedHandler
from kopf_core.engines.leasing.fences import Fence, FencedError
from kopf_core.intents import decorators as on
from kopf_core.reactor.life.exiting import AbandonedError

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LEASE = f"{LEASES}/op"
KEXES = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"


@pytest.fixture(autouse=True)
def _leasing(settings):
    settings.leasing.name, settings.leasing.namespace = "op", "default"
    settings.leasing.retry_period = 0.01
    settings.queueing.exit_timeout = 999


async def hand_over(cluster: Any, holder: str) -> None:
    """Write another holder, whatever happens to the lease meanwhile."""
    spec = {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 999, "renewTime": None}}
    await cluster.client.patch(LEASE, spec, content_type="application/merge-patch+json")


async def test_i_handlers_and_daemons_are_cancelled_when_the_lease_is_lost(
    cluster, operate, registry, journal, clock
):
    @on.create("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        journal("fn")
        try:
            await asyncio.Event().wait()
        finally:
            journal("fn is cancelled")

    @on.daemon("kopfexamples", registry=registry, cancellation_backoff=999)
    async def daemon(**_: Any) -> None:
        journal("daemon")
        try:
            await asyncio.Event().wait()
        finally:
            journal("daemon is cancelled")

    await cluster.create("one")
    async with operate(clock=clock):
        await journal.until(lambda j: {"fn", "daemon"} <= {*j})
        await hand_over(cluster, "other")
        await journal.until(lambda j: {"fn is cancelled", "daemon is cancelled"} <= {*j})


async def test_i_a_daemon_in_a_thread_is_never_doubled_by_a_lost_and_won_lease(
    cluster, operate, registry, journal, clock, settings
):
    settings.background.instant_exit_timeout = 0
    may_end = threading.Event()
    loop = asyncio.get_running_loop()
    count, most = 0, 0

    @on.following(registry=registry)
    async def following(**_: Any) -> None:
        journal("following")

    @on.create("kopfexamples", registry=registry)
    @on.resume("kopfexamples", registry=registry)
    async def resumed(**_: Any) -> None:
        journal("resumed")

    @on.daemon("kopfexamples", registry=registry)
    def daemon(stopped: Any, **_: Any) -> None:
        nonlocal count, most
        count, most = count + 1, max(most, count + 1)
        loop.call_soon_threadsafe(journal, "daemon")
        may_end.wait()
        stopped.wait()
        count -= 1

    await cluster.create("one")
    async with operate(clock=clock):
        await journal.until(lambda j: {"daemon", "resumed"} <= {*j})
        await hand_over(cluster, "other")
        await journal.until(lambda j: "following" in j)
        await hand_over(cluster, "")
        await journal.until(lambda j: j.count("resumed") == 2)
        assert journal.count("daemon") == 1
        may_end.set()
        await journal.until(lambda j: j.count("daemon") == 2)
    assert most == 1


async def test_i_the_lease_is_in_the_namespace_of_the_context(cluster, operate, registry, settings):
    settings.leasing.namespace = None
    led = asyncio.Event()

    @on.login(registry=registry)
    async def login(**_: Any) -> ConnectionInfo:
        return ConnectionInfo(server=cluster.sandbox.url, default_namespace="mine")

    @on.leading(registry=registry)
    async def leading(**_: Any) -> None:
        led.set()

    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}
    await cluster.client.post("/api/v1/namespaces", namespace)
    async with operate(vault=Vault()):
        await led.wait()
        lease = await cluster.client.get(LEASE.replace("default", "mine"))
    assert lease["spec"]["leaseTransitions"] == 0


async def test_i_the_lease_is_not_released_while_threads_work(
    cluster, operate, registry, settings, journal, logged
):
    settings.process.ultimate_exiting_timeout = 0.1
    may_end = threading.Event()
    loop = asyncio.get_running_loop()

    @on.create("kopfexamples", registry=registry)
    def fn(**_: Any) -> None:
        loop.call_soon_threadsafe(journal, "called")
        may_end.wait()

    await cluster.create("one")
    try:
        with pytest.raises(AbandonedError):
            async with operate():
                await journal.until(lambda j: j)
    finally:
        may_end.set()
    lease = await cluster.client.get(LEASE)
    assert lease["spec"]["holderIdentity"] != ""
    assert any("The lease is not released" in text for text in logged())


async def test_i_nothing_is_begun_by_a_process_that_was_suspended_for_too_long(
    cluster, operate, registry, settings, journal, clock
):
    settings.leasing.retry_period = 5  # it does not know yet that the lease is lost

    @on.create("kopfexamples", registry=registry)
    @on.event("kopfexamples", registry=registry)
    @on.daemon("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    @on.index("kopfexamples", id="index", registry=registry)
    async def index(name: str, **_: Any) -> dict[str, str]:
        return {name: name}

    await cluster.create("one")
    async with operate(clock=clock) as operator:
        await journal.until(lambda j: j.count("one") >= 3)
        clock.advance(100)
        await cluster.create("two")
        await until(lambda: "two" in operator.essentials.indices["index"])
        for _ in range(100):
            await asyncio.sleep(0)
        assert operator.handling.orchestrator.is_idle
    assert "two" not in journal


async def test_i_nothing_is_begun_if_the_process_was_suspended_while_looking_at_the_object(
    cluster, operate, registry, settings, journal, clock
):
    settings.leasing.retry_period = 5  # it does not know yet that the lease is lost

    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    await cluster.create("one")
    cluster.sandbox.faults.hang(method="GET", path="*/kopfexamples/one")
    async with operate(clock=clock) as operator:
        await cluster.sandbox.journal.arrived("GET", "*/kopfexamples/one")
        assert not operator.handling.orchestrator.is_idle
        clock.advance(100)
        cluster.sandbox.faults.clear()
        await until(lambda: operator.handling.orchestrator.is_idle)
    assert not journal


async def until_idle(operator: Any) -> None:
    await until(lambda: operator.handling.orchestrator.is_idle)


@pytest.mark.parametrize("decorator", [on.create, on.event, on.timer, on.daemon, on.reconcile])
async def test_k12_a_suspended_leader_begins_nothing_that_waits_for_a_thread(
    cluster, operate, registry, settings, journal, clock, decorator
):
    settings.leasing.retry_period = 5  # it does not know yet that the lease is lost
    settings.execution.max_workers = 1
    release, loop = threading.Event(), asyncio.get_running_loop()

    @on.create("kopfexamples", registry=registry, labels={"long": "yes"})
    def long(**_: Any) -> None:
        loop.call_soon_threadsafe(journal, "long")
        release.wait()

    def fn(**_: Any) -> Any:
        loop.call_soon_threadsafe(journal, "fn")
        yield from ()

    options = {"interval": 999} if decorator is on.timer else {}
    function = fn if decorator is on.reconcile else lambda **_: [*fn()] and None
    decorator("kopfexamples", id="fn", registry=registry, labels={"long": "no"}, **options)(
        function
    )
    kind = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample"}
    try:
        async with operate(clock=clock) as operator:
            meta = {"name": "one", "labels": {"long": "yes"}}
            await cluster.client.post(KEXES, {**kind, "metadata": meta})
            await journal.until(lambda j: "long" in j)
            meta = {"name": "two", "labels": {"long": "no"}}
            await cluster.client.post(KEXES, {**kind, "metadata": meta})
            await until(lambda: len(operator.essentials.execution.door) >= 2)
            clock.advance(100)
            release.set()
            await until_idle(operator)
            await until(lambda: not len(operator.essentials.execution.door))
    finally:
        release.set()
    assert journal == ["long"]


async def test_k12_a_suspended_leader_begins_no_next_handlers_of_an_object(
    cluster, operate, registry, settings, journal, clock
):
    settings.leasing.retry_period = 5  # it does not know yet that the lease is lost
    resumed = asyncio.Event()

    @on.create("kopfexamples", registry=registry)
    async def first(**_: Any) -> None:
        journal("first")
        await resumed.wait()

    @on.create("kopfexamples", registry=registry)
    async def second(**_: Any) -> None:
        journal("second")

    await cluster.create("one")
    async with operate(clock=clock, lifecycle=all_at_once) as operator:
        await journal.until(lambda j: j)
        clock.advance(100)
        resumed.set()
        await until_idle(operator)
    assert journal == ["first"]


async def test_k2_no_daemons_are_started_for_what_was_deleted_while_others_led(
    cluster, operate, registry, journal, clock
):
    @on.following(registry=registry)
    async def following(**_: Any) -> None:
        journal("following")

    @on.daemon("kopfexamples", registry=registry)
    async def daemon(name: str, stopped: Any, **_: Any) -> None:
        journal(name)
        await stopped.wait()

    await cluster.create("one")
    await cluster.create("two")
    async with operate(clock=clock) as operator:
        await journal.until(lambda j: {"one", "two"} <= {*j})
        await hand_over(cluster, "other")
        await journal.until(lambda j: "following" in j)
        await cluster.client.patch(
            f"{KEXES}/one",
            {"metadata": {"finalizers": None}},
            content_type="application/merge-patch+json",
        )
        await cluster.delete("one")
        informers = operator.handling.pool.informers
        await until(lambda: all(i.count == 1 for i in informers.values()))
        await hand_over(cluster, "")
        await journal.until(lambda j: j.count("two") == 2)
        await until_idle(operator)
        assert {b.body.metadata.name for b in operator.handling.background.objects} == {"two"}
    assert journal.count("one") == 1


@pytest.mark.parametrize("ends_first", [True, False], ids=["ended", "lingers"])
async def test_sim17_followers_forget_deleted_objects_whose_daemons_outlived_the_lease(
    cluster, operate, registry, settings, journal, clock, ends_first
):
    settings.background.instant_exit_timeout = 0
    may_end = asyncio.Event()

    @on.following(registry=registry)
    async def following(**_: Any) -> None:
        journal("following")

    @on.daemon("kopfexamples", registry=registry)
    async def daemon(**_: Any) -> None:
        journal("daemon")
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                pass

    await cluster.create("one")
    async with operate(clock=clock) as operator:
        await journal.until(lambda j: "daemon" in j)
        background = operator.handling.background
        await hand_over(cluster, "other")
        await journal.until(lambda j: "following" in j)
        if ends_first:
            may_end.set()
            await until(lambda: not background.objects)
        await cluster.client.patch(
            f"{KEXES}/one",
            {"metadata": {"finalizers": None}},
            content_type="application/merge-patch+json",
        )
        await cluster.delete("one")
        informers = operator.handling.pool.informers
        await until(lambda: all(i.is_listed and not i.count for i in informers.values()))
        may_end.set()
        await until(lambda: not background.objects)
        (intake,) = operator.handling.orchestrator.intakes.values()
        assert (len(operator.essentials.memories), len(intake.queue)) == (0, 0)
        assert not background._objects


async def test_sim15_daemons_are_stopped_by_deletions_before_the_first_patch_of_the_leader(
    cluster, operate, registry, settings, journal, clock
):
    @on.daemon("kopfexamples", registry=registry)
    async def daemon(stopped: Any, **_: Any) -> None:
        journal("daemon")
        await stopped.wait()
        journal("stopped")

    async def change(**metadata: Any) -> None:
        body, content_type = {"metadata": metadata}, "application/merge-patch+json"
        await cluster.client.patch(f"{KEXES}/one", body, content_type=content_type)

    await cluster.create("one")
    await change(finalizers=[settings.persistence.finalizer])
    async with operate(clock=clock) as operator:
        await journal.until(lambda j: "daemon" in j)
        with cluster.sandbox.faults.hold():
            await change(finalizers=None)
            await cluster.delete("one")
        await journal.until(lambda j: "stopped" in j)
        await until(lambda: not operator.handling.background.objects)
    assert journal == ["daemon", "stopped"]


async def test_i_timers_do_not_tick_in_a_process_that_was_suspended_for_too_long(
    cluster, operate, registry, settings, journal, clock, monkeypatch
):
    settings.leasing.retry_period = 5  # it does not know yet that the lease is lost
    launch, launches = SpawnedHandler._launch, []

    def count(self: SpawnedHandler) -> None:
        launches.append(self)
        launch(self)

    monkeypatch.setattr(SpawnedHandler, "_launch", count)

    @on.timer("kopfexamples", registry=registry, interval=0.001)
    async def fn(**_: Any) -> None:
        journal("tick")

    await cluster.create("one")
    async with operate(clock=clock):
        await journal.until(lambda j: len(j) >= 3)
        clock.advance(100)
        ticks, before = len(journal), len(launches)
        await until(lambda: len(launches) > before)  # it is its time
        await quiet()
        assert len(journal) == ticks


async def test_i_objects_are_looked_at_again_when_the_lease_is_won_again(
    cluster, operate, registry, journal, clock
):
    @on.following(registry=registry)
    async def following(**_: Any) -> None:
        journal("following")

    @on.create("kopfexamples", registry=registry)
    @on.resume("kopfexamples", registry=registry)
    async def fn(spec: Any, **_: Any) -> None:
        journal(spec["n"])

    await cluster.create("one", n=0)
    async with operate(clock=clock):
        await journal.until(lambda j: 0 in j)
        requests = cluster.sandbox.journal
        lists = [entry for entry in requests.select("GET", "*/kopfexamples") if not entry.watch]
        await requests.wait("PATCH", "*/kopfexamples/one")
        await hand_over(cluster, "other")
        await journal.until(lambda j: "following" in j)
        await requests.wait("GET", "*/kopfexamples", count=len(lists) * 2 + 2)
        cluster.sandbox.faults.hold()
        await cluster.patch("one", n=1)
        await hand_over(cluster, "")
        await journal.until(lambda j: len(j) == 3)
    assert journal == [0, "following", 1]


async def test_i_who_this_operator_is_can_be_found_in_the_log_and_in_the_lease(
    cluster, operate, registry, logged
):
    led = asyncio.Event()

    @on.leading(registry=registry)
    async def leading(**_: Any) -> None:
        led.set()

    async with operate(identity="the-same"):  # of peering: it can be the same for all replicas
        await led.wait()
        holder = (await cluster.client.get(LEASE))["spec"]["holderIdentity"]
    assert f"This operator is {holder!r} in the election by the lease default/op." in logged()
    assert holder != "the-same"


async def test_l_a_leader_whose_lease_has_lapsed_sends_no_patches(cluster, clock):
    """It was suspended, or its loop was blocked: it does not know yet that others can lead."""
    await cluster.create("a", n=0)
    async with Client(ConnectionInfo(server=cluster.sandbox.url)) as client:
        fence = client.fence = Fence(clock)
        fence.extend(clock.monotonic() + 10)
        patch = {"spec": {"n": 1}}
        await client.patch(f"{KEXES}/a", patch, content_type="application/merge-patch+json")
        clock.advance(10)
        patch = {"spec": {"n": 2}}
        with pytest.raises(FencedError):
            await client.patch(f"{KEXES}/a", patch, content_type="application/merge-patch+json")
        assert (await client.get(f"{KEXES}/a"))["spec"] == {"n": 1}
