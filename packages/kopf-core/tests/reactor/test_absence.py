"""Objects which the API does not know for some time: are they gone, or is it mistaken?"""

import json
import logging
from typing import Any

import pytest
from idleness import until

from kopf_core.intents import decorators as on

OBJECT = "/apis/kopf.dev/v1/namespaces/default/kopfexamples/one"
NAMED: Any = {"kind": "Status", "code": 404, "reason": "NotFound", "details": {"name": "one"}}
MISTAKES = [b"404 page not found\n", json.dumps(NAMED).encode()]


def is_idle(operator: Any) -> bool:
    return all(intake.queue.is_idle for intake in operator.handling.orchestrator.intakes.values())


@pytest.mark.parametrize("body", MISTAKES)
async def test_k5_objects_said_to_be_absent_are_handled_when_they_change(
    cluster, operate, registry, settings, journal, logged, body
):
    settings.queueing.error_delays = [0.01]

    @on.create("kopfexamples", registry=registry)
    async def create(spec: Any, **_: Any) -> None:
        journal(("create", spec["n"]))

    @on.update("kopfexamples", registry=registry)
    async def update(spec: Any, **_: Any) -> None:
        journal(("update", spec["n"]))

    async with operate() as operator:
        with cluster.sandbox.faults.fail(404, path=OBJECT, body=body) as fault:
            await cluster.create("one", n=0)
            await until(lambda: fault.hits and is_idle(operator))
        await cluster.patch("one", n=1)
        await journal.until(lambda calls: any(n == 1 for _, n in calls))
    assert not [text for text in logged(logging.WARNING) if "was removed" in text]  # nobody did it
    lists = cluster.sandbox.journal.select("GET", "*/kopfexamples")
    assert len([entry for entry in lists if "watch" not in entry.query]) == 1


async def test_k5_objects_of_which_nothing_is_said_are_not_starved(
    cluster, operate, registry, settings, journal
):
    """With nothing happening to the object since then: nobody else would remind of it."""
    settings.queueing.error_delays = [0.01]

    @on.create("kopfexamples", registry=registry)
    async def create(patch: Any, **_: Any) -> None:
        patch.metadata.annotations["seen"] = "yes"
        journal("create")

    async with operate() as operator:
        with cluster.sandbox.faults.fail(404, path=OBJECT, body=MISTAKES[0]) as fault:
            await cluster.create("one")
            await until(lambda: fault.hits and is_idle(operator))
        path = "{.metadata.annotations.seen}"
        await cluster.sandbox.wait("kopfexamples", "one", jsonpath=path, value="yes")
    assert journal == ["create"]


async def test_sim1_late_changes_of_absent_objects_are_not_handled(
    cluster, operate, registry, settings, journal
):
    """The stream can bring what was before the deletion; the API is asked if it is so."""
    settings.queueing.error_delays = [0.01]

    @on.create("kopfexamples", registry=registry)
    async def create(**_: Any) -> None:
        journal("create")

    async with operate() as operator:
        body = json.dumps(NAMED).encode()
        with cluster.sandbox.faults.fail(404, path=OBJECT, body=body) as fault:
            await cluster.create("one", n=0)
            await until(lambda: fault.hits and is_idle(operator))
            hits = fault.hits
            await cluster.sandbox.patch("kopfexamples", "one", {"spec": {"n": 1}})
            await until(lambda: fault.hits > hits and is_idle(operator))
            assert journal == ["create"]
        await cluster.patch("one", n=2)
        await journal.until(lambda calls: len(calls) == 2)


async def test_sim4_late_changes_of_replaced_objects_are_not_handled(
    cluster, operate, registry, settings, journal
):
    """There can be another object of that name already: the absent one is absent still."""
    settings.queueing.error_delays = [0.01]
    metadata = {"name": "one", "namespace": "default", "uid": "other", "resourceVersion": "1"}
    other = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": metadata}
    absent, body = json.dumps(NAMED).encode(), json.dumps(other).encode()

    @on.create("kopfexamples", registry=registry)
    async def create(**_: Any) -> None:
        journal("create")

    faults = cluster.sandbox.faults
    async with operate() as operator:
        with (
            faults.fail(404, path=OBJECT, method="PATCH", body=absent) as fault,
            faults.fail(200, path=OBJECT, method="GET", body=body) as look,
        ):
            await cluster.create("one", n=0)
            await until(lambda: fault.hits and is_idle(operator))
            await cluster.sandbox.patch("kopfexamples", "one", {"spec": {"n": 1}})
            await until(lambda: look.hits and is_idle(operator))
            assert journal == ["create"]
        await cluster.patch("one", n=2)
        await journal.until(lambda calls: len(calls) == 2)


async def test_sim7_looks_interrupted_by_pauses_are_repeated_after_them(
    cluster, operate, registry, settings, journal
):
    """Otherwise, the object is taken for absent until its next change."""
    settings.queueing.error_delays = [0.01]
    settings.queueing.exit_timeout = 0

    @on.create("kopfexamples", registry=registry)
    async def create(spec: Any, **_: Any) -> None:
        journal(spec["n"])

    faults, body = cluster.sandbox.faults, json.dumps(NAMED).encode()
    async with operate() as operator:
        with faults.fail(404, path=OBJECT, body=body) as absent:
            await cluster.create("one", n=0)
            await until(lambda: absent.hits and is_idle(operator))
        with faults.delay(3600, path=OBJECT, method="GET") as look:
            await cluster.patch("one", n=1)
            await until(lambda: look.hits)
            await operator.pause("test")
        operator.resume("test")
        await journal.until(lambda calls: calls[-1] == 1)


async def test_sim13_late_changes_of_released_objects_start_no_daemons(
    cluster, operate, registry, journal
):
    """The object is there still by the finalizer of others; the stream is behind our requests."""

    @on.daemon("kopfexamples", registry=registry)
    async def daemon(stopped: Any, **_: Any) -> None:
        journal("begin")
        await stopped.wait()
        journal("end")

    async with operate() as operator:
        guard = {"metadata": {"finalizers": ["others.example/guard"]}}
        await cluster.create("one")
        await cluster.sandbox.patch("kopfexamples", "one", guard)
        early = await cluster.sandbox.wait(
            "kopfexamples", "one", lambda obj: len(obj["metadata"]["finalizers"]) == 2
        )
        await cluster.delete("one")
        await cluster.sandbox.wait(
            "kopfexamples", "one", lambda obj: len(obj["metadata"]["finalizers"]) == 1
        )
        (intake,) = operator.handling.orchestrator.intakes.values()
        await until(lambda: not len(intake.queue))
        intake.on_event(early["metadata"]["uid"], {"type": "MODIFIED", "object": early})
        await until(lambda: not len(intake.queue))
        assert journal == ["begin", "end"]
