"""Pausing and resuming of the whole operator, gated and cold, under load."""

import asyncio
import random
import threading
from typing import Any

import pytest
from idleness import until

from kopf_core.engines.posting import event as post_event
from kopf_core.intents import decorators as on
from kopf_core.reactor.streams.queueing import WorkQueue

ROUNDS = 200
KEXES = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
MERGE = "application/merge-patch+json"


@pytest.fixture
def arrivals(monkeypatch, make_journal):
    """The names of the objects of the events that have come from the streams so far."""
    put, names = WorkQueue.put, make_journal()

    def note(queue: WorkQueue, key: Any, event: Any) -> None:
        put(queue, key, event)
        names(event["object"]["metadata"]["name"])

    monkeypatch.setattr(WorkQueue, "put", note)
    return names


def collect_daemons(counts: dict[str, int], journal: Any, registry: Any) -> None:
    """Daemons that count how many of them there are at once for one object."""

    @on.daemon("kopfexamples", registry=registry)
    async def daemon(name: str, stopped: Any, **_: Any) -> None:
        counts[name] = counts.get(name, 0) + 1
        assert counts[name] == 1
        journal(("spawned", name))
        try:
            await stopped.wait()
        finally:
            counts[name] -= 1


async def test_gated_pauses_handle_nothing_and_need_no_lists(
    cluster, operate, registry, journal, arrivals
):
    @on.create("kopfexamples", registry=registry)
    @on.update("kopfexamples", registry=registry)
    async def fn(name: str, spec: Any, **_: Any) -> None:
        journal((name, spec["n"]))

    await cluster.create("a", n=0)
    async with operate() as operator:
        await journal.until(lambda calls: ("a", 0) in calls)
        await cluster.sandbox.journal.arrived("GET", "*/kopfexamples", count=2)  # list and watch
        await operator.pause()
        since = cluster.sandbox.journal[-1].number
        for n in range(1, 10):
            await cluster.patch("a", n=n)
        await cluster.create("b", n=0)
        await arrivals.until(lambda names: "b" in names)  # it is the last one
        requests = cluster.sandbox.journal.select(path="*/kopfexamples*", since=since)
        assert len(requests) == 10  # those of ours only
        operator.resume()
        await journal.until(lambda calls: {("a", 9), ("b", 0)} <= {*calls})
    assert sorted(journal) == [("a", 0), ("a", 9), ("b", 0)]


@pytest.mark.parametrize("is_cold", [False, True], ids=["gated", "cold"])
async def test_daemons_stop_and_start_again_also_of_unchanged_objects(
    cluster, operate, registry, journal, arrivals, is_cold
):
    counts: dict[str, int] = {}
    collect_daemons(counts, journal, registry)
    for name in "abc":
        await cluster.create(name)
    async with operate() as operator:
        await journal.until(lambda calls: len(calls) == 3)
        await operator.pause(is_cold=is_cold)
        await cluster.delete("a")
        await cluster.create("d")
        if not is_cold:  # otherwise, it is listed when resumed
            await arrivals.until(lambda names: "d" in names)
        assert not any(counts.values())
        operator.resume()
        await journal.until(lambda calls: len(calls) == 6)
    assert sorted(name for _, name in journal[3:]) == ["b", "c", "d"]


async def test_pauses_last_until_all_their_reasons_are_over(
    cluster, operate, registry, settings, journal
):
    settings.peering.standalone = True  # it is one more reason in the beginning

    @on.event("kopfexamples", registry=registry)
    def fn(name: str, **_: Any) -> None:
        journal(name)

    async with operate() as operator:
        await operator.pause("one")
        await operator.pause("two")
        await cluster.create("a")
        operator.resume("one")
        operator.resume("unknown")
        assert operator.is_paused
        assert not journal
        operator.resume("two")
        assert not operator.is_paused
        await journal.until(lambda calls: "a" in calls)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1])
async def test_e_200_random_pauses_lose_nothing_and_repeat_nothing(
    cluster, operate, registry, settings, journal, seed
):
    """Every object is handled in its final state, never twice in the same one."""
    dice = random.Random(seed)
    settings.queueing.exit_timeout = 0.05
    counts: dict[str, int] = {}
    collect_daemons(counts, lambda _: None, registry)
    handled: list[tuple[str, int]] = []
    deleted: list[str] = []

    @on.create("kopfexamples", registry=registry)
    @on.update("kopfexamples", registry=registry)
    @on.resume("kopfexamples", registry=registry)
    async def fn(uid: str, spec: Any, **_: Any) -> None:
        handled.append((uid, spec["n"]))
        journal(uid)

    @on.delete("kopfexamples", registry=registry)
    async def gone(uid: str, **_: Any) -> None:
        deleted.append(uid)
        journal(uid)

    states: dict[str, tuple[str, int]] = {}
    created: list[str] = []
    removed: list[str] = []

    async def change() -> None:
        name = f"obj{dice.randrange(10)}"
        if name not in states:
            body = await cluster.create(name, n=0)
            created.append(body["metadata"]["uid"])
            states[name] = (body["metadata"]["uid"], 0)
        elif dice.random() < 0.15 and states[name][0] in {uid for uid, _ in handled}:
            await cluster.delete(name)
            uid, _ = states.pop(name)
            removed.append(uid)
            await journal.until(lambda _: operator.is_paused or uid in deleted)
            if operator.is_paused:
                operator.resume("test")
            await cluster.sandbox.wait("kopfexamples", name, gone=True)
        else:
            uid, n = states[name]
            await cluster.patch(name, n=n + 1)
            states[name] = (uid, n + 1)

    async with operate() as operator:
        for _ in range(ROUNDS):
            for _ in range(dice.randrange(3)):
                await change()
            await operator.pause("test", is_cold=dice.random() < 0.3)
            for _ in range(dice.randrange(3)):
                await change()
            operator.resume("test")
            for _ in range(dice.randrange(20)):
                await asyncio.sleep(0)
        final = {*states.values()}
        await journal.until(lambda _: final <= {*handled} and {*removed} <= {*deleted})
        await until(lambda: all(counts.get(name) == 1 for name in states))
    assert {uid for uid, _ in handled} == {*created}
    assert len(handled) == len({*handled})
    assert sorted(deleted) == sorted(removed)
    assert not any(counts.values())


async def test_indices_are_as_of_now_when_handlers_go_on_after_cold_pauses(
    cluster, operate, registry, journal
):
    """All kinds are listed anew: the handlers of one must not see the old indices of another."""

    @on.create("kopfexamples", registry=registry)
    @on.update("kopfexamples", registry=registry)
    async def fn(name: str, spec: Any, maps: Any, **_: Any) -> None:
        journal((name, spec["n"], sorted(value for values in maps.values() for value in values)))

    @on.index("configmaps", id="maps", registry=registry)
    async def index(name: str, body: Any, **_: Any) -> Any:
        return {name: body["data"]["n"]}

    async def put(n: str) -> None:
        url = "/api/v1/namespaces/default/configmaps"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}}
        if n == "0":
            await cluster.client.post(url, {**body, "data": {"n": n}})
        else:
            await cluster.client.put(f"{url}/map", {**body, "data": {"n": n}})

    await put("0")
    await cluster.create("a", n=0)
    async with operate() as operator:
        await journal.until(lambda calls: ("a", 0, ["0"]) in calls)
        await operator.pause(is_cold=True)
        await put("1")
        await cluster.patch("a", n=1)
        fault = cluster.sandbox.faults.hang(method="GET", path="*/configmaps*")
        operator.resume()
        async with asyncio.timeout(60):
            await cluster.sandbox.journal.arrived("GET", "*/configmaps*", count=3)
            await cluster.sandbox.journal.arrived("GET", "*/kopfexamples", count=4)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(journal) == 1
        fault.release()
        await journal.until(lambda calls: len(calls) == 2)
    assert journal == [("a", 0, ["0"]), ("a", 1, ["1"])]


async def test_sim2_handlers_find_their_operator_whoever_resumes_it(
    cluster, operate, registry, settings, journal
):
    """It is resumed by those who embed it, and not from inside of it."""
    settings.posting.enabled = True

    @on.create("kopfexamples", registry=registry)
    @on.update("kopfexamples", registry=registry)
    async def fn(body: Any, spec: Any, **_: Any) -> None:
        post_event(body, type="Normal", reason="Handled", message="")
        journal(spec["n"])

    await cluster.create("a", n=0)
    async with operate() as operator:
        await journal.until(lambda calls: 0 in calls)
        await operator.pause()
        await cluster.patch("a", n=1)
        [intake] = operator.handling.orchestrator.intakes.values()
        await until(lambda: any(item.events for item in intake.queue.items))
        operator.resume()
        await journal.until(lambda calls: 1 in calls)


@pytest.mark.parametrize("is_cold", [False, True])
async def test_k6_resuming_right_after_pausing_is_no_pause(
    cluster, operate, registry, journal, is_cold
):
    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    @on.daemon("kopfexamples", registry=registry)
    async def daemon(name: str, stopped: Any, **_: Any) -> None:
        journal(f"{name}'s daemon")
        await stopped.wait()

    await cluster.create("one")
    async with operate() as operator:
        await journal.until(lambda j: len(j) == 2)
        pausing = asyncio.create_task(operator.pause("test", is_cold=is_cold))
        asyncio.get_running_loop().call_soon(operator.resume, "test")
        await pausing
        assert not operator.is_paused
        await cluster.create("two")
        await journal.until(lambda j: {"two", "two's daemon"} <= {*j})
        await journal.until(lambda j: j.count("one's daemon") == 2)


@pytest.mark.parametrize("is_handled_by_others", [False, True])
async def test_k14_results_of_threads_are_kept_in_pauses_and_judged_after_them(
    cluster, operate, registry, settings, journal, caplog, is_handled_by_others
):
    """The thread lasts for longer than it may; meanwhile, others can handle the object, or not."""
    settings.queueing.exit_timeout = 0.001
    loop, release = asyncio.get_running_loop(), threading.Event()

    @on.create("kopfexamples", id="fn", registry=registry)
    def fn(patch: Any, **_: Any) -> str:
        loop.call_soon_threadsafe(journal, "fn")
        release.wait()
        patch.status["field"] = "value"
        return "result"

    @on.update("kopfexamples", registry=registry)
    async def updated(**_: Any) -> None:
        journal("updated")

    await cluster.create("one", n=1)
    try:
        async with operate() as operator:
            await journal.until(lambda j: j)
            await operator.pause("test", is_cold=True)  # nobody waits for the thread anymore
            before = await cluster.get("one")
            release.set()
            async with asyncio.timeout(60):
                while not operator.handling.orchestrator.is_idle:  # noqa: ASYNC110
                    await asyncio.sleep(0)
            assert await cluster.get("one") == before
            if is_handled_by_others:
                last = '{"spec":{"n":1}}\n'
                annotations = {"kopf.zalando.org/last-handled-configuration": last}
                patch = {"metadata": {"annotations": annotations}}
                await cluster.client.patch(f"{KEXES}/one", patch, content_type=MERGE)
            await cluster.patch("one", n=2)
            operator.resume("test")
            await journal.until(lambda j: "updated" in j)
    finally:
        release.set()
    status = (await cluster.get("one")).get("status")
    kept = {"field": "value", "fn": "result"}
    assert status == (None if is_handled_by_others else kept)
    assert journal == ["fn", "updated"]
    assert sum("outcomes of the handlers are not stored yet" in one for one in caplog.messages) == 1


async def test_sim11_objects_are_released_after_the_pause_in_which_their_daemons_have_ended(
    cluster, operate, registry, settings, journal
):
    settings.background.cancellation_polling = 3600  # the last resort
    gate = asyncio.Event()

    @on.daemon("kopfexamples", registry=registry, cancellation_timeout=None)
    async def daemon(stopped: Any, **_: Any) -> None:
        journal("begin")
        await stopped.wait()
        journal("stopping")
        await gate.wait()
        journal("end")

    async with operate() as operator:
        await cluster.create("one")
        await journal.until(lambda calls: "begin" in calls)
        await cluster.sandbox.wait(
            "kopfexamples", "one", check=lambda obj: "finalizers" in str(obj)
        )
        await cluster.delete("one")
        await journal.until(lambda calls: "stopping" in calls)
        await until(lambda: operator.handling.orchestrator.is_idle)
        await operator.pause("test")
        gate.set()
        await journal.until(lambda calls: "end" in calls)
        await until(lambda: not operator.handling.background.spawned)
        operator.resume("test")
        await until(lambda: not operator.essentials.memories)


async def test_sim24_no_daemons_start_for_objects_deleted_in_their_last_turn_before_a_pause(
    cluster, operate, registry, journal, arrivals
):
    gate = asyncio.Event()

    @on.event("kopfexamples", registry=registry)
    async def event(event: Any, **_: Any) -> None:
        journal(event["type"])
        await gate.wait()

    @on.daemon("kopfexamples", registry=registry)
    async def daemon(**_: Any) -> None:
        journal("daemon")

    async with operate() as operator:
        await cluster.create("one")
        await journal.until(lambda calls: len(calls) == 1)
        pausing = asyncio.create_task(operator.pause("test"))
        await cluster.delete("one")
        await arrivals.until(lambda names: len(names) == 2)
        gate.set()
        await pausing
        operator.resume("test")
        await until(lambda: operator.handling.orchestrator.is_idle)
        assert journal[1:] == ["DELETED"]
        assert not operator.essentials.memories


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_l2_lists_from_the_past_after_a_pause_repeat_no_handlers(
    cluster, operate, registry, journal, is_deleted
):
    """Servers without quorum reads can have such lists: it looks as if a backup was restored."""

    @on.create("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        journal("created")
        snapshots.extend(store.select(None))

    @on.index("kopfexamples", registry=registry)
    def lately(**_: Any) -> None:
        if is_past:
            is_past.clear()
            show(latest)  # the list is out already, and requests come to a better server
            if is_deleted:
                store.remove(latest.key)

    def show(stored: Any) -> None:
        store.objects[stored.key] = stored
        versions.current = stored.version

    snapshots: list[Any] = []
    is_past: list[bool] = []
    store = cluster.sandbox.cluster.registry.find("kopfexamples").resource.store
    versions = cluster.sandbox.cluster.versions
    async with operate() as operator:
        await cluster.create("one")
        await until(lambda: "last-handled" in str(store.select(None)[0].obj) and is_idle(operator))
        [latest] = store.select(None)
        await operator.pause(is_cold=True)
        is_past.append(True)
        show(snapshots[0])
        operator.resume()
        await until(lambda: not is_past and is_idle(operator))
    assert journal == ["created"]


def is_idle(operator: Any) -> bool:
    queues = [one.queue for one in operator.handling.orchestrator.intakes.values()]
    return bool(queues) and not any(map(len, queues))
