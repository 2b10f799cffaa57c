"""Informers and their pool: one stream for all who need it, started again whatever happens."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from idleness import until

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.parts import ALL_OBJECTS
from kopf_cogs.structs.resources import Resource
from kopf_core.reactor.streams import pool as pooling
from kopf_core.reactor.streams.informers import StreamKey
from kopf_core.reactor.streams.pool import InformerPool

KEX = Resource("kopf.dev", "v1", "kopfexamples", "KopfExample", namespaced=True)
ABSENT = Resource("kopf.dev", "v1", "absents", "Absent", namespaced=True)
ALL = StreamKey(KEX)


class Collector:
    """A subscriber that remembers everything, and can fail once in whatever way."""

    def __init__(self, journal: Any, error: BaseException | None = None) -> None:
        self.journal = journal
        self.error = error
        self.part = ALL_OBJECTS

    def on_event(self, key: Any, event: Any) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error
        self.journal((event["type"], event["object"]["metadata"]["name"]))

    def on_listed(self) -> None:
        self.journal("LISTED")

    def on_reversed(self) -> None:
        self.journal("REVERSED")

    async def drain(self) -> None:
        pass


def watches(cluster: Any) -> int:
    return sum("watch=true" in str(entry) for entry in cluster.sandbox.journal)


@pytest.fixture
async def lost() -> list[int]:
    return []


@pytest.fixture
async def pool(
    cluster: Any,
    settings: OperatorSettings,
    lost: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[InformerPool]:
    monkeypatch.setattr(pooling, "RESTART_BACKOFF", 0.01)
    settings.watching.reconnect_backoff = 0.01
    pool = InformerPool(cluster.client, settings, on_lost=lambda: lost.append(1))
    yield pool
    await pool.stop()


async def test_one_stream_serves_all_subscribers(pool, cluster, journal) -> None:
    await cluster.create("a")
    one, two = Collector(journal), Collector(journal)
    assert pool.subscribe(ALL, one) is pool.subscribe(ALL, two)
    await journal.until(lambda calls: len(calls) == 4)
    await cluster.create("b")
    await journal.until(lambda calls: len(calls) == 6)
    assert journal == [(None, "a")] * 2 + ["LISTED"] * 2 + [("ADDED", "b")] * 2
    assert len(pool.informers) == 1


async def test_late_subscribers_get_everything(pool, cluster, journal) -> None:
    await cluster.create("a")
    pool.subscribe(ALL, Collector(lambda item: journal(("early", item))))
    await journal.until(lambda calls: ("early", "LISTED") in calls)
    pool.subscribe(ALL, Collector(lambda item: journal(("late", item))))
    await journal.until(lambda calls: ("late", "LISTED") in calls)
    assert ("late", (None, "a")) in journal
    await cluster.delete("a")
    await journal.until(lambda calls: ("late", ("DELETED", "a")) in calls)
    assert journal.count(("early", ("DELETED", "a"))) == 1


async def test_the_stream_stops_with_its_last_subscriber(pool, cluster, journal) -> None:
    one, two = Collector(journal), Collector(journal)
    pool.subscribe(ALL, one)
    pool.subscribe(ALL, two)
    await pool.unsubscribe(ALL, one)
    assert ALL in pool.informers
    await pool.unsubscribe(ALL, two)
    assert ALL not in pool.informers


async def test_stores_are_kept_while_somebody_reads_them(pool, cluster, journal) -> None:
    await cluster.create("a")
    assert pool.find_store(ALL) is None
    store = pool.acquire_store(ALL)
    assert pool.acquire_store(ALL) is store is pool.find_store(ALL)
    async with asyncio.timeout(60):
        await store.wait_synced()
    assert store.find("default", "a") is not None
    await pool.release_store(ALL)
    assert pool.find_store(ALL) is store
    await pool.release_store(ALL)
    assert pool.find_store(ALL) is None
    assert ALL not in pool.informers


async def test_selected_objects_only(pool, cluster, journal) -> None:
    await cluster.create("a")
    await cluster.client.patch(
        "/apis/kopf.dev/v1/namespaces/default/kopfexamples/a",
        {"metadata": {"labels": {"x": "y"}}},
        content_type="application/merge-patch+json",
    )
    await cluster.create("b")
    store = pool.acquire_store(StreamKey(KEX, "default", "x=y"))
    async with asyncio.timeout(60):
        await store.wait_synced()
    assert [body["metadata"]["name"] for body in store.values()] == ["a"]


@pytest.mark.parametrize("error", [ZeroDivisionError(), asyncio.CancelledError()], ids=repr)
async def test_r18_failing_subscribers_do_not_end_the_stream(pool, cluster, journal, error):
    await cluster.create("a")
    pool.subscribe(ALL, Collector(journal, error))
    await journal.until(lambda calls: calls == [(None, "a"), "LISTED"])
    await cluster.create("b")
    await journal.until(lambda calls: ("ADDED", "b") in calls)


async def test_r3_a21_streams_cancelled_by_anybody_else_are_started_again(pool, cluster, journal):
    pool.subscribe(ALL, Collector(journal))
    await journal.until(lambda calls: calls == ["LISTED"])
    (task,) = [task for task in asyncio.all_tasks() if "kopf-informer" in task.get_name()]
    task.cancel()
    await journal.until(lambda calls: calls == ["LISTED", "LISTED"])


async def test_r3_nothing_is_started_after_the_stop(pool, cluster, journal) -> None:
    await pool.stop()
    pool.subscribe(ALL, Collector(journal))
    pool.reach(is_watching=True)
    assert not [task for task in asyncio.all_tasks() if "kopf-informer" in task.get_name()]


class Stubborn(Collector):
    """A subscriber in whose code the stream cannot be cancelled until it is released."""

    def __init__(self, journal: Any) -> None:
        super().__init__(journal)
        self.released = asyncio.Event()

    async def drain(self) -> None:
        self.journal("DRAINING")
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                pass
        raise asyncio.CancelledError


async def test_r16_streams_that_do_not_end_do_not_hold_the_stop(pool, cluster, journal, logged):
    stubborn = Stubborn(journal)
    pool.subscribe(ALL, stubborn)
    await journal.until(lambda calls: "DRAINING" in calls)
    async with asyncio.timeout(60):
        await pool.stop(0)
    stubborn.released.set()
    assert [line for line in logged() if "do not end" in line] == [
        "Some watch-streams do not end, and are left as they are: "
        "kopf-informer-kopfexamples.v1.kopf.dev-None."
    ]


async def test_f_absent_kinds_are_retried_and_told_of(pool, cluster, journal, lost) -> None:
    pool.subscribe(StreamKey(ABSENT), Collector(journal))
    await until(lambda: len(lost) >= 3)


async def test_suspended_streams_notice_deletions_when_resumed(pool, cluster, journal) -> None:
    await cluster.create("a")
    pool.subscribe(ALL, Collector(journal))
    await journal.until(lambda calls: "LISTED" in calls)
    pool.reach(is_watching=False)
    await pool.settle()
    await cluster.delete("a")
    pool.reach(is_watching=True)
    await journal.until(lambda calls: ("DELETED", "a") in calls)
