"""Several operators with one lease on the local API: one acts at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import kopf
from kopf_kits.sandbox import Sandbox

EXAMPLES = Path(__file__).parents[3] / "examples"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases*"


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        await sandbox.apply(EXAMPLES / "crd.yaml")
        yield sandbox


class Replica:
    """One of the operators: what it has handled, and how it is stopped."""

    def __init__(
        self,
        sandbox: Sandbox,
        name: str,
        clock: kopf.testing.FakeClock | None = None,
        **leasing: Any,
    ) -> None:
        self.name = name
        self.clock = clock
        self.stop = asyncio.Event()
        self.led = asyncio.Event()
        self.lost = asyncio.Event()
        self.handled: list[str] = []
        self.registry = kopf.OperatorRegistry()
        self.settings = kopf.OperatorSettings()
        self.settings.leasing.name = "the-lease"
        self.settings.leasing.retry_period = 0.05
        self.settings.leasing.renew_deadline = 10
        for key, value in leasing.items():
            setattr(self.settings.leasing, key, value)
        self._declare(sandbox)

    def _declare(self, sandbox: Sandbox) -> None:
        registry = self.registry

        @kopf.on.login(registry=registry)
        def login(**_: Any) -> Any:
            return kopf.ConnectionInfo(server=sandbox.url, default_namespace="default")

        @kopf.on.leading(registry=registry)
        async def leading(**_: Any) -> None:
            self.led.set()
            self.lost.clear()

        @kopf.on.following(registry=registry)
        async def following(**_: Any) -> None:
            self.lost.set()
            self.led.clear()

        @kopf.on.create("kopfexamples", id="fn", registry=registry)
        async def fn(name: str, **_: Any) -> str:
            self.handled.append(name)
            return self.name

    async def run(self) -> None:
        await kopf.operator(
            registry=self.registry,
            settings=self.settings,
            clusterwide=True,
            stop_flag=self.stop,
            clock=self.clock,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Replica"]:
        task = asyncio.create_task(self.run())
        try:
            yield self
        finally:
            self.stop.set()
            await task


def example(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": metadata, "spec": {}}


async def handled_by(sandbox: Sandbox, name: str) -> Any:
    obj = await sandbox.wait("kopfexamples", name, jsonpath="status.fn")
    assert obj is not None
    return obj["status"]["fn"]


async def test_only_the_leader_acts_and_the_next_one_goes_on_at_once(sandbox: Sandbox) -> None:
    async with Replica(sandbox, "one").running() as one:
        await one.led.wait()
        async with Replica(sandbox, "two").running() as two:
            await sandbox.journal.wait("GET", "*/kopfexamples", count=4)  # lists and watches
            await sandbox.apply(example("first"))
            assert await handled_by(sandbox, "first") == "one"
            lease = await sandbox.get("leases", "the-lease")
            one.stop.set()
            await two.led.wait()
            since = sandbox.journal[-1].number
            await sandbox.apply(example("second"))
            assert await handled_by(sandbox, "second") == "two"
            assert sandbox.journal.select("GET", "*/kopfexamples", since=since) == []
    assert (one.handled, two.handled) == (["first"], ["second"])
    final = await sandbox.get("leases", "the-lease")
    assert lease["spec"]["leaseTransitions"] == 0
    assert final["spec"]["leaseTransitions"] == 1
    assert final["spec"]["holderIdentity"] == ""


async def test_what_comes_while_nobody_leads_is_handled_by_the_next_one(sandbox: Sandbox) -> None:
    held = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "the-lease", "namespace": "default"},
        "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 1, "leaseTransitions": 7},
    }
    await sandbox.apply(held)
    await sandbox.apply(example("before"))
    async with Replica(sandbox, "one").running() as one:
        await sandbox.journal.wait("GET", "*/kopfexamples", count=2)
        await sandbox.apply(example("meanwhile"))
        assert await handled_by(sandbox, "before") == "one"
        assert await handled_by(sandbox, "meanwhile") == "one"
    assert sorted(one.handled) == ["before", "meanwhile"]


async def test_a_leader_that_cannot_renew_sends_nothing_and_follows(sandbox: Sandbox) -> None:
    leasing = {"duration": 2, "renew_deadline": 0.5}
    async with Replica(sandbox, "one", **leasing).running() as one:
        await one.led.wait()
        sandbox.faults.fail(500, path=LEASE)
        await one.lost.wait()
        since = sandbox.journal[-1].number
        await sandbox.apply(example("first"))
        sandbox.faults.clear()
        assert await handled_by(sandbox, "first") == "one"  # it leads again: nobody else does
        writes = [e for e in sandbox.journal if e.number > since and e.method != "GET"]
        assert "leases" in writes[0].path
    assert one.handled == ["first"]


async def test_exit_on_loss(sandbox: Sandbox) -> None:
    replica = Replica(sandbox, "one", duration=2, renew_deadline=0.5, exit_on_loss=True)
    operator = asyncio.create_task(replica.run())
    await replica.led.wait()
    sandbox.faults.fail(500, path=LEASE)
    with pytest.raises(Exception, match="The lease default/the-lease is lost"):
        await operator


async def test_peering_and_leases_exclude_each_other(sandbox: Sandbox) -> None:
    replica = Replica(sandbox, "one")
    replica.settings.peering.mandatory = True
    with pytest.raises(Exception, match="Use either peering or leases, not both"):
        await replica.run()


async def test_i_elections_can_be_tested_with_the_time_under_control(sandbox: Sandbox) -> None:
    clock = kopf.testing.FakeClock()
    async with Replica(sandbox, "one", clock=clock).running() as one:
        await one.led.wait()
        async with Replica(sandbox, "two", clock=clock).running() as two:
            await sandbox.journal.wait("GET", "*/leases/the-lease", count=3)  # two by the follower
            lease = await sandbox.get("leases", "the-lease")
            holder = lease["spec"]["holderIdentity"].encode()
            sandbox.faults.fail(500, match=lambda call: holder in call.body)  # it cannot renew it
            clock.advance(9)
            assert not one.lost.is_set()
            clock.advance(1)
            await one.lost.wait()
            assert not two.led.is_set()
            clock.advance(5)
            await two.led.wait()
