"""What is served follows what exists: definitions and namespaces that come, change, and go."""

import asyncio
import contextlib
import copy
import logging
import threading
from typing import Any

from idleness import until

from kopf_core.engines import indexing
from kopf_core.intents import decorators as on
from kopf_core.reactor.object import reconciliation
from kopf_core.reactor.object.reconciliation import Reconciler

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kopfexamples.kopf.dev"


def patches(cluster: Any) -> list[str]:
    return [entry.path for entry in cluster.sandbox.journal if entry.method == "PATCH"]


async def test_r6_subresources_switched_on_and_off_are_followed(
    cluster, operate, registry, journal, make_definition
):
    @on.create("kopfexamples", registry=registry)
    @on.update("kopfexamples", registry=registry)
    async def fn(spec: Any, patch: Any, **_: Any) -> None:
        patch.status["n"] = spec["n"]
        journal(spec["n"])

    async with operate() as operator:
        await cluster.create("a", n=0)
        await journal.until(lambda calls: 0 in calls)
        for n, subresources in enumerate([{"status": {}}, {}, {"status": {}}], start=1):
            await cluster.redefine(make_definition("v1", subresources=subresources))
            await until(lambda s=subresources: get_subresources(operator) == {*s})
            await cluster.patch("a", n=n)
            await journal.until(lambda calls, n=n: n in calls)
            await cluster.sandbox.wait("kopfexamples", "a", jsonpath="{.status.n}", value=n)


def get_subresources(operator: Any) -> set[str]:
    (intake,) = operator.handling.orchestrator.intakes
    return {
        *operator.handling.orchestrator._served[intake.resource].reconciler.resource.subresources
    }


async def test_r6_preferred_versions_are_followed_and_daemons_with_them(
    cluster, operate, registry, journal, make_definition
):
    """Nobody is called anew only because the version is another one; daemons are restarted."""

    @on.create("kopfexamples", registry=registry)
    @on.resume("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    @on.daemon("kopfexamples", registry=registry)
    async def daemon(resource: Any, stopped: Any, **_: Any) -> None:
        journal(resource.version)
        await stopped.wait()
        journal("stopped")

    await cluster.create("a")
    async with operate():
        await journal.until(lambda calls: {"a", "v1"} <= {*calls})
        await cluster.redefine(make_definition("v1", "v2"))
        await journal.until(lambda calls: "v2" in calls)
    assert [item for item in journal if item != "stopped"] == ["a", "v1", "v2"] or [
        item for item in journal if item != "stopped"
    ] == ["v1", "a", "v2"]


async def test_r6_objects_of_removed_streams_are_forgotten(cluster, operate, registry, journal):
    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    async with operate() as operator:
        await cluster.create("a")
        await journal.until(lambda calls: "a" in calls)
        assert len(operator.essentials.memories) == 1
        await cluster.client.delete(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kopfexamples.kopf.dev"
        )
        await until(
            lambda: not operator.essentials.memories and not operator.handling.orchestrator.intakes
        )


async def test_r6_namespaces_made_anew_while_nobody_watches_are_served(
    cluster, operate, registry, settings, journal
):
    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    async def create(name: str) -> None:
        metadata = {"name": name, "namespace": "ns2"}
        body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": metadata}
        await cluster.sandbox.apply(body)

    settings.watching.reconnect_backoff = 0.01
    sandbox, path = cluster.sandbox, "/api/v1/namespaces"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns2"}}
    await sandbox.apply(namespace)
    async with operate(namespaces=["ns*"]):
        await create("former")
        await journal.until(lambda calls: "former" in calls)
        with sandbox.faults.hold(path=path, watch=True):
            await sandbox.delete("namespaces", "ns2")
            await sandbox.wait("namespaces", "ns2", gone=True)
            await sandbox.apply(namespace)
            sandbox.compact()
            lists = len(sandbox.journal.select("GET", path))
            sandbox.cut_watches(path)
        await sandbox.journal.arrived("GET", path, count=lists + 3)  # watched, listed, watched
        await create("fresh")
        await journal.until(lambda calls: "fresh" in calls)


async def test_r3_nothing_is_served_after_the_stop(cluster, operate, registry, journal):
    @on.event("kopfexamples", registry=registry)
    def fn(**_: Any) -> None:
        journal("called")

    async with operate(namespaces=["default", "later"]) as operator:
        await until(lambda: operator.handling.orchestrator.intakes)
        await operator.handling.orchestrator.stop(1)
        served = copy.copy(operator.handling.orchestrator.intakes)
        operator.essentials.insights.set_namespaces({"default", "later"})
        for _ in range(20):
            await asyncio.sleep(0)
        assert operator.handling.orchestrator.intakes == served
        assert not [task for task in asyncio.all_tasks() if "kopf-informer" in task.get_name()]


async def test_r8_d14_events_that_never_end_give_the_place_back(
    cluster, operate, registry, settings, journal, monkeypatch
):
    """They come faster than they are handled. All of them are handled nevertheless, in order."""
    monkeypatch.setattr(reconciliation, "EVENTS_TIME", 0)
    settings.queueing.worker_limit = 1
    last = 0

    @on.event("kopfexamples", registry=registry)
    async def fn(name: str, spec: Any, **_: Any) -> None:
        nonlocal last
        journal((name, spec["n"]))
        if journal == [("hot", 0)]:
            await cluster.create("other", n=0)
        if name == "hot" and last < 40 and ("other", 0) not in journal:
            for _ in range(2):
                last += 1
                await cluster.patch("hot", n=last)

    async with operate():
        await cluster.create("hot", n=0)
        await journal.until(lambda calls: {("hot", last), ("other", 0)} <= {*calls})
    assert [n for name, n in journal if name == "hot"] == [*range(last + 1)]
    assert journal.index(("other", 0)) < 10


async def test_r8_d16_hanging_index_functions_hold_neither_their_kind_nor_the_start(
    cluster, operate, registry, journal, logged, monkeypatch
):
    monkeypatch.setattr(indexing, "PATIENCE", 0.05)
    monkeypatch.setattr(indexing, "IMPATIENCE", 0.01)
    gate = asyncio.Event()

    @on.index("kopfexamples", id="hanging", registry=registry)
    async def hanging(name: str, **_: Any) -> Any:
        await gate.wait() if name.startswith("bad") else None
        return {name: 1}

    @on.event("kopfexamples", registry=registry)
    async def fn(name: str, hanging: Any, **_: Any) -> None:  # in order, unlike in threads
        journal((name, sorted(hanging)))

    for name in ("bad1", "bad2", "good"):
        await cluster.create(name)
    async with operate():
        await journal.until(lambda calls: len(calls) == 3)
    assert journal == [(name, ["good"]) for name in ("bad1", "bad2", "good")]
    warnings = [text for text in logged(logging.WARNING) if "takes more than" in text]
    assert len(warnings) == 2
    assert "'hanging'" in warnings[0]


async def test_k4_index_functions_that_swallow_their_cancellation_do_not_hold_their_kind(
    cluster, operate, registry, journal, monkeypatch
):
    monkeypatch.setattr(indexing, "PATIENCE", 0.05)
    gate = asyncio.Event()

    @on.index("kopfexamples", id="stubborn", registry=registry)
    async def stubborn(name: str, **_: Any) -> Any:
        while name == "bad" and not gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
        return {name: 1}

    @on.event("kopfexamples", registry=registry)
    async def fn(name: str, stubborn: Any, **_: Any) -> None:
        journal((name, sorted(stubborn)))

    for name in ("bad", "good"):
        await cluster.create(name)
    async with operate():
        try:
            await journal.until(lambda calls: len(calls) == 2)
            gate.set()
            await cluster.patch("good", n=1)
            await journal.until(lambda calls: len(calls) == 3)
        finally:
            gate.set()
    assert [seen for _, seen in journal] == [["good"]] * 3  # what comes too late is not used


async def test_k4_hanging_sync_index_functions_do_not_take_the_threads_of_handlers(
    cluster, operate, registry, settings, monkeypatch, make_journal
):
    settings.execution.max_workers = 1
    monkeypatch.setattr(indexing, "PATIENCE", 0.05)
    monkeypatch.setattr(indexing, "IMPATIENCE", 0.01)
    gate, seen = threading.Event(), make_journal()
    loop = asyncio.get_running_loop()

    @on.index("kopfexamples", registry=registry)
    def hanging(**_: Any) -> None:
        gate.wait()

    @on.create("kopfexamples", registry=registry)
    def fn(name: str, **_: Any) -> None:
        loop.call_soon_threadsafe(seen, name)

    names = [f"obj{n}" for n in range(50)]
    for name in names:
        await cluster.create(name)
    async with operate():
        try:
            await seen.until(lambda calls: len(calls) == len(names))
        finally:
            gate.set()
    assert sorted(seen) == sorted(names)


async def test_k4_kinds_are_removed_while_their_sync_index_functions_hang(
    cluster, operate, registry, monkeypatch, make_journal
):
    monkeypatch.setattr(indexing, "PATIENCE", 9999)
    gate, began = threading.Event(), make_journal()
    loop = asyncio.get_running_loop()

    @on.index("kopfexamples", registry=registry)
    def hanging(**_: Any) -> None:
        loop.call_soon_threadsafe(began, None)
        gate.wait()

    await cluster.create("obj")
    async with operate() as operator:
        try:
            await began.until(len)
            await cluster.client.delete(CRD)
            await until(lambda: not operator.handling.orchestrator.intakes)
        finally:
            gate.set()


async def test_r25_daemons_of_throttled_objects_stop_at_once_when_deleted(
    cluster, operate, registry, settings, journal, monkeypatch
):
    settings.queueing.error_delays = [9999]
    settings.background.instant_exit_timeout = None

    @on.daemon("kopfexamples", registry=registry)
    async def daemon(stopped: Any, **_: Any) -> None:
        journal("started")
        try:
            await stopped.wait()
        finally:
            journal("stopped")

    original = Reconciler._detect

    async def detect(self: Any, turn: Any) -> Any:
        if turn.body.spec["n"] == 1 and "deletionTimestamp" not in turn.body.metadata:
            raise ZeroDivisionError
        return await original(self, turn)

    monkeypatch.setattr(Reconciler, "_detect", detect)
    async with operate() as operator:
        body = await cluster.create("a", n=0)
        await journal.until(lambda calls: "started" in calls)
        await cluster.patch("a", n=1)
        (intake,) = operator.handling.orchestrator.intakes.values()
        uid = body["metadata"]["uid"]
        await until(lambda: (item := intake.queue.get(uid)) is not None and item.held)
        await cluster.delete("a")
        await journal.until(lambda calls: "stopped" in calls)
