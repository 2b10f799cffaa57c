"""Indices in the whole operator: complete before anything else, and right ever after."""

from __future__ import annotations

import asyncio
import threading

import pytest

from e2e.tests.harness import GROUP
from kopf_core.intents import decorators as on
from kopf_core.intents.filters import PRESENT

KEX, SUB = (GROUP, "kexes"), (GROUP, "subs")


@pytest.mark.docs("indexing/guarantees")
@pytest.mark.docs("indexing/limitations")
@pytest.mark.parametrize("style", ["sync", "async"])
@pytest.mark.parametrize("limit", [None, 1])
async def test_d15_indices_are_complete_before_any_handler_with_any_limit(faulty, style, limit):
    calls, count = faulty.calls, 200
    faulty.settings.queueing.worker_limit = limit
    faulty.settings.watching.chunk_size = 30

    def fn(name, **_):
        return {name: 1}

    async def afn(name, **_):
        return {name: 1}

    on.index(*KEX, id="kexes", registry=faulty.registry)(fn if style == "sync" else afn)
    on.index(*SUB, id="subs", registry=faulty.registry)(fn if style == "sync" else afn)

    @on.event(*KEX, id="event", registry=faulty.registry)
    async def event(kexes, subs, **_):
        calls(("event", len(kexes), len(subs)))

    @on.create(*SUB, id="create", registry=faulty.registry)
    def create(kexes, subs, **_):
        calls(("create", len(kexes), len(subs)))

    for kind in ("Kex", "Sub"):
        for number in range(count):
            await faulty.sandbox.create(
                {
                    "apiVersion": f"{GROUP}/v1",
                    "kind": kind,
                    "metadata": {"name": f"obj-{number}", "namespace": faulty.namespace},
                }
            )
    async with faulty.operator():
        await calls.until(lambda calls: len(calls) >= 2 * count)
    assert {sizes for _, *sizes in map(tuple, calls) for sizes in [tuple(sizes)]} == {
        (count, count)
    }


async def test_initially_streamed_objects_are_indexed_before_any_handler(faulty):
    faulty.settings.watching.initial_streaming = True

    @on.index(*KEX, id="kexes", registry=faulty.registry)
    async def fn(name, **_):
        await asyncio.sleep(0)
        return {name: 1}

    @on.event(*KEX, id="event", registry=faulty.registry)
    async def event(kexes, **_):
        faulty.calls(len(kexes))

    for number in range(50):
        await faulty.create(name=f"obj-{number}")
    async with faulty.operator():
        await faulty.calls.until(lambda calls: len(calls) >= 50)
    assert set(faulty.calls) == {50}


@pytest.mark.docs("indexing/declaration")
async def test_indices_follow_the_objects(world):
    @on.index(*KEX, labels={"on": "yes"}, id="by_field", registry=world.registry)
    def by_field(spec, name, **_):
        return {spec["field"]: name}

    @on.timer(*SUB, interval=0.02, id="timer", registry=world.registry)
    async def timer(by_field, **_):
        state = {key: list(store) for key, store in by_field.items()}
        if not world.calls or world.calls[-1] != state:
            world.calls(state)

    async with world.operator():
        world.plural = "subs"
        await world.create(name="observer")
        world.plural = "kexes"
        await world.calls.until(lambda calls: calls == [{}])
        await world.create({"field": "v1"}, metadata={"labels": {"on": "yes"}})
        await world.calls.until(lambda calls: calls[-1] == {"v1": ["obj"]})
        await world.patch({"spec": {"field": "v2"}})
        await world.calls.until(lambda calls: calls[-1] == {"v2": ["obj"]})
        await world.patch({"metadata": {"labels": {"on": "no"}}})
        await world.calls.until(lambda calls: calls[-1] == {})
        await world.patch({"metadata": {"labels": {"on": "yes"}}})
        await world.calls.until(lambda calls: calls[-1] == {"v2": ["obj"]})
        await world.delete()
        await world.calls.until(lambda calls: calls[-1] == {})


@pytest.mark.docs("indexing/kwargs")
async def test_indices_win_over_kwargs_and_are_in_all_handlers(world):
    @on.index(*KEX, id="retry", registry=world.registry)
    @on.index(*KEX, id="spec", registry=world.registry)
    def fn(name, **_):
        return {name: 1}

    def report(retry, spec, **kwargs):
        world.calls((kwargs["param"], type(retry).__name__, type(spec).__name__))

    on.startup(param="startup", id="report", registry=world.registry)(report)
    on.cleanup(param="cleanup", id="report", registry=world.registry)(report)
    on.event(*KEX, param="event", id="a", registry=world.registry)(report)
    on.create(*KEX, param="create", id="b", registry=world.registry)(report)
    on.daemon(*KEX, param="daemon", id="c", registry=world.registry)(report)
    on.timer(*KEX, param="timer", id="d", interval=100, registry=world.registry)(report)

    async with world.operator():
        await world.create()
        await world.calls.until(
            lambda calls: {"event", "create", "daemon", "timer"} <= {call[0] for call in calls}
        )
    assert {call[1:] for call in world.calls} == {("Index", "Index")}
    assert world.calls[-1][0] == "cleanup"


@pytest.mark.docs("indexing/guarantees")
async def test_indices_can_be_passed_to_threads_from_startup(world):
    stop = threading.Event()

    @on.index(*KEX, id="names", registry=world.registry)
    def names(name, **_):
        return name

    @on.startup(id="startup", registry=world.registry)
    async def startup(names, **_):
        def read():
            while not stop.is_set():
                found = sorted(names.get(None, []))
                if not world.calls or world.calls[-1] != found:
                    world.calls(found)

        threads.append(threading.Thread(target=read))
        threads[0].start()

    threads: list[threading.Thread] = []
    async with world.operator():
        try:
            await world.create(name="a")
            await world.create(name="b")
            await world.calls.until(lambda calls: calls[-1] == ["a", "b"])
        finally:
            stop.set()
            await asyncio.to_thread(threads[0].join)


@pytest.mark.docs("indexing/limitations")
async def test_indices_are_made_anew_after_restarts(world):
    @on.index(*KEX, id="names", registry=world.registry)
    async def names(name, **_):
        world.calls(name)
        return name

    @on.event(*KEX, registry=world.registry)
    async def see(names, **_):
        world.calls([list(store) for store in names.values()])

    await world.create(name="a")
    for generation in (1, 2):
        async with world.operator():
            await world.calls.until(lambda calls, n=generation: calls == ["a", [["a"]]] * n)
    obj = await world.get("a")
    assert not obj["metadata"].get("annotations")  # nothing is stored
    assert not obj["metadata"].get("finalizers")


@pytest.mark.docs("reconciliation")
async def test_actual_state_is_brought_to_the_desired_one(world):
    @on.index(*SUB, id="children", labels={"parent": PRESENT}, registry=world.registry)
    async def children(labels, name, **_):
        return {labels["parent"]: name}

    @on.timer(*KEX, id="count", interval=0.05, registry=world.registry)
    async def count(name, children, patch, **_):
        patch.status["replicas"] = len(children.get(name, []))

    @on.event(*KEX, id="reconcile", registry=world.registry)
    async def reconcile(name, spec, status, children, **_):
        if "replicas" not in status or status["replicas"] != len(children.get(name, [])):
            return  # either unknown yet, or outdated
        names = sorted(children.get(name, []))
        for number in range(len(names), spec["replicas"]):
            labels = {"parent": name}
            path, body = (
                world.path(plural="subs"),
                {
                    "apiVersion": f"{GROUP}/v1",
                    "kind": "Sub",
                    "metadata": {"name": f"{name}-{number}", "labels": labels},
                },
            )
            await world.request("POST", path, body)
        for extra in names[spec["replicas"] :]:
            await world.request("DELETE", world.path(extra, plural="subs"))

    async def count_children():
        return len((await world.request("GET", world.path(plural="subs")))["items"])

    async with world.operator():
        await world.create({"replicas": 3})
        await world.until(lambda obj: obj and obj.get("status", {}).get("replicas") == 3)
        assert await count_children() == 3
        await world.patch({"spec": {"replicas": 1}})
        await world.until(lambda obj: obj and obj.get("status", {}).get("replicas") == 1)
        assert await count_children() == 1
