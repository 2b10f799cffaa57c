"""A namespace with many objects, and its neighbours with a few: how many turns come before theirs.

Everything is counted: in turns of others, and in rounds of the event loop.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from idleness import until

from kopf_cogs.clients import reflector
from kopf_core.intents import decorators as on
from kopf_core.reactor.streams import queueing
from kopf_core.reactor.streams.places import BURST, HEADROOM, PORTION, Gate
from kopf_core.reactor.streams.queueing import WorkQueue
from kopf_core.reactor.streams.work import DONE, TurnResult, WorkItem

FLOOD = 3000


def make_event(namespace: str | None, type: Any = "MODIFIED") -> Any:
    metadata = {"resourceVersion": "1"} | ({"namespace": namespace} if namespace else {})
    return {"type": type, "object": {"metadata": metadata}}


class Turns:
    """The turns of all objects; each takes several rounds of the loop."""

    def __init__(self, limit: int | None, *, rounds: int = 3) -> None:
        self.begun: list[str] = []
        self.working = self.peak = 0
        self._rounds = rounds
        self._changed = asyncio.Event()
        self.queue = WorkQueue(self._process, limit=limit)
        self.queue.reach(Gate.OPEN)

    async def _process(self, item: WorkItem) -> TurnResult:
        item.events.clear()
        self.begun.append(str(item.key))
        self.working += 1
        self.peak = max(self.peak, self.working)
        self._changed.set()
        for _ in range(self._rounds):
            await asyncio.sleep(0)
        self.working -= 1
        return DONE

    async def until_begun(self, key: str) -> None:
        while key not in self.begun:
            self._changed.clear()
            await self._changed.wait()

    def flood(self, namespace: str | None, count: int = FLOOD, type: Any = "MODIFIED") -> None:
        for number in range(count):
            self.queue.put(f"{namespace}{number}", make_event(namespace, type))

    def put(self, key: str, namespace: str | None, type: Any = "MODIFIED") -> None:
        self.queue.put(key, make_event(namespace, type))

    async def count_before(self, key: str) -> int:
        await self.until_begun(key)
        return self.begun.index(key)


@pytest.fixture
async def make_turns() -> AsyncIterator[Callable[..., Turns]]:
    made: list[Turns] = []

    def make(limit: int | None, **kwargs: Any) -> Turns:
        made.append(Turns(limit, **kwargs))
        return made[-1]

    yield make
    for turns in made:
        await turns.queue.close(0)


@pytest.mark.parametrize("limit", [1, 5, None])
@pytest.mark.parametrize("kind", ["MODIFIED", None])
async def test_o_a_change_waits_for_a_few_turns_of_a_flood_in_another_namespace(
    make_turns: Callable[..., Turns], limit: int | None, kind: Any
) -> None:
    turns = make_turns(limit)
    turns.flood("a", type=kind)
    turns.put("new", "b")
    assert await turns.count_before("new") <= (limit or BURST) + 3


@pytest.mark.parametrize("limit", [1, 5, None])
async def test_o_a_listed_object_waits_for_a_few_listed_objects_of_another_namespace(
    make_turns: Callable[..., Turns],
    limit: int | None,
) -> None:
    turns = make_turns(limit)
    turns.flood("a", type=None)
    turns.put("new", "b", type=None)
    assert await turns.count_before("new") <= (limit or BURST) + 3


async def test_o_many_namespaces_wait_for_each_other_and_not_for_their_objects(
    make_turns: Callable[..., Turns],
) -> None:
    turns = make_turns(1)
    for number in range(20):
        turns.flood(f"n{number}-", 100)
    turns.put("new", "b")
    assert await turns.count_before("new") <= 30


async def test_o_a_flooded_namespace_goes_on_though_others_always_have_something(
    make_turns: Callable[..., Turns],
) -> None:
    """One of several places goes to whoever waits for the longest."""
    turns = make_turns(1)
    turns.flood("a", 100)
    for number in range(1000):
        turns.put(f"b{number}", f"n{number}")
        await turns.until_begun(turns.begun[-1] if turns.begun else "a0")
        await asyncio.sleep(0)
    await turns.until_begun("a99")
    assert turns.begun.index("a99") <= 4 * 100 + 4


async def test_o_without_a_limit_a_few_turns_begin_in_one_round_of_the_loop(
    make_turns: Callable[..., Turns],
) -> None:
    turns = make_turns(None)
    turns.flood("a")
    await turns.until_begun(f"a{FLOOD - 1}")
    assert turns.peak <= BURST + PORTION * 6


async def test_o_without_a_limit_turns_that_wait_hold_up_nobody(
    make_turns: Callable[..., Turns],
) -> None:
    turns = make_turns(None, rounds=10**9)
    turns.flood("a", 500)
    turns.flood("b", 500, type=None)
    await turns.until_begun("a499")
    await turns.until_begun("b499")
    assert turns.working == 1000


async def make_namespaces(cluster: Any, *names: str) -> None:
    for name in names:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await cluster.client.post("/api/v1/namespaces", body)


async def make_object(cluster: Any, namespace: str, name: str) -> None:
    body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": name}}
    url = f"/apis/kopf.dev/v1/namespaces/{namespace}/kopfexamples"
    await cluster.client.post(url, body)


async def test_o_changes_are_handled_before_the_end_of_a_list_that_takes_long(
    cluster: Any,
    operate: Any,
    registry: Any,
    settings: Any,
    journal: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The handlers of listed objects never end here, so neither does the list."""
    monkeypatch.setattr(queueing, "WORKING_PATIENCE", 1e9)
    monkeypatch.setattr(reflector, "LONG_LIST", 0)
    settings.watching.chunk_size = 50
    settings.queueing.exit_timeout = 0
    last, names = "z-last", [f"a{number}" for number in range(HEADROOM + 60)]

    @on.create("kopfexamples", registry=registry)
    async def fn(namespace: str, name: str, **_: Any) -> None:
        journal(name)
        if namespace == "flooded":
            await asyncio.Event().wait()

    await make_namespaces(cluster, "flooded", "other")
    await asyncio.gather(*(make_object(cluster, "flooded", name) for name in [*names, last]))
    async with operate(clusterwide=True):
        await journal.until(lambda calls: len(calls) > HEADROOM)
        await make_object(cluster, "other", "new")
        await journal.until(lambda calls: "new" in calls)
        assert last not in journal


async def test_o_sync_handlers_of_a_namespace_wait_for_a_few_of_another_one(
    cluster: Any, operate: Any, registry: Any, settings: Any, journal: Any
) -> None:
    settings.execution.max_workers = 1
    loop, release, names = asyncio.get_running_loop(), threading.Event(), range(30)

    @on.create("kopfexamples", registry=registry)
    def fn(name: str, **_: Any) -> None:
        loop.call_soon_threadsafe(journal, name)
        release.wait()

    await make_namespaces(cluster, "flooded", "other")
    async with operate(clusterwide=True) as operator:
        waiting = operator.essentials.execution.door
        try:
            for number in names:
                await make_object(cluster, "flooded", f"f{number}")
            await until(lambda: len(waiting) == len(names))
            await make_object(cluster, "other", "new")
            await until(lambda: len(waiting) == len(names) + 1)
        finally:
            release.set()
        await journal.until(lambda calls: "new" in calls)
    assert journal.index("new") <= 3
