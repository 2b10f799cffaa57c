"""Many namespaces: each costs something by itself, but not by its number, and not to the others."""

import asyncio
import contextlib
from typing import Any

import pytest
from idleness import until

from kopf_cogs.clients.errors import APIConflictError
from kopf_cogs.structs.resources import Resource
from kopf_core.intents import decorators as on
from kopf_core.reactor.streams import feeds, pool
from kopf_core.reactor.streams.observed import KindView
from kopf_core.reactor.streams.queueing import WorkQueue
from kopf_core.reactor.streams.stores import ObjectStore

NAMESPACES = [f"ns{number}" for number in range(20)]
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)


async def make_namespace(cluster: Any, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await cluster.client.post("/api/v1/namespaces", body)


async def make_object(cluster: Any, namespace: str, name: str = "one") -> Any:
    body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": name}}
    return await cluster.client.post(f"/apis/kopf.dev/v1/namespaces/{namespace}/kopfexamples", body)


async def test_k11_objects_are_enqueued_where_they_are(
    cluster, operate, registry, journal, monkeypatch
):
    @on.create("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        journal("created")

    for name in NAMESPACES:
        await make_namespace(cluster, name)
    body = await make_object(cluster, "ns7")
    asked: list[Any] = []
    original = WorkQueue.enqueue

    def enqueue(self: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(self)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(WorkQueue, "enqueue", enqueue)
    async with operate(namespaces=["ns*"]) as operator:
        await journal.until(len)
        orchestrator = operator.handling.orchestrator
        assert len(orchestrator.intakes) == len(NAMESPACES)
        orchestrator.enqueue(body["metadata"]["uid"], "test")
        (home,) = [i for key, i in orchestrator.intakes.items() if key.namespace == "ns7"]
        assert asked == [home.queue]


def make_child(namespace: str, name: str, *owners: str, version: int = 1) -> Any:
    refs = [{"uid": uid, "kind": "KopfExample", "name": uid} for uid in owners]
    metadata = {"namespace": namespace, "name": name, "uid": name, "resourceVersion": f"{version}"}
    return {"metadata": {**metadata, "ownerReferences": refs}}


@pytest.fixture
def view() -> KindView:
    view = KindView(CONFIGMAPS)
    for name in NAMESPACES:
        view.stores[name] = ObjectStore(CONFIGMAPS)
    return view


def feed(view: KindView, body: Any, type: Any = "MODIFIED") -> None:
    """As of a stream: the stores are the first to know."""
    metadata = body["metadata"]
    event: Any = {"type": type, "object": body}
    view.stores[metadata["namespace"]].on_event(metadata["uid"], event)
    view.on_event(metadata["uid"], event)


def get_owned(view: KindView, owner: str) -> list[str]:
    return sorted(body["metadata"]["name"] for body in view.owned_by(owner))


def test_k11_owned_objects_are_looked_for_where_they_are(view, monkeypatch):
    asked: list[Any] = []
    original = ObjectStore.owned_by

    def owned_by(self: Any, uid: str) -> Any:
        asked.append(self)
        return original(self, uid)

    feed(view, make_child("ns1", "a", "owner"))
    feed(view, make_child("ns2", "b", "owner", "other"))
    view.put(make_child("ns3", "c", "owner"))
    monkeypatch.setattr(ObjectStore, "owned_by", owned_by)
    assert get_owned(view, "owner") == ["a", "b", "c"]
    assert {*map(id, asked)} == {id(view.stores[name]) for name in ("ns1", "ns2", "ns3")}


def test_k11_owned_objects_are_followed_as_they_come_and_go(view):
    feed(view, make_child("ns1", "a", "owner"), None)
    feed(view, make_child("ns2", "b", "owner"), None)
    feed(view, make_child("ns1", "a", "other", version=2))
    assert get_owned(view, "owner") == ["b"]
    assert get_owned(view, "other") == ["a"]
    feed(view, make_child("ns2", "b", "owner", version=3), "DELETED")
    assert get_owned(view, "owner") == []
    assert view._homes.keys() == {"other"}
    view.leave("ns1")
    assert get_owned(view, "other") == []


def test_k11_it_is_known_at_once_whether_everything_is_listed(view):
    assert view.is_synced
    view.unlisted.add("ns1")
    assert not view.is_synced
    view.leave("ns1")
    assert view.is_synced


async def test_k11_new_namespaces_are_served_while_others_are_closed(
    cluster, operate, registry, settings, journal
):
    settings.queueing.exit_timeout = 9999
    gate = asyncio.Event()

    @on.event("kopfexamples", registry=registry)
    async def fn(namespace: str, type: Any, **_: Any) -> None:
        journal((namespace, type))
        if namespace.startswith("old"):
            await gate.wait()

    for name in ("old1", "old2"):
        await make_namespace(cluster, name)
        await make_object(cluster, name)
    async with operate(namespaces=["old*", "new*"]) as operator:
        intakes = operator.handling.orchestrator.intakes
        await journal.until(lambda calls: {("old1", None), ("old2", None)} <= {*calls})
        for name in ("old1", "old2"):
            await cluster.client.delete(f"/api/v1/namespaces/{name}")
        await until(lambda: not intakes)
        await make_namespace(cluster, "new1")
        await until(lambda: [key.namespace for key in intakes] == ["new1"])
        await make_object(cluster, "new1")
        await journal.until(lambda calls: "new1" in [namespace for namespace, _ in calls])
        assert not gate.is_set()
        gate.set()


async def test_k11_namespaces_that_come_back_are_served_when_they_are_closed(
    cluster, operate, registry, settings, journal
):
    settings.queueing.exit_timeout = 9999
    gate = asyncio.Event()

    @on.event("kopfexamples", registry=registry)
    async def fn(name: str, type: Any, **_: Any) -> None:
        journal(name)
        if name == "one":
            await gate.wait()

    await make_namespace(cluster, "old")
    await make_object(cluster, "old")
    async with operate(namespaces=["old*"]) as operator:
        orchestrator = operator.handling.orchestrator
        await journal.until(lambda calls: "one" in calls)
        await cluster.client.delete("/api/v1/namespaces/old")
        await until(lambda: not orchestrator.intakes)
        await make_again(cluster, "old")
        await make_object(cluster, "old", "two")
        await until(lambda: "old" in operator.essentials.insights.namespaces)
        assert not orchestrator.intakes
        gate.set()
        await journal.until(lambda calls: "two" in calls)


async def delete_all(cluster: Any, namespace: str) -> None:
    """Delete the object, and then its namespace."""
    url = f"/apis/kopf.dev/v1/namespaces/{namespace}/kopfexamples/one"
    await cluster.client.delete(url)
    await cluster.client.delete(f"/api/v1/namespaces/{namespace}")


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("is_indexed", [False, True])
async def test_o_deletions_are_seen_if_the_stream_of_namespaces_is_faster(
    cluster, operate, registry, journal, monkeypatch, count, is_indexed
):
    monkeypatch.setattr(feeds, "MANY_NAMESPACES", 3)  # then, four of them have one stream

    @on.event("kopfexamples", registry=registry)
    async def fn(namespace: str, type: Any, **_: Any) -> None:
        journal((namespace, type))

    if is_indexed:
        on.index("kopfexamples", id="idx", registry=registry)(lambda **_: 1)
    for name in NAMESPACES[:count]:
        await make_namespace(cluster, name)
        await make_object(cluster, name)
    monkeypatch.setattr(pool, "LATENESS", 0)
    async with operate(namespaces=["ns*"]) as operator:
        await journal.until(lambda calls: len(calls) == count)
        with cluster.sandbox.faults.hold(path="*/kopfexamples"):
            await delete_all(cluster, "ns1")
            await journal.until(lambda calls: len(calls) > count)
            await until(lambda: not operator.handling.orchestrator._closing)
    assert journal[count:] == [("ns1", "DELETED")]


async def test_o_deletions_are_seen_as_they_are_if_they_are_a_bit_late(
    cluster, operate, registry, journal, monkeypatch
):
    monkeypatch.setattr(pool, "LATENESS", 9999)

    @on.event("kopfexamples", registry=registry)
    async def fn(type: Any, body: Any, **_: Any) -> None:
        journal((type, "creationTimestamp" in body["metadata"]))

    await make_namespace(cluster, "ns1")
    await make_object(cluster, "ns1")
    async with operate(namespaces=["ns*"]) as operator:
        orchestrator = operator.handling.orchestrator
        await journal.until(len)
        with cluster.sandbox.faults.hold(path="*/kopfexamples"):
            await delete_all(cluster, "ns1")
            await until(lambda: orchestrator._closing)
        await journal.until(lambda calls: len(calls) == 2)
        await until(lambda: not operator.handling.pool.informers)
    assert journal[1] == ("DELETED", True)


async def test_o_deletions_are_seen_if_objects_wait_for_places(
    cluster, operate, registry, settings, journal
):
    settings.queueing.exit_timeout = 9999
    settings.queueing.worker_limit = 1

    @on.event("kopfexamples", registry=registry)
    async def fn(name: str, type: Any, **_: Any) -> None:
        journal((name, type))
        await asyncio.sleep(0)

    await make_namespace(cluster, "ns1")
    for name in ("one", "two", "three"):
        await make_object(cluster, "ns1", name)
    async with operate(namespaces=["ns*"]):
        await journal.until(lambda calls: len(calls) == 3)
        await cluster.client.delete("/api/v1/namespaces/ns1")
        await journal.until(lambda calls: len(calls) == 6)
    assert {*journal[3:]} == {(name, "DELETED") for name in ("one", "two", "three")}


async def make_again(cluster: Any, name: str) -> None:
    async def is_made() -> bool:
        with contextlib.suppress(APIConflictError):
            await make_namespace(cluster, name)
            return True
        return False

    await until(is_made)
