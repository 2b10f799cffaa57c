"""Operators that request only their parts of the objects, if the server can select them."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from idleness import until

from kopf_core.engines.sharding.hashing import SHARDS, find_shard, format_selector
from kopf_core.engines.sharding.shares import Order
from kopf_core.intents import decorators as on

ALL = frozenset(range(SHARDS))
HALF = frozenset(range(SHARDS // 2))
KEXES = "*/kopfexamples"
NAMES = [f"obj-{number}" for number in range(20)]


class Orders:
    """The assigner of the operator: the test gives orders, and waits until they are followed."""

    def __init__(self, shards: frozenset[int]) -> None:
        self._queue = asyncio.Queue[Order]()
        self._given = 0
        self.followed = 0
        self.is_first = True
        self.give(shards)

    def give(self, shards: frozenset[int]) -> None:
        self._given += 1
        self._queue.put_nowait(Order(self._given, shards))

    async def wait(self) -> Order:
        return await self._queue.get()

    def confirm(self, round: int) -> None:
        self.followed = round

    async def hear(self, accept: Any) -> None:
        """No other process tells of anything here."""

    async def until_followed(self) -> None:
        await until(lambda: self.followed == self._given)


@pytest.fixture(params=[True, False], ids=["selecting", "ignoring"])
def cluster_options(request: Any) -> dict[str, Any]:
    return {"sharded": request.param}


@pytest.fixture
async def uids(cluster: Any) -> dict[str, str]:
    return {name: (await cluster.create(name))["metadata"]["uid"] for name in NAMES}


@pytest.fixture
def calls(registry: Any) -> Counter[str]:
    calls = Counter[str]()

    @on.event("kopfexamples", registry=registry)
    async def fn(uid: str, **_: Any) -> None:
        calls[uid] += 1

    return calls


def get_requests(cluster: Any) -> list[tuple[bool, str]]:
    """Whether they were for streams, and of which shards."""
    entries = cluster.sandbox.journal.select("GET", KEXES)
    return [(entry.watch, entry.query.get("shardSelector", "")) for entry in entries]


async def until_streamed(cluster: Any, shards: str) -> None:
    await until(lambda: get_requests(cluster)[-1:] == [(True, shards)])


def count_known(operator: Any) -> int:
    return sum(informer.count for informer in operator.handling.pool.informers.values())


async def test_o_only_our_part_is_requested(cluster, operate, uids, calls):
    ours = {uid for uid in uids.values() if find_shard(uid) in HALF}
    async with operate(assigner=Orders(HALF)) as operator:
        await until_streamed(cluster, format_selector(HALF))
        await until(lambda: calls.keys() >= ours)
        assert count_known(operator) == len(ours)  # others are dropped, wherever they are selected
        selector = format_selector(HALF)
        assert get_requests(cluster) == [(False, selector), (True, selector)]
        for name in NAMES:
            await cluster.patch(name, x=1)
        await until(lambda: calls == dict.fromkeys(ours, 2))


async def test_o_nothing_is_selected_if_everything_is_ours(cluster, operate, uids, calls):
    async with operate(assigner=Orders(ALL)):
        await until(lambda: calls.keys() == {*uids.values()})
        await until_streamed(cluster, "")
        assert get_requests(cluster) == [(False, ""), (True, "")]


async def test_o_streams_go_on_with_fewer_shards_when_some_are_lost(cluster, operate, uids, calls):
    ours = {uid for uid in uids.values() if find_shard(uid) in HALF}
    orders = Orders(ALL)
    async with operate(assigner=orders) as operator:
        await until(lambda: len(calls) == len(uids))
        await until_streamed(cluster, "")
        orders.give(HALF)
        await orders.until_followed()
        assert count_known(operator) == len(ours)
        await until_streamed(cluster, format_selector(HALF))
        assert [is_stream for is_stream, _ in get_requests(cluster)] == [False, True, True]
        for name in NAMES:
            await cluster.patch(name, x=1)
        await until(lambda: all(calls[uid] == 2 for uid in ours))
    assert calls == {uid: 1 + (uid in ours) for uid in uids.values()}


async def test_o_all_is_listed_anew_when_more_shards_are_ours(
    cluster, operate, registry, uids, journal
):
    @on.create("kopfexamples", registry=registry)
    @on.update("kopfexamples", registry=registry)
    @on.resume("kopfexamples", registry=registry)
    async def fn(uid: str, **_: Any) -> None:
        journal(uid)

    ours = {uid for uid in uids.values() if find_shard(uid) in HALF}
    orders = Orders(HALF)
    async with operate(assigner=orders):
        await journal.until(lambda j: {*j} >= ours)
        orders.give(ALL)
        await journal.until(lambda j: {*j} == {*uids.values()})
        await until_streamed(cluster, "")
    assert len(journal) == len(uids)  # nothing is handled twice


async def test_o_the_deletions_in_lost_shards_are_not_reported_when_regained(
    cluster, operate, registry, uids, journal
):
    @on.event("kopfexamples", registry=registry)
    async def fn(name: str, type: str | None, **_: Any) -> None:
        if type == "DELETED" or name == "last":
            journal(name)

    orders = Orders(ALL)
    async with operate(assigner=orders):
        await until_streamed(cluster, "")
        orders.give(HALF)
        await orders.until_followed()
        await until_streamed(cluster, format_selector(HALF))
        name = next(name for name, uid in uids.items() if find_shard(uid) not in HALF)
        await cluster.delete(name)
        orders.give(ALL)
        await orders.until_followed()
        await until_streamed(cluster, "")
        await cluster.create("last")
        await journal.until(lambda j: j)
    assert [*journal] == ["last"]


async def test_o_all_is_requested_for_indices(cluster, operate, registry, uids, journal):
    @on.index("kopfexamples", registry=registry)
    async def index(uid: str, **_: Any) -> None:
        journal(uid)

    async with operate(assigner=Orders(HALF)):
        await until_streamed(cluster, "")
        await journal.until(lambda j: {*j} == {*uids.values()})
    assert not [shards for _, shards in get_requests(cluster) if shards]


async def test_o_servers_that_refuse_the_selector_are_asked_without_it(
    cluster, operate, settings, uids, calls, logged
):
    settings.networking.error_backoffs = 0
    cluster.sandbox.faults.fail(
        500,
        path=KEXES,
        match=lambda call: "shardSelector" in call.query,
        message="invalid shard selector: no such function",
    )
    ours = {uid for uid in uids.values() if find_shard(uid) in HALF}
    async with operate(assigner=Orders(HALF)):
        await until_streamed(cluster, "")
        await until(lambda: calls.keys() == ours)
    assert [text for text in logged() if "cannot be selected by shards" in text]


async def test_o_the_selector_of_the_settings_wins(cluster, operate, settings, uids, calls):
    settings.watching.shard_selectors["kopfexamples"] = format_selector(ALL - HALF)
    async with operate(assigner=Orders(HALF)):
        await until_streamed(cluster, format_selector(ALL - HALF))
    assert {shards for _, shards in get_requests(cluster)} == {format_selector(ALL - HALF)}
