"""Operators that are shards of a ring, and a sharder that assigns the objects to them."""

import asyncio
import contextlib
import datetime
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from idleness import quiet, until

from kopf_cogs.clients.errors import APIError
from kopf_core.intents import decorators as on

KEXES = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
RING = "alpha.sharding.timebertt.dev/controllerring"
SHARD = "shard.alpha.sharding.timebertt.dev/web"
DRAIN = "drain.alpha.sharding.timebertt.dev/web"
MERGE = "application/merge-patch+json"


class Sharder:
    """Assigns objects to the shards with living Leases, as it is documented for sharders.

    The test says which shard is to have which object; other objects go to the first living shard.
    """

    def __init__(self, client: Any, clock: Any) -> None:
        self._client = client
        self._clock = clock
        self.wanted: dict[str, str] = {}

    async def list_shards(self) -> list[str]:
        """The living shards; those that have been silent for too long are declared dead."""
        found = await self._client.get(LEASES, params={"labelSelector": f"{RING}=web"})
        return [one["metadata"]["name"] for one in found["items"] if await self._is_alive(one)]

    async def _is_alive(self, lease: Any) -> bool:
        name, spec = lease["metadata"]["name"], lease["spec"]
        if spec["holderIdentity"] != name:
            return False
        renewed = datetime.datetime.fromisoformat(spec["renewTime"])
        silence = (self._clock.now() - renewed).total_seconds()
        if silence < 2 * spec["leaseDurationSeconds"]:
            return True
        taken = {"holderIdentity": "sharder", "leaseDurationSeconds": 30, "renewTime": None}
        taken["renewTime"] = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        await self._patch(f"{LEASES}/{name}", lease, spec=taken)
        return False

    async def sync(self) -> dict[str, str | None]:
        """Look at everything once, act where it is needed; get the shards of the objects."""
        shards = await self.list_shards()
        objects = (await self._client.get(KEXES))["items"]
        for obj in objects if shards else []:
            with contextlib.suppress(APIError):  # the shard was faster
                await self._assign(obj, shards)
        objects = (await self._client.get(KEXES))["items"]
        return {one["metadata"]["name"]: get_labels(one).get(SHARD) for one in objects}

    async def _assign(self, obj: Any, shards: list[str]) -> None:
        url, current = f"{KEXES}/{obj['metadata']['name']}", get_labels(obj).get(SHARD)
        wanted = self.wanted.get(obj["metadata"]["name"], shards[0])
        wanted = wanted if wanted in shards else shards[0]
        if current in shards and current != wanted:
            await self._patch(url, obj, metadata={"labels": {DRAIN: "true"}})
        elif current != wanted:
            await self._patch(url, obj, metadata={"labels": {SHARD: wanted, DRAIN: None}})

    async def _patch(self, url: str, seen: Any, **fields: Any) -> None:
        version = {"resourceVersion": seen["metadata"]["resourceVersion"]}
        fields["metadata"] = {**fields.get("metadata", {}), **version}
        await self._client.patch(url, fields, content_type=MERGE)


def get_labels(obj: Any) -> dict[str, str]:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels


@pytest.fixture(autouse=True)
def _ring(settings):
    settings.sharding.ring, settings.sharding.namespace = "web", "default"
    settings.sharding.retry_period = 0.01
    settings.queueing.exit_timeout = 999


@pytest.fixture
def sharder(cluster, clock):
    return Sharder(cluster.client, clock)


@pytest.fixture
def shard(operate, clock):
    """One of the shards of the ring; it gives its name."""

    @contextlib.asynccontextmanager
    async def shard(**kwargs: Any) -> AsyncIterator[str]:
        async with operate(clock=clock, **kwargs) as operator:
            await until(lambda: operator.essentials.share and operator.essentials.share.shards)
            yield operator.essentials.share.name

    return shard


def named(name: str) -> Any:
    """The memo of an operator, for its handlers to tell who has called them."""
    return type("Memo", (), {"name": name})()


async def get_lease(cluster: Any, name: str) -> Any:
    return await cluster.client.get(f"{LEASES}/{name}")


async def pass_time(cluster: Any, clock: Any, seconds: int, living: Iterable[str]) -> None:
    """Let the time go by, while these shards renew their Leases."""
    for _ in range(seconds):
        clock.advance(1)
        for name in living:
            since = len(cluster.sandbox.journal.select("PUT", f"{LEASES}/{name}"))
            await cluster.sandbox.journal.wait("PUT", f"{LEASES}/{name}", count=since + 2)


async def test_o_a_shard_has_a_lease_as_sharders_expect_it(cluster, shard):
    async with shard() as name:
        lease = await get_lease(cluster, name)
        assert lease["metadata"]["labels"] == {RING: "web"}
        assert lease["spec"]["holderIdentity"] == name
        assert lease["spec"]["leaseDurationSeconds"] == 15
        assert len(name) <= 63
    lease = await get_lease(cluster, name)
    assert lease["spec"]["holderIdentity"] == ""


async def test_o_the_labels_of_the_sharder_stay_on_the_lease(cluster, shard):
    async with shard() as name:
        labels = {"alpha.sharding.timebertt.dev/state": "ready"}
        url = f"{LEASES}/{name}"
        await cluster.client.patch(url, {"metadata": {"labels": labels}}, content_type=MERGE)
        await pass_time(cluster, type("Clock", (), {"advance": lambda *_: None})(), 2, [name])
        lease = await get_lease(cluster, name)
        assert lease["metadata"]["labels"] == {RING: "web", **labels}


async def test_o_each_object_is_handled_by_its_shard_only(
    cluster, shard, sharder, registry, journal
):
    @on.event("kopfexamples", registry=registry)
    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, memo: Any, **_: Any) -> None:
        journal((memo.name, name))

    async with shard(memo=named("one")) as one, shard(memo=named("two")) as two:
        for name, owner in {"a": one, "b": two, "c": two}.items():
            sharder.wanted[name] = owner
            await cluster.create(name)
        await quiet()
        assert not journal  # nothing is assigned yet
        assert await sharder.sync() == sharder.wanted
        await journal.until(lambda j: {("one", "a"), ("two", "b"), ("two", "c")} <= {*j})
        await quiet()
    assert {*journal} == {("one", "a"), ("two", "b"), ("two", "c")}
    watches = [entry for entry in cluster.sandbox.journal.select("GET", KEXES) if entry.watch]
    wholes = [entry for entry in watches if SHARD not in f"{entry}".replace("%2F", "/")]
    assert not wholes


async def test_o_a_drain_is_answered_when_the_daemon_of_the_object_has_ended(
    cluster, shard, sharder, registry, journal
):
    may_end = asyncio.Event()

    @on.daemon("kopfexamples", registry=registry)
    async def daemon(memo: Any, stopped: Any, **_: Any) -> None:
        journal(f"begins in {memo.name}")
        await stopped.wait()
        journal(f"stops in {memo.name}")
        await may_end.wait()
        journal(f"ends in {memo.name}")

    async with shard(memo=named("one")) as one, shard(memo=named("two")) as two:
        sharder.wanted["a"] = one
        await cluster.create("a")
        await sharder.sync()
        await journal.until(lambda j: j == ["begins in one"])
        sharder.wanted["a"] = two
        await sharder.sync()
        await journal.until(lambda j: j[1:] == ["stops in one"])
        await quiet()
        assert get_labels(await cluster.get("a")) == {SHARD: one, DRAIN: "true"}
        may_end.set()
        await until(lambda: _is_moved(sharder, "a", two))
        await journal.until(lambda j: j[2:] == ["ends in one", "begins in two"])
    assert [*journal][4:] == ["stops in two", "ends in two"]


async def _is_moved(sharder: Sharder, name: str, shard: str) -> bool:
    return (await sharder.sync())[name] == shard


async def test_o_a_drain_is_answered_when_the_handler_of_the_object_has_ended(
    cluster, shard, sharder, registry, journal
):
    may_end = asyncio.Event()

    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, memo: Any, **_: Any) -> None:
        journal((memo.name, name))
        await may_end.wait()

    @on.resume("kopfexamples", registry=registry)
    async def resumed(name: str, memo: Any, **_: Any) -> None:
        journal((memo.name, name, "resumed"))

    @on.event("kopfexamples", registry=registry)
    async def watched(type: str, **_: Any) -> None:
        assert type != "DELETED"
        types.add(type)

    types: set[str] = set()
    async with shard(memo=named("one")) as one, shard(memo=named("two")) as two:
        sharder.wanted |= {"a": one, "b": one}
        await cluster.create("a")
        await sharder.sync()
        await journal.until(lambda j: j == [("one", "a")])
        sharder.wanted["a"] = two
        await sharder.sync()
        await cluster.create("b")  # others go on meanwhile
        await sharder.sync()
        await journal.until(lambda j: j[1:] == [("one", "b")])
        assert get_labels(await cluster.get("a")) == {SHARD: one, DRAIN: "true"}
        may_end.set()
        await until(lambda: _is_moved(sharder, "a", two))
        await journal.until(lambda j: j[2:] == [("two", "a", "resumed")])
        await quiet()
    assert "DELETED" not in types
    assert "last-handled-configuration" in str(await cluster.get("a"))


async def test_o_the_labels_of_the_sharder_are_not_changes_for_handlers(
    cluster, shard, sharder, registry, journal
):
    @on.create("kopfexamples", registry=registry)
    @on.update("kopfexamples", registry=registry)
    async def fn(name: str, memo: Any, reason: str, diff: Any, **_: Any) -> None:
        journal((memo.name, reason, *diff))

    async with shard(memo=named("one")) as one, shard(memo=named("two")) as two:
        sharder.wanted["a"] = one
        await cluster.create("a")
        await sharder.sync()
        await until(lambda: _is_handled(cluster, "a"))
        sharder.wanted["a"] = two
        await sharder.sync()
        await until(lambda: _is_moved(sharder, "a", two))
        await relabel(cluster, {"other": "label"})
        await journal.until(lambda j: len(j) > 1)
    change = ("add", ("metadata",), None, {"labels": {"other": "label"}})
    assert [item[:2] for item in journal] == [("one", "create"), ("two", "update")]
    assert journal[1][2:] == (change,)


async def test_o_a_slow_drain_does_not_hold_up_later_drains(
    cluster, shard, sharder, registry, journal
):
    may_end = asyncio.Event()

    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, memo: Any, **_: Any) -> None:
        journal((memo.name, name))
        if name == "slow":
            await may_end.wait()

    async with shard(memo=named("one")) as one, shard(memo=named("two")) as two:
        sharder.wanted = {"slow": one, "quick": one}
        await cluster.create("slow")
        await cluster.create("quick")
        await sharder.sync()
        await journal.until(lambda j: {*j} == {("one", "slow"), ("one", "quick")})
        for name in ("slow", "quick"):
            sharder.wanted[name] = two
            await sharder.sync()
            await quiet()
        await until(lambda: _is_moved(sharder, "quick", two))
        assert get_labels(await cluster.get("slow"))[SHARD] == one
        may_end.set()
        await until(lambda: _is_moved(sharder, "slow", two))


async def test_o_an_object_is_ours_again_if_the_sharder_takes_the_drain_back(
    cluster, shard, sharder, registry, journal
):
    may_end = asyncio.Event()

    @on.daemon("kopfexamples", registry=registry)
    async def daemon(stopped: Any, spec: Any, **_: Any) -> None:
        journal("begins")
        await stopped.wait()
        journal("stops")
        await may_end.wait()

    async with shard() as name:
        await cluster.create("a")
        await sharder.sync()
        await journal.until(lambda j: j == ["begins"])
        await relabel(cluster, {DRAIN: "true"})
        await journal.until(lambda j: j[1:] == ["stops"])
        await relabel(cluster, {DRAIN: None})
        await quiet()
        may_end.set()
        await journal.until(lambda j: j[2:] == ["begins"])
        await quiet()
        assert get_labels(await cluster.get("a")) == {SHARD: name}
    assert [*journal] == ["begins", "stops", "begins", "stops"]


async def relabel(cluster: Any, labels: Any) -> None:
    patch = {"metadata": {"labels": labels}}
    await cluster.client.patch(f"{KEXES}/a", patch, content_type=MERGE)


async def test_o_an_object_that_comes_back_is_handled_again(
    cluster, shard, sharder, registry, journal
):
    @on.resume("kopfexamples", registry=registry)
    @on.create("kopfexamples", registry=registry)
    async def fn(reason: str, **_: Any) -> None:
        journal(reason)

    async with shard() as name:
        await cluster.create("a")
        await sharder.sync()
        await journal.until(lambda j: j == ["create"])
        await relabel(cluster, {DRAIN: "true"})
        await until(lambda: _is_unlabelled(cluster))
        assert await sharder.sync() == {"a": name}
        await journal.until(lambda j: j == ["create", "resume"])


async def _is_unlabelled(cluster: Any) -> bool:
    return not get_labels(await cluster.get("a"))


async def test_o_a_drain_is_answered_later_if_it_fails(
    cluster, shard, sharder, registry, journal, logged, monkeypatch
):
    monkeypatch.setattr("kopf_core.reactor.life.ring_drains.RETRYING", 0.01)

    @on.event("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    async with shard():
        await cluster.create("a")
        await sharder.sync()
        await journal.until(lambda j: "a" in j)
        with cluster.sandbox.faults.fail(403, method="PATCH", path=f"{KEXES}/a", times=2):
            await cluster.sandbox.patch("kopfexamples", "a", {"metadata": {"labels": {DRAIN: "1"}}})
            await until(lambda: _is_unlabelled(cluster))
    assert len([text for text in logged(logging.WARNING) if "back to the sharder" in text]) == 1


async def test_o_deleted_objects_are_deleted_for_handlers(cluster, shard, registry, journal):
    @on.event("kopfexamples", registry=registry)
    async def watched(type: str, name: str, **_: Any) -> None:
        journal((type, name))

    async with shard() as name:
        await cluster.create("a")
        await relabel(cluster, {SHARD: name})
        await journal.until(lambda j: ("ADDED", "a") in j)
        await cluster.delete("a")
        await journal.until(lambda j: ("DELETED", "a") in j)


async def test_o_the_objects_of_a_silent_shard_are_handled_by_another_one(
    cluster, shard, sharder, registry, journal, clock
):
    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    spec = {"holderIdentity": "ghost", "leaseDurationSeconds": 15, "leaseTransitions": 0}
    spec["acquireTime"] = spec["renewTime"] = clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
    lease["metadata"] = {"name": "ghost", "labels": {RING: "web"}}
    await cluster.client.post(LEASES, lease)
    sharder.wanted["a"] = "ghost"
    await cluster.create("a")
    assert await sharder.sync() == {"a": "ghost"}
    async with shard() as name:
        await pass_time(cluster, clock, 29, [name])
        assert await sharder.sync() == {"a": "ghost"}
        assert not journal
        await pass_time(cluster, clock, 1, [name])
        assert await sharder.sync() == {"a": name}
        await journal.until(lambda j: j == ["a"])


async def test_o_the_objects_of_an_exited_shard_are_handled_by_another_one_at_once(
    cluster, shard, sharder, registry, journal
):
    @on.daemon("kopfexamples", registry=registry)
    async def daemon(memo: Any, stopped: Any, **_: Any) -> None:
        journal(f"begins in {memo.name}")
        await stopped.wait()
        journal(f"ends in {memo.name}")

    async with shard(memo=named("two")) as two:
        async with shard(memo=named("one")) as one:
            sharder.wanted["a"] = one
            await cluster.create("a")
            await sharder.sync()
            await journal.until(lambda j: j == ["begins in one"])
        assert await sharder.sync() == {"a": two}
        await journal.until(lambda j: j[1:] == ["ends in one", "begins in two"])


async def test_o_a_shard_that_has_lost_its_lease_sends_nothing_and_comes_back(
    cluster, shard, sharder, registry, journal, clock
):
    """It cannot renew the Lease, as if it were suspended. Then, the sharder declares it dead."""

    @on.create("kopfexamples", registry=registry)
    @on.resume("kopfexamples", registry=registry)
    async def fn(name: str, memo: Any, reason: str, patch: Any, **_: Any) -> None:
        journal((memo.name, name, reason))
        if memo.name == "one" and name == "a" and reason == "create":
            try:
                await asyncio.Event().wait()
            finally:
                patch.status["by"] = "one"
                journal("is stopped")

    @on.event("kopfexamples", registry=registry)
    async def watched(type: str, **_: Any) -> None:
        assert type != "DELETED"

    async with shard(memo=named("one")) as one, shard(memo=named("two")) as two:
        sharder.wanted = {"a": one, "b": one}
        for name in sharder.wanted:
            await cluster.create(name)
        await sharder.sync()
        await journal.until(lambda j: {("one", "a", "create"), ("one", "b", "create")} <= {*j})
        await until(lambda: _is_handled(cluster, "b"))
        fault = cluster.sandbox.faults.fail(503, method="PUT", path=f"{LEASES}/{one}")
        await pass_time(cluster, clock, 10, [two])
        await journal.until(lambda j: "is stopped" in j)
        await pass_time(cluster, clock, 20, [two])
        assert await sharder.sync() == {"a": two, "b": two}
        await journal.until(lambda j: {("two", "a", "create"), ("two", "b", "resume")} <= {*j})
        cluster.sandbox.faults.remove(fault)
        await pass_time(cluster, clock, 31, [two])  # since it has seen that
        await until(lambda: _is_listed(sharder, one))
        await until(lambda: _is_moved(sharder, "b", one))
        await journal.until(lambda j: ("one", "b", "resume") in j)
        await quiet()
    assert "by" not in (await cluster.get("a")).get("status", {})
    moves = [("one", "create"), ("one", "resume")]
    assert Counter(journal) == Counter(
        [
            *((owner, "a", reason) for owner, reason in [*moves, ("two", "create")]),
            *((owner, "b", reason) for owner, reason in [*moves, ("two", "resume")]),
            "is stopped",
        ]
    )


async def _is_handled(cluster: Any, name: str) -> bool:
    return "last-handled-configuration" in str(await cluster.get(name))


async def _is_listed(sharder: Sharder, name: str) -> bool:
    return name in await sharder.list_shards()


async def test_o_indices_have_the_objects_of_all_shards_of_a_ring(
    cluster, shard, sharder, registry, journal
):
    @on.index("kopfexamples", id="names", registry=registry)
    async def index(name: str, **_: Any) -> Any:
        return {"all": name}

    @on.event("kopfexamples", registry=registry)
    async def fn(name: str, names: Any, memo: Any, type: str, **_: Any) -> None:
        journal((memo.name, name, type, *sorted(names["all"])))

    async with shard(memo=named("one")) as one, shard(memo=named("two")) as two:
        sharder.wanted = {"a": one, "b": two}
        await cluster.create("a")
        await cluster.create("b")
        await sharder.sync()
        both = {("one", "a"), ("two", "b")}
        await journal.until(lambda j: {item[:2] for item in j} == both)
        sharder.wanted["a"] = two
        await sharder.sync()
        await until(lambda: _is_moved(sharder, "a", two))
        await journal.until(lambda j: ("two", "a") in {item[:2] for item in j})
        await cluster.delete("a")
        await journal.until(lambda j: ("two", "a", "DELETED", "b") in j)
        await quiet()
    assert {item[3:] for item in journal} == {("a", "b"), ("b",)}
    assert {item[:2] for item in journal} == {*both, ("two", "a")}
    assert ("one", "a", "DELETED", "b") not in journal


async def test_o_passes_are_made_for_the_objects_of_the_shard_only(
    cluster, shard, sharder, registry, journal
):
    @on.reconcile("kopfexamples", owns=["configmaps"], registry=registry)
    async def fn(name: str, memo: Any, **_: Any) -> Any:
        journal((memo.name, name))
        return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"of-{name}"}}]

    async with shard(memo=named("one")) as one, shard(memo=named("two")) as two:
        sharder.wanted = {"a": one, "b": two}
        await cluster.create("a")
        await cluster.create("b")
        await sharder.sync()
        await journal.until(lambda j: {*j} == {("one", "a"), ("two", "b")})
        await until(lambda: len(cluster.sandbox.journal.select("PATCH", "*/configmaps/*")) >= 2)
        sharder.wanted["a"] = two
        await sharder.sync()
        await until(lambda: _is_moved(sharder, "a", two))
        await journal.until(lambda j: ("two", "a") in j)
        count = journal.count(("one", "a"))
        maps = "/api/v1/namespaces/default/configmaps"
        await cluster.client.delete(f"{maps}/of-a")
        await until(lambda: journal.count(("two", "a")) >= 2)
    assert journal.count(("one", "a")) == count
    assert ("one", "b") not in journal
