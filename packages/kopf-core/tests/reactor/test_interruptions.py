"""Interrupted turns: what was done in them until then is not done again."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kopf_core.actions.lifecycles import all_at_once
from kopf_core.intents import decorators as on
from kopf_core.reactor.object.subhandling import execute

KEX = "*/kopfexamples/a"
HANDLED = "kopf.zalando.org/last-handled-configuration"


def is_handled(body: Any) -> bool:
    return [*body["metadata"].get("annotations", ())] == [HANDLED]


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not check():  # noqa: ASYNC110
            await asyncio.sleep(0)


class Hanging:
    """It hangs when it is called for the first time, and never again."""

    def __init__(self, journal: Any) -> None:
        self._journal = journal

    async def __call__(self, **_: Any) -> None:
        self._journal("hanging")
        if self._journal.count("hanging") == 1:
            await asyncio.Event().wait()


@pytest.fixture(params=["exit", "pause"])
def interrupt(request, cluster, operate, settings, journal) -> Callable[[], Awaitable[None]]:
    """Handle an object until it hangs, interrupt that, and go on until all is handled."""
    settings.queueing.exit_timeout = 0
    options = {"lifecycle": all_at_once}

    async def interrupt() -> None:
        await cluster.create("a")
        async with operate(**options) as operator:
            await journal.until(lambda calls: "hanging" in calls)
            if request.param == "pause":
                await operator.pause()
                operator.resume()
                await cluster.sandbox.wait("kopfexamples", "a", is_handled)
        if request.param == "exit":
            async with operate(**options):
                await cluster.sandbox.wait("kopfexamples", "a", is_handled)

    return interrupt


async def test_k8_handlers_that_are_over_are_not_called_again(registry, journal, interrupt):
    @on.create("kopfexamples", registry=registry)
    async def quick(patch: Any, **_: Any) -> None:
        journal("quick")

    on.create("kopfexamples", id="hanging", registry=registry)(Hanging(journal).__call__)
    await interrupt()
    assert journal == ["quick", "hanging", "hanging"]


async def test_k8_subhandlers_that_are_over_are_not_called_again(registry, journal, interrupt):
    @on.create("kopfexamples", registry=registry)
    async def parent(**_: Any) -> None:
        async def quick(**_: Any) -> None:
            journal("quick")

        await execute(fns={"quick": quick, "hanging": Hanging(journal).__call__})

    await interrupt()
    assert journal == ["quick", "hanging", "hanging"]


async def test_k8_subhandlers_of_interrupted_parents_are_not_called_again(
    registry, journal, interrupt
):
    @on.create("kopfexamples", registry=registry)
    async def parent(**_: Any) -> None:
        async def quick(**_: Any) -> None:
            journal("quick")

        await execute(fns={"quick": quick})
        await Hanging(journal)()

    await interrupt()
    assert journal == ["quick", "hanging", "hanging"]


async def test_k8_patches_of_events_are_not_lost_when_changes_are_interrupted(
    cluster, registry, journal, interrupt
):
    @on.event("kopfexamples", registry=registry)
    async def event(patch: Any, type: Any, **_: Any) -> None:
        if type is None and "event" not in journal:
            journal("event")
            patch.metadata.labels["noticed"] = "yes"

    on.create("kopfexamples", id="hanging", registry=registry)(Hanging(journal).__call__)
    await interrupt()
    assert (await cluster.get("a"))["metadata"]["labels"] == {"noticed": "yes"}


async def test_k15_patches_on_their_way_are_sent_though_the_exit_is_hastened(
    cluster, operate, registry, journal, monkeypatch
):
    monkeypatch.setattr("kopf_core.reactor.life.handling.HURRY", 0)

    @on.create("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        journal("fn")

    requests = cluster.sandbox.journal
    await cluster.create("a")
    with cluster.sandbox.faults.hang(method="PATCH", path=KEX, times=1):
        async with operate() as operator:
            await requests.arrived("PATCH", KEX)
            since = requests[-1].number
            operator.stop()
            operator.abort()
            await requests.arrived("PATCH", KEX, since=since)
            operator.abort()  # in the middle of the last patch, too
    async with operate():
        await cluster.sandbox.wait("kopfexamples", "a", is_handled)
    assert journal == ["fn"]


async def test_k15_patches_on_their_way_are_not_cut_to_be_sent_again(
    cluster, operate, registry, settings, journal
):
    settings.queueing.exit_timeout = 0

    @on.create("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        journal("fn")

    await cluster.create("a")
    requests = cluster.sandbox.journal
    with cluster.sandbox.faults.delay(0.1, method="PATCH", path=KEX):
        async with operate():
            await requests.arrived("PATCH", KEX)
    assert len(requests.select("PATCH", KEX)) == 1
    assert is_handled(await cluster.get("a"))


async def test_k15_what_is_answered_is_not_sent_again_in_the_last_moment(
    cluster, operate, registry, settings, make_definition
):
    settings.queueing.exit_timeout = 0
    await cluster.redefine(make_definition("v1", subresources={"status": {}}))

    @on.create("kopfexamples", id="fn", registry=registry)
    async def fn(patch: Any, **_: Any) -> str:
        patch.status["noticed"] = "yes"
        return "result"

    await cluster.create("a")
    requests = cluster.sandbox.journal
    with cluster.sandbox.faults.hang(method="PATCH", path=KEX, times=1):
        async with operate():
            await requests.arrived("PATCH", KEX)
    assert len(requests.select("PATCH", f"{KEX}/status")) == 1
    assert len(requests.select("PATCH", KEX)) == 2
    body = await cluster.get("a")
    assert is_handled(body)
    assert body["status"] == {"noticed": "yes", "fn": "result"}


async def test_k15_patches_do_not_wait_for_each_other_in_the_last_moment(
    cluster, operate, registry, settings, journal, monkeypatch
):
    monkeypatch.setattr("kopf_cogs.clients.slots.LIMIT", 1)
    monkeypatch.setattr("kopf_cogs.clients.slots.USUAL", 1)
    settings.queueing.exit_timeout = 0

    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    with cluster.sandbox.faults.hang(method="PATCH", path=KEX):
        async with operate():
            await cluster.create("a")
            await cluster.sandbox.journal.arrived("PATCH", KEX)
            await cluster.create("b")
            await cluster.create("c")
            await journal.until(lambda calls: len(calls) == 3)
    assert is_handled(await cluster.get("b"))
    assert is_handled(await cluster.get("c"))


async def test_k15_subhandlers_begin_at_the_exit_so_that_their_parents_are_not_repeated(
    cluster, operate, registry, settings, journal
):
    settings.execution.max_workers = 1
    settings.queueing.exit_timeout = 999
    loop, release = asyncio.get_running_loop(), threading.Event()

    @on.create("kopfexamples", registry=registry, when=lambda spec, **_: spec["kind"] == "busy")
    def busy(**_: Any) -> None:
        loop.call_soon_threadsafe(journal, "busy")
        release.wait()

    @on.create("kopfexamples", registry=registry, when=lambda spec, **_: spec["kind"] == "parent")
    async def parent(**_: Any) -> None:
        journal("parent")
        await execute(fns={"sub": lambda **_: loop.call_soon_threadsafe(journal, "sub")})

    async with operate() as operator:
        waiting = operator.essentials.execution.door
        try:
            for name in ("b", "c"):
                await cluster.create(name, kind="busy")
            await until(lambda: len(waiting) == 2)  # one of them works, the other one waits
            await journal.until(lambda calls: "busy" in calls)  # its thread can be slow to start
            await cluster.create("a", kind="parent")
            await journal.until(lambda calls: "parent" in calls)
            operator.stop()
            await until(lambda: len(waiting) == 1)  # what had to wait is taken back
        finally:
            release.set()
    assert journal == ["busy", "parent", "sub"]
    assert is_handled(await cluster.get("a"))
