"""Versions that go down while the stream lives on: an aggregated API can have such."""

from typing import Any

from idleness import until

from kopf_cogs.structs.resources import Resource
from kopf_core.intents import decorators as on
from kopf_core.reactor.streams.stores import ObjectStore

CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
HIGH, LOW = 10_000, 100


async def test_k19_objects_with_ever_lower_versions_are_handled(
    cluster, operate, registry, journal
):
    @on.create("kopfexamples", registry=registry)
    @on.update("kopfexamples", registry=registry)
    async def fn(spec: Any, **_: Any) -> None:
        journal(spec["n"])

    versions = cluster.sandbox.cluster.versions
    async with operate() as operator:
        await until(lambda: is_watching(operator))  # since a version that is lower than all others
        versions.current = HIGH
        await cluster.create("one", n=0)
        for number in range(1, 4):
            await journal.until(lambda calls, n=number: n - 1 in calls)
            await until(lambda: not any(map(len, get_queues(operator))))
            versions.current = HIGH - number * 1000
            await cluster.patch("one", n=number)
        await journal.until(lambda calls: 3 in calls)
    assert journal == [0, 1, 2, 3]


def is_watching(operator: Any) -> bool:
    handling = operator.handling
    informers = [handling.pool.informers[key] for key in handling.orchestrator.intakes]
    return bool(informers) and all(informer.traffic.connects for informer in informers)


def get_queues(operator: Any) -> list[Any]:
    return [intake.queue for intake in operator.handling.orchestrator.intakes.values()]


def make_body(version: int, **data: str) -> Any:
    metadata = {"name": "a", "namespace": "ns", "uid": "a", "resourceVersion": f"{version}"}
    return {"metadata": metadata, "data": data}


def feed(store: ObjectStore, version: int, type: Any = "MODIFIED") -> Any:
    body = make_body(version)
    store.on_event("a", {"type": type, "object": body})
    return body


def test_k19_stores_have_what_the_stream_has_brought_last() -> None:
    store = ObjectStore(CONFIGMAPS)
    feed(store, HIGH, None)
    lower = feed(store, LOW)
    assert store["a"] == lower


def test_k19_stores_do_not_go_back_from_our_own_writes_while_the_stream_is_late() -> None:
    store = ObjectStore(CONFIGMAPS)
    feed(store, LOW, None)
    ours = make_body(LOW + 10)
    store.put(ours)
    feed(store, LOW + 1)
    feed(store, LOW + 2)
    assert store["a"] == ours
    feed(store, LOW + 10)
    lower = feed(store, LOW - 10)
    assert store["a"] == lower


def test_k19_stores_do_not_go_back_to_lists_from_the_past() -> None:
    store = ObjectStore(CONFIGMAPS)
    feed(store, LOW, None)
    ours = make_body(LOW + 10)
    store.put(ours)
    feed(store, LOW, None)
    assert store["a"] == ours


async def test_sim3_objects_of_backups_restored_with_raised_versions_are_handled(
    cluster, operate, registry, journal
):
    """The versions of the API go on as prescribed for backups, but those of its objects are old."""

    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    store = cluster.sandbox.cluster.registry.find("kopfexamples").resource.store
    async with operate() as operator:
        await until(lambda: is_watching(operator))
        await cluster.create("one")
        [backup] = store.select(None)
        await journal.until(lambda calls: len(calls) == 1)
        await until(lambda: not any(map(len, get_queues(operator))))
        store.objects[backup.key] = backup
        cluster.sandbox.cluster.versions.current += HIGH
        cluster.sandbox.compact()
        cluster.sandbox.cut_watches()
        await journal.until(lambda calls: len(calls) == 2)
