"""What daemons and timers change is sent while they go on working; and only what differs."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kopf_core.actions.errors import PermanentError
from kopf_core.actions.flushing import flush
from kopf_core.intents import decorators as on

KEX = "*/kopfexamples/a"


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Daemons in threads must end, even if the test fails."""
    event = threading.Event()
    yield event
    event.set()


async def test_k29_changes_of_async_daemons_are_sent_when_they_wait(cluster, operate, registry):
    @on.daemon("kopfexamples", registry=registry)
    async def daemon(stopped: Any, patch: Any, conditions: Any, **_: Any) -> None:
        patch.status["phase"] = "working"
        conditions.set("Ready", False)
        await stopped.wait()

    await cluster.create("a")
    async with operate():
        await cluster.sandbox.wait(
            "kopfexamples",
            "a",
            condition="Ready=False",
            jsonpath="{.status.phase}",
            value="working",
        )


async def test_k29_changes_of_sync_daemons_are_sent_when_they_wait(cluster, operate, registry):
    @on.daemon("kopfexamples", registry=registry)
    def daemon(stopped: Any, patch: Any, conditions: Any, **_: Any) -> None:
        conditions.set("Ready", False)
        stopped.wait()
        conditions.set("Ready", True)

    await cluster.create("a")
    async with operate():
        await cluster.sandbox.wait("kopfexamples", "a", condition="Ready=False")
    await cluster.sandbox.wait("kopfexamples", "a", condition="Ready=True")


async def test_k29_changes_are_sent_and_shown_when_flushed(cluster, operate, registry, journal):
    @on.daemon("kopfexamples", registry=registry)
    async def daemon(patch: Any, status: Any, **_: Any) -> None:
        for step in range(3):
            patch.status["step"] = step
            await flush()
            journal((dict(patch), status["step"]))
        await asyncio.Event().wait()

    await cluster.create("a")
    async with operate() as operator:
        await journal.until(lambda calls: len(calls) == 3)
        operator.abort()
    assert journal == [({}, 0), ({}, 1), ({}, 2)]
    assert (await cluster.get("a"))["status"]["step"] == 2


async def test_k29_changes_are_flushed_from_threads(cluster, operate, registry, release):
    @on.daemon("kopfexamples", registry=registry)
    def daemon(patch: Any, **_: Any) -> None:
        patch.status["step"] = 1
        flush()
        release.wait()

    await cluster.create("a")
    async with operate():
        await cluster.sandbox.wait("kopfexamples", "a", jsonpath="{.status.step}", value=1)
        release.set()


async def test_k29_nothing_is_sent_by_flushing_what_is_there_already(
    cluster, operate, registry, journal
):
    @on.daemon("kopfexamples", registry=registry)
    async def daemon(patch: Any, **_: Any) -> None:
        for _ in range(3):
            patch.status["step"] = 1
            await flush()
        journal("done")

    await cluster.create("a")
    async with operate():
        await journal.until(lambda calls: "done" in calls)
    sent = [entry.json for entry in cluster.sandbox.journal.select("PATCH", KEX)]
    assert [patch["status"] for patch in sent if "status" in patch] == [{"step": 1}]


async def test_k29_what_cannot_be_sent_is_sent_with_the_rest(cluster, operate, registry, settings):
    settings.networking.error_backoffs = []

    @on.daemon("kopfexamples", registry=registry, when=lambda meta, **_: meta.get("finalizers"))
    async def daemon(patch: Any, **_: Any) -> None:
        patch.status["one"] = 1
        with cluster.sandbox.faults.fail(500, method="PATCH", path=KEX):
            await flush()
        patch.status["two"] = 2
        await flush()

    @on.delete("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        pass

    await cluster.create("a")
    async with operate():
        body = await cluster.sandbox.wait("kopfexamples", "a", jsonpath="{.status.two}", value=2)
    assert body["status"] == {"one": 1, "two": 2}


async def test_k29_other_handlers_have_nothing_to_flush(cluster, operate, registry, journal):
    @on.create("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        try:
            await flush()
        except RuntimeError as e:
            journal(str(e))
        raise PermanentError("enough")

    await cluster.create("a")
    async with operate():
        await journal.until(lambda calls: calls)
    assert "only for daemons and timers" in journal[0]
