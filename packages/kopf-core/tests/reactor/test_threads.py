"""Sync handlers that wait for a thread when there is no time for them anymore."""

import asyncio
import threading
from typing import Any

import pytest
from idleness import until

from kopf_core.intents import decorators as on

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/op"
NAMES = ["one", "two", "three"]


class Busy:
    """The only thread there is, with one handler in it, until released."""

    def __init__(self, journal: Any) -> None:
        self._journal, self._loop = journal, asyncio.get_running_loop()
        self.release = threading.Event()

    def __call__(self, name: str, **_: Any) -> None:
        self._loop.call_soon_threadsafe(self._journal, name)
        self.release.wait()


@pytest.fixture
async def busy(journal, settings, registry):
    settings.execution.max_workers = 1
    settings.queueing.exit_timeout = 999
    busy = Busy(journal)
    on.create("kopfexamples", id="fn", registry=registry)(busy.__call__)
    yield busy
    busy.release.set()


async def wait_for_queue(operator: Any) -> None:
    """Until all the objects are in work: one in the thread, others wait for it."""
    waiting = operator.essentials.execution.door
    await until(lambda: len(waiting) >= len(NAMES))


@pytest.mark.docs("shutdown")
async def test_f3_r38_what_waits_for_a_thread_is_not_begun_at_exit(cluster, operate, journal, busy):
    for name in NAMES:
        await cluster.create(name)
    async with operate() as operator:
        await wait_for_queue(operator)
        await journal.until(lambda j: j)
        operator.stop()
        await until(lambda: len(operator.essentials.execution.door) <= 1)
        busy.release.set()
    assert len(journal) == 1
    marks = {name: (await cluster.get(name))["metadata"].get("annotations") for name in NAMES}
    assert [name for name in NAMES if marks[name]] == journal


async def test_f3_r38_what_waits_for_a_thread_is_not_begun_after_the_lease_is_lost(
    cluster, operate, journal, registry, settings, busy
):
    settings.leasing.name, settings.leasing.namespace = "op", "default"
    settings.leasing.retry_period = 0.01

    @on.timer("kopfexamples", registry=registry, interval=0.001)
    def timer(**_: Any) -> None:
        journal("timer")

    @on.following(registry=registry)
    async def following(**_: Any) -> None:
        journal("following")

    for name in NAMES:
        await cluster.create(name)
    async with operate() as operator:
        await wait_for_queue(operator)
        await journal.until(lambda j: {*NAMES} & {*j})
        del journal[:]
        spec = {"spec": {"holderIdentity": "other", "leaseDurationSeconds": 999}}
        merge = "application/merge-patch+json"
        await cluster.client.patch(LEASE, spec, content_type=merge)
        await until(lambda: len(operator.essentials.execution.door) <= 1)
        busy.release.set()
        await journal.until(lambda j: "following" in j)
    assert journal == ["following"]
