"""Daemons that linger after they are asked to stop hold up only the removal of the finalizer."""

import asyncio
from typing import Any

import pytest

from kopf_core.intents import decorators as on

FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
ANNOTATION = "kopf.zalando.org/fn"


@pytest.fixture
def lingering(registry, journal):
    """What lets the daemons of the objects go; the daemons are for objects that are ``on``."""
    release = asyncio.Event()

    @on.daemon("kopfexamples", registry=registry, when=lambda spec, **_: spec.get("on"))
    async def daemon(stopped: Any, **_: Any) -> None:
        journal("spawned")
        await stopped.wait()
        await release.wait()
        journal("ended")

    return release


@pytest.fixture
def finalizers(registry, journal):
    """Whether the object has our finalizer, as it comes in the stream."""
    states = []

    @on.event("kopfexamples", registry=registry)
    async def event(body: Any, type: Any, **_: Any) -> None:
        states.append(FINALIZER in body.metadata.get("finalizers", []))
        journal(("finalizer", states[-1]) if type != "DELETED" else "gone")

    return states


async def test_k3_changes_are_handled_while_a_daemon_lingers(
    cluster, operate, registry, journal, lingering, finalizers
):
    @on.update("kopfexamples", registry=registry)
    async def fn(spec: Any, **_: Any) -> None:
        journal(("update", spec["n"]))

    await cluster.create("a", on=True, n=0)
    async with operate():
        await journal.until(lambda calls: {"spawned", ("finalizer", True)} <= {*calls})
        await cluster.patch("a", on=False, n=1)
        await journal.until(lambda calls: ("update", 1) in calls)
        await cluster.patch("a", n=2)
        await journal.until(lambda calls: ("update", 2) in calls)
        assert "ended" not in journal
        assert finalizers[-1] is True
        lingering.set()
        await journal.until(lambda calls: calls[-1] == ("finalizer", False))
    assert "ended" in journal
    assert [call for call in journal if call[0] == "update"] == [("update", 1), ("update", 2)]


async def test_k3_deletions_are_handled_while_a_daemon_lingers(
    cluster, operate, registry, journal, lingering, finalizers
):
    @on.delete("kopfexamples", id="fn", registry=registry)
    async def fn(**_: Any) -> None:
        journal("deleted")

    await cluster.create("a", on=True)
    async with operate():
        await journal.until(lambda calls: {"spawned", ("finalizer", True)} <= {*calls})
        await cluster.delete("a")
        await journal.until(lambda calls: "deleted" in calls)
        await cluster.patch("a", n=1)  # it is there still, and nothing is repeated for that
        await cluster.sandbox.wait(
            "kopfexamples", "a", lambda body: ANNOTATION in body["metadata"]["annotations"]
        )
        assert "ended" not in journal
        lingering.set()
        await journal.until(lambda calls: "gone" in calls)
    assert [call for call in journal if isinstance(call, str)] == [
        "spawned",
        "deleted",
        "ended",
        "gone",
    ]


async def test_k3_deletions_that_wait_for_a_daemon_are_not_handled_again_after_restarts(
    cluster, operate, registry, journal, lingering, finalizers
):
    @on.delete("kopfexamples", id="fn", registry=registry)
    async def fn(**_: Any) -> None:
        journal("deleted")

    await cluster.create("a", on=True)
    async with operate() as operator:
        await journal.until(lambda calls: {"spawned", ("finalizer", True)} <= {*calls})
        await cluster.delete("a")
        await cluster.sandbox.wait(
            "kopfexamples", "a", lambda body: ANNOTATION in body["metadata"]["annotations"]
        )
        operator.abort()
    assert (await cluster.get("a"))["metadata"]["finalizers"] == [FINALIZER]
    async with operate():
        await cluster.sandbox.wait("kopfexamples", "a", gone=True)
    assert journal.count("deleted") == 1
