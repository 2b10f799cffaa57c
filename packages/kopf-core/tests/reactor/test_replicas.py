"""Several operators that share the objects by Leases."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from idleness import until

from kopf_cogs.clients.errors import APINotFoundError
from kopf_core.engines.sharding.assignment_records import parse_assignment
from kopf_core.engines.sharding.hashing import SHARDS
from kopf_core.intents import decorators as on
from kopf_core.reactor.life.exiting import AbandonedError

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
COMMON = f"{LEASES}/op"


@pytest.fixture(autouse=True)
def _sharding(settings):
    settings.sharding.name, settings.sharding.namespace = "op", "default"
    settings.sharding.retry_period = 0.01
    settings.queueing.exit_timeout = 999


@pytest.fixture
def member(operate):
    """One of the replicas; it is there when it has any shards."""

    @contextlib.asynccontextmanager
    async def member(**kwargs: Any) -> AsyncIterator[Any]:
        async with operate(**kwargs) as operator:
            await until(lambda: get_shards(operator))
            yield operator

    return member


def get_shards(operator: Any) -> frozenset[int]:
    share = operator.essentials.share
    return frozenset() if share is None else share.shards


async def list_memberships(cluster: Any) -> dict[str, Any]:
    found = await cluster.client.get(LEASES, params={"labelSelector": "kopf.dev/members-of=op"})
    leases = {one["metadata"]["name"]: one for one in found["items"]}
    assert leases.keys() >= {"op"}  # the common one
    return {name: lease for name, lease in leases.items() if name != "op"}


async def get_owners(cluster: Any) -> set[str | None]:
    lease = await cluster.client.get(COMMON)
    assignment = parse_assignment(lease["metadata"]["annotations"]["kopf.dev/assignment"])
    assert assignment is not None
    return {shard.owner for shard in assignment.shards}


async def test_o_one_replica_handles_everything(cluster, member, registry, journal):
    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    async with member() as operator:
        assert len(get_shards(operator)) == SHARDS
        await cluster.create("one")
        await journal.until(lambda j: "one" in j)
        [lease] = await list_memberships(cluster)
        assert await get_owners(cluster) == {lease.removeprefix("op-")}
    [lease] = (await list_memberships(cluster)).values()
    common = await cluster.client.get(COMMON)
    assert (lease["spec"]["holderIdentity"], common["spec"]["holderIdentity"]) == ("", "")


async def test_o_replicas_have_equal_parts_that_move_at_exits(cluster, member):
    async with member() as one:
        async with member() as two:
            await until(lambda: len(get_shards(one)) == len(get_shards(two)) == SHARDS // 2)
            assert not get_shards(one) & get_shards(two)
        await until(lambda: len(get_shards(one)) == SHARDS)
        await cluster.sandbox.journal.wait("DELETE", "*/leases/*")  # by the coordinator
        assert len(await list_memberships(cluster)) == 1


async def test_o_the_leases_leave_time_for_the_move_of_the_shards(cluster, member, settings):
    settings.sharding.duration, settings.sharding.renew_deadline = 30, 20
    async with member():
        common, [lease] = await cluster.client.get(COMMON), await list_memberships(cluster)
        lease = await cluster.client.get(f"{LEASES}/{lease}")
        terms = [one["spec"]["leaseDurationSeconds"] for one in (common, lease)]
        assert terms == [25, 25]


async def test_o_the_exiting_coordinator_gives_its_shards_away_itself(cluster, member):
    async with contextlib.AsyncExitStack() as stack, contextlib.AsyncExitStack() as others:
        one = await stack.enter_async_context(member())
        two = await others.enter_async_context(member())
        await until(lambda: len(get_shards(one)) == len(get_shards(two)) == SHARDS // 2)
        await stack.aclose()
        owners = await get_owners(cluster)
        living = {
            name.removeprefix("op-")
            for name, lease in (await list_memberships(cluster)).items()
            if lease["spec"]["holderIdentity"]
        }
        assert owners == living


async def test_o_daemons_are_stopped_when_the_membership_is_lost(
    cluster, member, registry, journal, clock
):
    @on.daemon("kopfexamples", registry=registry)
    async def daemon(stopped: Any, **_: Any) -> None:
        journal("begins")
        try:
            await stopped.wait()
        finally:
            journal("ends")

    await cluster.create("one")
    async with member(clock=clock):
        await journal.until(lambda j: j)
        [lost] = await list_memberships(cluster)
        clock.advance(10)
        await journal.until(lambda j: j[:2] == ["begins", "ends"])
        await asyncio.sleep(0)
        assert len(journal) == 2  # another member can begin only when this one is surely dead
        clock.advance(5)
        await journal.until(lambda j: j[2:] == ["begins"])
        assert lost not in [f"op-{owner}" for owner in await get_owners(cluster)]


async def test_o_a_deleted_assignment_stops_everybody_before_another_one(
    cluster, member, registry, journal, clock
):
    @on.daemon("kopfexamples", registry=registry)
    async def daemon(stopped: Any, **_: Any) -> None:
        journal("begins")
        try:
            await stopped.wait()
        finally:
            journal("ends")

    await cluster.create("one")
    async with member(clock=clock) as operator:
        await journal.until(lambda j: j)
        with contextlib.suppress(APINotFoundError):
            await cluster.client.delete(COMMON)
        await journal.until(lambda j: "ends" in j)
        assert not get_shards(operator)
        await until(lambda: operator._replication.obstacle.startswith("its part"))
        clock.advance(15)
        await journal.until(lambda j: j == ["begins", "ends", "begins"])
        assert not operator._replication.obstacle


async def test_o_assignments_that_are_nested_too_deep_are_replaced(cluster, member, clock):
    """People and other tools can write anything there. It must not end all replicas."""
    async with member(clock=clock) as operator:
        junk = {"metadata": {"annotations": {"kopf.dev/assignment": "[" * 100_000}}}
        await cluster.sandbox.patch("leases", "op", junk)
        await until(lambda: not get_shards(operator))
        looks = len(cluster.sandbox.journal.select("GET", LEASES))
        await cluster.sandbox.journal.arrived("GET", LEASES, count=looks + 2)
        clock.advance(15)
        await until(lambda: len(get_shards(operator)) == SHARDS)


async def test_o_shards_are_not_given_away_while_threads_work(
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
    [lease] = (await list_memberships(cluster)).values()
    assert lease["spec"]["holderIdentity"] != ""
    assert [text for text in logged() if "The shards are not given away" in text]


async def test_o_the_leases_are_in_the_namespace_of_the_context(cluster, operate, settings):
    settings.sharding.namespace = None
    async with operate() as operator:
        await until(lambda: get_shards(operator))
        assert settings.sharding.namespace == "default"
        assert await list_memberships(cluster)
