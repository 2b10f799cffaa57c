"""Operators that handle only their parts of the objects, and how the parts change hands."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from idleness import quiet, until
from virtual_time import jump

from kopf_core.actions.happenings import Happening, trigger
from kopf_core.engines.sharding.assignments import Assignment, advance
from kopf_core.engines.sharding.hashing import SHARDS, find_shard
from kopf_core.engines.sharding.shares import LAPSE, Order
from kopf_core.intents import decorators as on

KEXES = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
ALL = frozenset(range(SHARDS))
NONE = frozenset[int]()


class Orders:
    """The assigner of one operator: the test gives orders, and sees what is confirmed."""

    def __init__(self, journal: Any, shards: frozenset[int]) -> None:
        self._journal = journal
        self._queue = asyncio.Queue[Order]()
        self._round = 0
        self.give(shards)

    def give(self, shards: frozenset[int]) -> int:
        self._round += 1
        self._queue.put_nowait(Order(self._round, shards))
        return self._round

    def lapse(self) -> None:
        self._queue.put_nowait(LAPSE)

    async def wait(self) -> Order:
        return await self._queue.get()

    def confirm(self, round: int) -> None:
        self._journal(round)

    async def hear(self, accept: Any) -> None:
        self.others_accept = accept

    def tell(self, happening: Happening) -> None:
        self._journal(happening.name)


@pytest.fixture
def make_orders(journal):
    return lambda shards: Orders(journal, shards)


async def test_o_each_object_is_handled_by_the_owner_of_its_shard_only(
    cluster, operate, registry, make_journal, journal
):
    halves = frozenset(range(SHARDS // 2)), frozenset(range(SHARDS // 2, SHARDS))
    journals = [make_journal(), make_journal()]
    existing = [await cluster.create(f"old-{i}") for i in range(10)]

    @on.event("kopfexamples", registry=registry)
    @on.create("kopfexamples", registry=registry)
    async def fn(uid: str, memo: Any, **_: Any) -> None:
        memo.journal(uid)

    def run(number: int) -> Any:
        memo = type("Memo", (), {"journal": journals[number]})()
        return operate(memo=memo, assigner=Orders(make_journal(), halves[number]))

    async with run(0), run(1):
        created = [await cluster.create(f"new-{i}") for i in range(10)]
        uids = {obj["metadata"]["uid"] for obj in [*existing, *created]}
        for half, its in zip(halves, journals, strict=True):
            expected = {uid for uid in uids if find_shard(uid) in half}
            await its.until(lambda j, expected=expected: {*j} >= expected)
    for half, its in zip(halves, journals, strict=True):
        assert {find_shard(uid) for uid in its} <= half


async def test_o_nothing_is_handled_until_it_is_said_what_is_ours(
    cluster, operate, registry, journal
):
    @on.event("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    orders = Orders(journal, NONE)
    await orders.wait()
    await cluster.create("one")
    async with operate(assigner=orders) as operator:
        assert not journal
        orders.give(ALL)
        await journal.until(lambda j: "one" in j)
        assert not operator.is_paused


async def test_q_what_other_processes_have_told_is_not_told_back_to_them(
    cluster, operate, registry, journal, make_orders, make_journal
):
    orders, passes = make_orders(ALL), make_journal()

    @on.reconcile("kopfexamples", registry=registry)
    async def fn(name: str, triggers: Any, **_: Any) -> None:
        passes([name, *map(str, triggers)])

    await cluster.create("one")
    async with operate(assigner=orders):
        await passes.until(lambda j: j == [["one", "appeared"]])
        orders.others_accept(Happening("kopfexamples", "one", reason="by others"))
        await passes.until(lambda j: ["one", "external: by others"] in j)
        trigger("kopfexamples", "two", reason="by us")
        await journal.until(lambda j: "two" in j)
    assert [*journal] == [1, "two"]


async def test_o_a_shard_is_given_away_when_its_handlers_have_ended(
    cluster, operate, registry, journal, settings, make_orders
):
    settings.queueing.exit_timeout = 999
    may_end = asyncio.Event()

    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(f"{name} begins")
        await may_end.wait()
        journal(f"{name} ends")

    orders = make_orders(ALL)
    async with operate(assigner=orders):
        await cluster.create("one")
        await journal.until(lambda j: "one begins" in j)
        last = orders.give(NONE)
        await cluster.create("two")
        await cluster.patch("one", x=1)
        may_end.set()
        await journal.until(lambda j: last in j)
    assert [*journal] == [1, "one begins", "one ends", last]
    obj = await cluster.get("one")
    assert "last-handled-configuration" in str(obj["metadata"]["annotations"])


async def test_o_handlers_that_take_long_are_cancelled_when_their_shard_is_given_away(
    cluster, operate, registry, journal, settings, make_orders, logged
):
    settings.queueing.exit_timeout = 0

    @on.create("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        journal("begins")
        try:
            await asyncio.Event().wait()
        finally:
            journal("is cancelled")

    orders = make_orders(ALL)
    async with operate(assigner=orders):
        await cluster.create("one")
        await journal.until(lambda j: "begins" in j)
        last = orders.give(NONE)
        await journal.until(lambda j: last in j)
    assert [*journal] == [1, "begins", "is cancelled", last]
    assert not [text for text in logged() if "cancelled by others" in text]


async def test_o_later_orders_give_no_more_time_to_handlers_of_lost_shards(
    cluster, operate, registry, journal, settings, make_orders
):
    settings.queueing.exit_timeout = 10

    @on.create("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        journal("begins")
        try:
            await asyncio.Event().wait()
        finally:
            journal("is cancelled")

    orders = make_orders(ALL)
    async with operate(assigner=orders):
        body = await cluster.create("one")
        await journal.until(lambda j: "begins" in j)
        lost = find_shard(body["metadata"]["uid"])
        orders.give(ALL - {lost})
        await quiet()
        jump(6)
        last = orders.give(ALL - {lost, (lost + 1) % SHARDS})
        await quiet()
        assert "is cancelled" not in journal
        jump(6)
        await quiet()
        assert [*journal] == [1, "begins", "is cancelled", last]


async def test_o_a_shard_that_comes_back_is_left_no_more(
    cluster, operate, registry, journal, settings, make_orders
):
    """Another shard was lost with it, and is still left."""
    settings.queueing.exit_timeout = 10

    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(f"{name} begins")
        try:
            await asyncio.Event().wait()
        finally:
            journal(f"{name} is cancelled")

    orders = make_orders(ALL)
    async with operate(assigner=orders):
        bodies = [await cluster.create(name) for name in ("one", "two", "three")]
        lost, *others = ({find_shard(body["metadata"]["uid"])} for body in bodies)
        await journal.until(lambda j: len(j) == 4)
        orders.give(ALL.difference(lost, *others))
        await quiet()
        last = orders.give(ALL - lost)
        await quiet()
        jump(12)
        await journal.until(lambda j: last in j)
        assert "one is cancelled" in journal
        assert ("two is cancelled" in journal) is (lost == others[0])
        assert ("three is cancelled" in journal) is (lost == others[1])


async def test_o_threads_are_waited_for_before_their_shard_is_given_away(
    cluster, operate, registry, journal, settings, make_orders
):
    settings.queueing.exit_timeout = 0
    may_end = threading.Event()
    loop = asyncio.get_running_loop()

    @on.create("kopfexamples", registry=registry)
    def fn(**_: Any) -> None:
        loop.call_soon_threadsafe(journal, "begins")
        may_end.wait()
        loop.call_soon_threadsafe(journal, "ends")

    orders = make_orders(ALL)
    async with operate(assigner=orders):
        await cluster.create("one")
        await journal.until(lambda j: "begins" in j)
        last = orders.give(NONE)
        await asyncio.sleep(0)
        may_end.set()
        await journal.until(lambda j: last in j)
    assert [*journal] == [1, "begins", "ends", last]


async def test_o_a_daemon_moves_with_its_shard_and_is_never_doubled(
    cluster, operate, registry, journal, settings, make_orders, make_journal
):
    settings.queueing.exit_timeout = 0

    @on.daemon("kopfexamples", registry=registry)
    async def daemon(memo: Any, **_: Any) -> None:
        journal(f"begins in {memo.name}")
        try:
            await asyncio.Event().wait()
        finally:
            journal(f"ends in {memo.name}")

    def run(name: str, orders: Orders) -> Any:
        return operate(memo=type("Memo", (), {"name": name})(), assigner=orders)

    first, second = make_orders(ALL), Orders(make_journal(), NONE)
    await cluster.create("one")
    async with run("first", first), run("second", second):
        await journal.until(lambda j: "begins in first" in j)
        last = first.give(NONE)
        await journal.until(lambda j: last in j)
        second.give(ALL)
        await journal.until(lambda j: "begins in second" in j)
    assert [item for item in journal if isinstance(item, str)] == [
        "begins in first",
        "ends in first",
        "begins in second",
        "ends in second",
    ]


async def test_o_objects_of_a_gained_shard_are_handled_as_after_a_restart(
    cluster, operate, registry, journal, make_orders
):
    @on.resume("kopfexamples", registry=registry)
    @on.create("kopfexamples", registry=registry)
    @on.update("kopfexamples", registry=registry)
    async def fn(name: str, reason: str, spec: Any, **_: Any) -> None:
        journal((name, reason, spec.get("x")))

    orders = make_orders(ALL)
    async with operate(assigner=orders):
        await cluster.create("one")
        await cluster.create("two")
        created = {("one", "create", None), ("two", "create", None)}
        await journal.until(lambda j: created <= {*j})
        last = orders.give(NONE)
        await journal.until(lambda j: last in j)
        await cluster.patch("two", x=1)
        orders.give(ALL)
        await journal.until(lambda j: {("one", "resume", None), ("two", "update", 1)} <= {*j})
    handled = [item for item in journal if isinstance(item, tuple)]
    assert sorted(handled, key=str) == [
        ("one", "create", None),
        ("one", "resume", None),
        ("two", "create", None),
        ("two", "update", 1),
    ]


async def test_o_the_objects_that_remain_ours_are_not_disturbed_by_other_shards(
    cluster, operate, registry, journal, settings, make_orders
):
    settings.queueing.exit_timeout = 0
    may_end = asyncio.Event()

    @on.resume("kopfexamples", registry=registry)
    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    @on.daemon("kopfexamples", registry=registry)
    async def daemon(name: str, **_: Any) -> None:
        journal(f"daemon of {name}")
        try:
            await may_end.wait()
        except asyncio.CancelledError:
            journal(f"daemon of {name} is cancelled")
            raise

    first = await cluster.create("first")
    others = [await cluster.create(f"other-{i}") for i in range(5)]
    shard = find_shard(first["metadata"]["uid"])
    names = {
        obj["metadata"]["name"] for obj in others if find_shard(obj["metadata"]["uid"]) != shard
    }
    orders = make_orders(frozenset({shard}))
    async with operate(assigner=orders):
        await journal.until(lambda j: {"first", "daemon of first"} <= {*j})
        orders.give(ALL)
        await journal.until(lambda j: names <= {*j})
        last = orders.give(frozenset({shard}))
        await journal.until(lambda j: last in j)
        may_end.set()
    assert journal.count("first") == 1
    assert journal.count("daemon of first") == 1
    assert "daemon of first is cancelled" not in journal


async def test_o_indices_have_the_objects_of_all_shards(
    cluster, operate, registry, journal, make_orders
):
    @on.index("kopfexamples", id="names", registry=registry)
    async def index(name: str, **_: Any) -> Any:
        return {"all": name}

    @on.event("kopfexamples", registry=registry)
    async def fn(name: str, names: Any, **_: Any) -> None:
        journal({*names["all"]})

    first = await cluster.create("first")
    await cluster.create("second")
    orders = make_orders(frozenset({find_shard(first["metadata"]["uid"])}))
    async with operate(assigner=orders):
        await journal.until(lambda j: {"first", "second"} in j)


async def test_o_passes_for_the_objects_of_others_are_not_made(
    cluster, operate, registry, journal, make_orders
):
    @on.reconcile("kopfexamples", owns=["kopfexamples"], registry=registry)
    async def fn(name: str, **_: Any) -> Any:
        journal(name)
        return []

    first = await cluster.create("first")
    second = await cluster.create("second")
    ours = find_shard(first["metadata"]["uid"])
    while find_shard(second["metadata"]["uid"]) == ours:
        await cluster.delete("second")
        second = await cluster.create("second")
    orders = make_orders(frozenset({ours}))
    async with operate(assigner=orders):
        await journal.until(lambda j: "first" in j)
        await cluster.patch("second", x=1)
        await cluster.patch("first", x=1)
        await journal.until(lambda j: j.count("first") == 2)
    assert "second" not in journal


class Coordinator:
    """Assigns the shards to operators of this very process, by the real rules."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.assignment = Assignment()

    def advance(self) -> None:
        confirmed = {name: member.confirmed for name, member in self.members.items()}
        assignment = advance(self.assignment, confirmed.keys(), confirmed)
        if assignment is not self.assignment:
            self.assignment = assignment
            for member in self.members.values():
                member.tell()

    def add(self, name: str) -> "Member":
        member = self.members[name] = Member(self, name)
        member.tell()
        self.advance()
        return member

    def remove(self, name: str) -> None:
        """When it has ended."""
        del self.members[name]
        self.advance()


class Member:
    """The assigner of one operator."""

    def __init__(self, coordinator: Coordinator, name: str) -> None:
        self._coordinator = coordinator
        self._name = name
        self._told = asyncio.Queue[Order]()
        self.confirmed = 0

    async def hear(self, accept: Any) -> None:
        pass  # there are no happenings outside of the cluster

    def tell(self) -> None:
        assignment = self._coordinator.assignment
        self._told.put_nowait(Order(assignment.round, assignment.get_share(self._name)))

    async def wait(self) -> Order:
        return await self._told.get()

    def confirm(self, round: int) -> None:
        self.confirmed = max(self.confirmed, round)
        self._coordinator.advance()


class Work:
    """What is done for objects now, and where: never twice at once for the same."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}
        self.deleted: set[str] = set()
        self.overlaps: list[str] = []
        self._working: dict[tuple[str, str], str] = {}

    @contextlib.asynccontextmanager
    async def on(self, name: str, what: str, owner: str) -> AsyncIterator[None]:
        if (name, what) in self._working:
            self.overlaps.append(f"{what} of {name}: {self._working[name, what]} and {owner}")
        self._working[name, what] = owner
        try:
            yield
        finally:
            self._working.pop((name, what), None)


@pytest.mark.parametrize("seed", range(3))
async def test_o_moving_shards_lose_and_double_nothing_while_everything_changes(
    cluster, operate, registry, settings, seed
):
    settings.queueing.exit_timeout = 0.01
    chance, work, coordinator = Random(seed), Work(), Coordinator()

    @on.resume("kopfexamples", registry=registry)
    @on.create("kopfexamples", registry=registry)
    @on.update("kopfexamples", registry=registry)
    async def changed(name: str, spec: Any, memo: Any, **_: Any) -> None:
        async with work.on(name, "handler", memo.owner):
            for _ in range(chance.randrange(20)):
                await asyncio.sleep(0)
            work.seen[name] = spec.get("x")

    @on.delete("kopfexamples", registry=registry)
    async def deleted(name: str, memo: Any, **_: Any) -> None:
        async with work.on(name, "handler", memo.owner):
            work.deleted.add(name)

    @on.daemon("kopfexamples", cancellation_backoff=0.1, cancellation_timeout=9, registry=registry)
    async def daemon(name: str, memo: Any, **_: Any) -> None:
        async with work.on(name, "daemon", memo.owner):
            await asyncio.Event().wait()

    async with contextlib.AsyncExitStack() as stack:
        stacks: dict[str, contextlib.AsyncExitStack] = {}

        async def start(name: str) -> None:
            memo = type("Memo", (), {"owner": name})()
            stacks[name] = await stack.enter_async_context(contextlib.AsyncExitStack())
            operator = operate(memo=memo, assigner=coordinator.add(name))
            await stacks[name].enter_async_context(operator)

        await start("first")
        names: set[str] = set()
        doomed: set[str] = set()
        for number in range(30):
            names.add(f"obj-{number}")
            await cluster.create(f"obj-{number}", x=0)
            await cluster.patch(chance.choice(sorted(names - doomed)), x=number)
            if number % 5 == 0:
                handled = sorted({*work.seen} - doomed)  # they have the finalizer
                doomed |= {*handled[:1]}
                for victim in handled[:1]:
                    await cluster.delete(victim)
            if number % 6 == 1:
                await start(f"member-{number}")
            if number % 6 == 4:
                leaving = chance.choice(sorted(stacks))
                await stacks.pop(leaving).aclose()
                coordinator.remove(leaving)
        await _settle(cluster, names, doomed, work)
    assert not work.overlaps


async def _settle(cluster: Any, names: set[str], doomed: set[str], work: Work) -> None:
    """Wait until the last state of each object is handled, and the deleted ones are gone."""
    async with asyncio.timeout(60):
        while True:
            listed = await cluster.client.get(KEXES)
            there = {one["metadata"]["name"]: one["spec"].get("x") for one in listed["items"]}
            gone = {one["metadata"].get("deletionTimestamp") for one in listed["items"]} - {None}
            if not gone and all(work.seen.get(name) == x for name, x in there.items()):
                assert names - there.keys() <= work.deleted <= doomed
                return


async def test_shard6_an_exiting_process_gives_no_shard_away_until_its_handlers_have_ended(
    cluster, operate, registry, journal, settings, make_orders
):
    settings.queueing.exit_timeout = 999
    may_end = asyncio.Event()

    @on.create("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        journal("begins")
        await may_end.wait()
        journal("ends")

    orders = make_orders(ALL)
    async with operate(assigner=orders) as operator:
        await cluster.create("one")
        await journal.until(lambda j: "begins" in j)
        operator.stop()
        await quiet()
        last = orders.give(NONE)
        await quiet()
        assert last not in journal
        may_end.set()
    assert [*journal][:3] == [1, "begins", "ends"]


@pytest.mark.parametrize("is_stopped_first", [True, False])
async def test_shard6_an_exiting_process_gives_no_shard_away_until_its_threads_have_ended(
    cluster, operate, registry, journal, settings, make_orders, is_stopped_first
):
    settings.queueing.exit_timeout = 1
    may_end = threading.Event()
    loop = asyncio.get_running_loop()

    @on.create("kopfexamples", registry=registry)
    def fn(**_: Any) -> None:
        loop.call_soon_threadsafe(journal, "begins")
        may_end.wait()
        loop.call_soon_threadsafe(journal, "ends")

    orders = make_orders(ALL)
    async with operate(assigner=orders) as operator:
        await cluster.create("one")
        await journal.until(lambda j: "begins" in j)
        steps = [operator.stop, lambda: orders.give(NONE)]
        for step in steps if is_stopped_first else reversed(steps):
            step()
            for _ in range(2):
                jump(0.25)
                await quiet()
        for _ in range(8):  # the turn is cancelled by the order, and by the exit
            jump(0.25)
            await quiet()
        assert [*journal] == [1, "begins"]
        may_end.set()
    assert [*journal][:3] == [1, "begins", "ends"]


async def test_shard7_an_exiting_process_cancels_its_handlers_when_it_has_lost_its_shards(
    cluster, operate, registry, journal, settings, make_orders
):
    settings.queueing.exit_timeout = 999

    @on.create("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        journal("begins")
        try:
            await asyncio.Event().wait()
        finally:
            journal("is cancelled")

    orders = make_orders(ALL)
    async with operate(assigner=orders) as operator:
        await cluster.create("one")
        await journal.until(lambda j: "begins" in j)
        operator.stop()
        await quiet()
        assert "is cancelled" not in journal
        orders.lapse()
        await journal.until(lambda j: "is cancelled" in j)


@pytest.mark.parametrize("is_lapsed", [True, False])
async def test_shard8_handlers_in_namespaces_that_are_served_no_more_are_not_forgotten(
    cluster, operate, registry, journal, settings, make_orders, is_lapsed
):
    settings.queueing.exit_timeout = 999
    settings.scanning.namespace_selector = "tenant=a"
    may_end = asyncio.Event()

    @on.create("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        journal("begins")
        try:
            await may_end.wait()
        finally:
            journal("ends")

    meta = {"name": "one", "labels": {"tenant": "a"}}
    await cluster.client.post("/api/v1/namespaces", {"metadata": meta})
    await cluster.sandbox.apply(
        {
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "metadata": {"name": "x", "namespace": "one"},
        }
    )
    orders = make_orders(ALL)
    async with operate(assigner=orders, namespaces=["*"]) as operator:
        await journal.until(lambda j: "begins" in j)
        await cluster.sandbox.patch("namespaces", "one", {"metadata": {"labels": {"tenant": "b"}}})
        await until(lambda: operator.handling.orchestrator._closing)
        if is_lapsed:
            orders.lapse()
            await journal.until(lambda j: "ends" in j)
        else:
            last = orders.give(NONE)
            await quiet()
            assert last not in journal
            may_end.set()
            await journal.until(lambda j: last in j)
            assert [*journal] == [1, "begins", "ends", last]
