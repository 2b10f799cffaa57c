"""Backups that are restored while the operator runs: the objects are as they were long ago."""

import asyncio
import bisect
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from idleness import until

from kopf_core.actions.errors import TemporaryError
from kopf_core.intents import decorators as on

GUARD = "others.example/guard"
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
RAISED = 10_000


class Backups:
    """Makes and restores backups of objects, as with etcd: versions go on from higher."""

    def __init__(self, cluster: Any, operator: Any) -> None:
        self._cluster = cluster
        self._operator = operator
        self._store = cluster.sandbox.cluster.registry.find("kopfexamples").resource.store

    async def make(self, check: Callable[[Any], object]) -> Any:
        """What is stored as soon as it is so and the operator has nothing to do."""
        await until(lambda: check(self.get().obj) and self.is_idle())
        return self.get()

    async def restore(self, backup: Any, *, touched: bool) -> None:
        """If touched, somebody has changed the object since then: its version is high, too."""
        if backup.key not in self._store.objects:
            bisect.insort(self._store._keys, backup.key)
        self._store.objects[backup.key] = backup
        self._cluster.sandbox.cluster.versions.current += RAISED
        self._cluster.sandbox.compact()
        if touched:
            await self._cluster.sandbox.patch(
                "kopfexamples", "one", {"metadata": {"labels": {"touched": "yes"}}}
            )
        self._cluster.sandbox.cut_watches()

    def get(self, name: str = "one") -> Any:
        [stored] = [one for one in self._store.select(None) if one.obj["metadata"]["name"] == name]
        return stored

    def list_events(self, name: str) -> list[str | None]:
        """The types of the events which wait for the turn of the object."""
        items = [item for queue in self._queues for item in queue.items]
        waiting = [event for item in items for event in item.events]
        return [one["type"] for one in waiting if one["object"]["metadata"]["name"] == name]

    def is_idle(self) -> bool:
        return bool(self._queues) and all(not len(queue) for queue in self._queues)

    @property
    def _queues(self) -> list[Any]:
        return [one.queue for one in self._operator.handling.orchestrator.intakes.values()]


def finalizers(obj: Any) -> list[str]:
    return obj["metadata"].get("finalizers") or []


async def create(cluster: Any) -> None:
    await cluster.create("one")
    await cluster.sandbox.patch("kopfexamples", "one", {"metadata": {"finalizers": [GUARD]}})


@pytest.mark.parametrize("touched", [False, True])
async def test_sim5_objects_restored_from_before_their_deletion_have_daemons_again(
    cluster, operate, registry, journal, touched
):
    @on.daemon("kopfexamples", registry=registry)
    async def daemon(stopped: Any, **_: Any) -> None:
        journal("begin")
        await stopped.wait()
        journal("end")

    async with operate() as operator:
        backups = Backups(cluster, operator)
        await create(cluster)
        alive = await backups.make(lambda obj: len(finalizers(obj)) == 2 and "begin" in journal)
        await cluster.delete("one")
        await backups.make(lambda obj: finalizers(obj) == [GUARD])
        await backups.restore(alive, touched=touched)
        await journal.until(lambda calls: calls == ["begin", "end", "begin"])
        await cluster.delete("one")
        await backups.make(lambda obj: finalizers(obj) == [GUARD])
    assert journal == ["begin", "end"] * 2


@pytest.mark.parametrize("touched", [False, True])
async def test_sim6_objects_restored_from_before_their_release_are_released_again(
    cluster, operate, registry, journal, touched
):
    @on.delete("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        journal("deleted")
        if len(journal) == 1:
            leaving.append(backups.get())

    leaving: list[Any] = []
    async with operate() as operator:
        backups = Backups(cluster, operator)
        await create(cluster)
        await backups.make(lambda obj: len(finalizers(obj)) == 2)
        await cluster.delete("one")
        await backups.make(lambda obj: finalizers(obj) == [GUARD])
        await backups.restore(leaving[0], touched=touched)
        await backups.make(lambda obj: finalizers(obj) == [GUARD])


@pytest.mark.parametrize("touched", [False, True])
async def test_sim6_deletions_are_handled_again_if_restored_from_before_them(
    cluster, operate, registry, journal, touched
):
    @on.create("kopfexamples", registry=registry)
    @on.update("kopfexamples", registry=registry)
    @on.delete("kopfexamples", registry=registry)
    async def fn(reason: str, **_: Any) -> None:
        journal(str(reason))

    async with operate() as operator:
        backups = Backups(cluster, operator)
        await create(cluster)
        alive = await backups.make(lambda obj: "last-handled" in str(obj) and journal)
        await cluster.delete("one")
        await backups.make(lambda obj: finalizers(obj) == [GUARD])
        await backups.restore(alive, touched=touched)
        await cluster.patch("one", n=1)
        await journal.until(lambda calls: calls[-1] == "update")
        await cluster.delete("one")
        await backups.make(lambda obj: finalizers(obj) == [GUARD])
    assert journal[-1] == "delete"


async def test_sim9_progress_brought_back_by_backups_is_removed(
    cluster, operate, registry, journal
):
    """Otherwise, the next change finds handlers that have succeeded already."""

    @on.create("kopfexamples", registry=registry, id="fn")
    async def fn(**_: Any) -> None:
        journal("created")

    progress = {"purpose": "update", "retries": 1, "success": True, "failure": False}
    name = "kopf.zalando.org/fn"
    async with operate() as operator:
        backups = Backups(cluster, operator)
        await cluster.create("one")
        handled = await backups.make(lambda obj: "last-handled" in str(obj))
        obj = copy.deepcopy(handled.obj)  # as it is when a change is reverted amid its cycle
        obj["metadata"]["annotations"][name] = json.dumps(progress)
        await cluster.sandbox.patch("kopfexamples", "one", {"metadata": {"labels": {"later": "1"}}})
        later = await backups.make(lambda obj: "later" in str(obj["metadata"]["annotations"]))
        assert later.obj != obj
        await backups.restore(type(handled)(handled.key, handled.version, obj), touched=False)
        await backups.make(lambda obj: name not in obj["metadata"]["annotations"])


async def test_sim9_progress_that_comes_late_is_removed(cluster, operate, registry):
    """A crashed operator can have sent it: it arrives when the next one has finished already."""

    @on.create("kopfexamples", registry=registry, id="fn")
    async def fn(**_: Any) -> None:
        pass

    progress = {"purpose": "create", "retries": 1, "success": True, "failure": False}
    name = "kopf.zalando.org/fn"
    async with operate() as operator:
        backups = Backups(cluster, operator)
        await cluster.create("one")
        await backups.make(lambda obj: "last-handled" in str(obj))
        late = {"metadata": {"annotations": {name: json.dumps(progress)}}}
        await cluster.sandbox.patch("kopfexamples", "one", late)
        await backups.make(lambda obj: name not in obj["metadata"]["annotations"])


@pytest.mark.parametrize("touched", [False, True])
async def test_sim14_changes_are_handled_if_the_deletion_is_undone_while_a_daemon_lingers(
    cluster, operate, registry, journal, touched
):
    """Also if the operator has not changed the object yet: it knows no version of its own then."""
    released = asyncio.Event()
    released.set()

    @on.update("kopfexamples", registry=registry)
    async def fn(spec: Any, **_: Any) -> None:
        journal(spec["n"])

    @on.daemon("kopfexamples", registry=registry)
    async def daemon(stopped: Any, **_: Any) -> None:
        journal("begin")
        await stopped.wait()
        journal("end")
        await released.wait()

    async with operate() as operator:
        await create(cluster)
        handled = await Backups(cluster, operator).make(lambda obj: "last-handled" in str(obj))
    released.clear()
    async with operate() as operator:
        backups = Backups(cluster, operator)
        await journal.until(lambda calls: calls == ["begin", "end", "begin"])
        await cluster.delete("one")
        await journal.until(lambda calls: calls == ["begin", "end"] * 2)
        await backups.restore(handled, touched=touched)
        await cluster.patch("one", n=1)
        await journal.until(lambda calls: 1 in calls)
        released.set()
    assert journal.count(1) == 1


@pytest.mark.parametrize("touched", [False, True])
async def test_sim22_changes_amid_a_cycle_are_handled_also_if_a_backup_brings_the_cycle_back(
    cluster, operate, registry, journal, touched
):
    """The operator remembers what the handlers have seen in a later cycle than the restored one."""

    @on.create("kopfexamples", registry=registry, id="first")
    @on.update("kopfexamples", registry=registry, id="first")
    async def first(old: Any, spec: Any, **_: Any) -> None:
        journal(f"first: {(old or {}).get('spec')} to {spec['n']}")
        if list(journal).count(change) == 1:
            raise TemporaryError("not before the backup is restored", delay=3600)

    @on.create("kopfexamples", registry=registry, id="second")
    @on.update("kopfexamples", registry=registry, id="second")
    async def second(retry: int, **_: Any) -> None:
        if not retry:
            await cluster.patch("one", n=1)
            raise TemporaryError("not before the change is seen", delay=0)
        amid.append(backups.get())

    change = "first: {'n': 0} to 1"
    amid: list[Any] = []
    async with operate() as operator:
        backups = Backups(cluster, operator)
        await cluster.create("one", n=0)
        await journal.until(lambda calls: change in calls)
        await until(lambda: "not before the backup" in str(backups.get().obj))
        await backups.restore(amid[0], touched=touched)
        await journal.until(lambda calls: calls.count(change) == 2)
        await backups.make(lambda obj: "seen-states" not in str(obj))
    assert len(amid) == 2


@pytest.mark.parametrize("is_deleted_again", [False, True])
async def test_sim29_objects_deleted_and_restored_before_their_first_turn_are_handled(
    cluster, operate, registry, journal, settings, is_deleted_again
):
    """The deletion and the older state come to one turn: only the API knows which one is true."""
    settings.queueing.worker_limit = 1
    released = asyncio.Event()

    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)
        if name == "one":
            await released.wait()

    async with operate() as operator:
        backups = Backups(cluster, operator)
        await cluster.create("one")
        await journal.until(lambda calls: "one" in calls)
        await cluster.create("two")
        backup = backups.get("two")
        await cluster.delete("two")
        await until(lambda: backups.list_events("two") == ["DELETED"])
        await backups.restore(backup, touched=False)
        await until(lambda: backups.list_events("two") == ["DELETED", None])
        if is_deleted_again:
            cluster.sandbox.faults.hold(path="*/kopfexamples")
            await cluster.delete("two")
        released.set()
        await until(backups.is_idle)
    assert journal == (["one"] if is_deleted_again else ["one", "two"])
