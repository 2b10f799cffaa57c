"""Daemons and timers in the whole operator: finalizers, termination, pauses, exits."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from e2e.tests.harness import FINALIZER, GROUP, get_finalizers
from kopf_core.actions.errors import TemporaryError
from kopf_core.intents import decorators as on
from kopf_core.intents.stoppers import DaemonStoppingReason

KEX = (GROUP, "kexes")
SOON = 5.0  # seconds; the polling of daemons is once a minute, so it is surely not by polling
YES, NO = {"metadata": {"labels": {"on": "yes"}}}, {"metadata": {"labels": {"on": "no"}}}


@pytest.mark.docs("daemons/deletion-prevention")
@pytest.mark.parametrize("style", ["sync", "async"])
async def test_deletion_waits_for_the_daemon_and_not_longer(world, style):
    calls, release = world.calls, threading.Event()

    @on.daemon(*KEX, id="sync", registry=world.registry, labels={"style": "sync"})
    def sync_fn(stopped, **_):
        calls("started")
        stopped.wait()
        calls(stopped.reason)
        release.wait()

    @on.daemon(*KEX, id="async", registry=world.registry, labels={"style": "async"})
    async def async_fn(stopped, **_):
        calls("started")
        await stopped.wait()
        calls(stopped.reason)
        await asyncio.to_thread(release.wait)

    async with world.operator():
        await world.create(metadata={"labels": {"style": style}})
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
        await calls.until(lambda calls: len(calls) == 1)
        await world.delete()
        await calls.until(lambda calls: len(calls) == 2)
        assert get_finalizers(await world.get()) == [FINALIZER]
        async with asyncio.timeout(SOON):
            release.set()
            await world.until_gone()
    assert calls == ["started", DaemonStoppingReason.RESOURCE_DELETED]


@pytest.mark.docs("daemons/deletion-prevention")
async def test_d7_disobedient_daemon_does_not_block_the_deletion_for_ever(world):
    calls, release = world.calls, threading.Event()

    @on.daemon(
        *KEX, id="fn", registry=world.registry, cancellation_backoff=0.05, cancellation_timeout=0.05
    )
    def fn(**_):
        calls("started")
        release.wait()
        calls("ended")

    with pytest.warns(ResourceWarning) as warned:  # noqa: PT031
        async with world.operator() as operator:
            await world.create()
            await calls.until(lambda calls: calls)
            await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
            await world.delete()
            await world.until_gone()
            assert len(operator.handling.background.orphans) == 1
            release.set()
            await calls.until(lambda calls: calls == ["started", "ended"])
    assert "'fn' did not exit in time" in str(warned[0].message)


async def test_d8_idle_timer_with_no_interval_does_not_block_the_deletion(world):
    @on.timer(*KEX, idle=0.1, id="fn", registry=world.registry)
    def fn(**_):
        world.calls("called")

    async with world.operator():
        await world.create()
        await world.calls.until(lambda calls: calls)
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
        await world.delete()
        await world.until_gone()


@pytest.mark.docs("daemons/filtering")
async def test_finalizer_follows_the_filters(world):
    calls = world.calls

    @on.daemon(*KEX, labels={"on": "yes"}, id="fn", registry=world.registry)
    async def fn(stopped, **_):
        calls("started")
        await stopped.wait()
        calls(stopped.reason)

    async with world.operator():
        await world.create(**NO)
        for _ in range(2):
            await world.patch(YES)
            await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
            await world.patch(NO)
            await world.until(lambda obj: get_finalizers(obj) == [])
        await calls.until(lambda calls: len(calls) == 4)
    assert calls == ["started", DaemonStoppingReason.FILTERS_MISMATCH] * 2


async def test_finalizer_of_a_lingering_mismatched_daemon_is_released_when_it_ends(world):
    calls, release = world.calls, asyncio.Event()

    @on.daemon(*KEX, labels={"on": "yes"}, id="fn", registry=world.registry)
    async def fn(stopped, **_):
        calls("started")
        await stopped.wait()
        calls("stopping")
        await release.wait()

    async with world.operator():
        await world.create(**YES)
        await calls.until(lambda calls: len(calls) == 1)
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
        await world.patch(NO)
        await calls.until(lambda calls: len(calls) == 2)
        assert get_finalizers(await world.get()) == [FINALIZER]
        async with asyncio.timeout(SOON):
            release.set()
            await world.until(lambda obj: get_finalizers(obj) == [])


@pytest.mark.docs("daemons/results")
@pytest.mark.docs("timers/results")
@pytest.mark.parametrize("plural", ["kexes", "subs"])
async def test_results_and_patches(world, plural):
    world.plural = plural

    @on.daemon(GROUP, plural, id="daemon", registry=world.registry)
    async def daemon(patch, retry, **_):
        patch.status["retries"] = retry
        if retry == 0:
            raise TemporaryError("again", delay=0.05)
        return {"finished": True}

    @on.timer(GROUP, plural, interval=0.05, id="timer", registry=world.registry)
    def timer(patch, status, **_):
        if status.get("daemon"):
            patch.spec["field"] = "set"
            return "seen"

    async with world.operator():
        await world.create({"field": "unset"})
        obj = await world.until(
            lambda obj: (
                obj is not None
                and obj["spec"]["field"] == "set"
                and obj.get("status", {}).get("timer") == "seen"
            )
        )
    assert obj["status"] == {"retries": 1, "daemon": {"finished": True}, "timer": "seen"}


@pytest.mark.docs("daemons/restarting")
async def test_exited_daemons_are_spawned_again_only_after_restarts(world):
    calls = world.calls

    @on.daemon(*KEX, id="fn", registry=world.registry)
    async def fn(**_):
        calls("daemon")

    @on.event(*KEX, id="event", registry=world.registry)
    async def event(spec, **_):
        calls(spec.get("field"))

    await world.create({"field": "v0"})
    for generation in (1, 2):
        async with world.operator():
            await calls.until(lambda calls, n=generation: calls.count("daemon") == n)
            await world.patch({"spec": {"field": f"v{generation}"}})
            await calls.until(lambda calls, n=generation: f"v{n}" in calls)
        assert calls.count("daemon") == generation


@pytest.mark.docs("daemons/fields")
async def test_live_fields(world):
    @on.daemon(*KEX, id="fn", registry=world.registry)
    def fn(spec, stopped, **_):
        while not stopped:
            if not world.calls or world.calls[-1] != spec["field"]:
                world.calls(spec["field"])
            stopped.wait(0.01)

    async with world.operator():
        await world.create({"field": "v1"})
        await world.calls.until(lambda calls: calls == ["v1"])
        await world.patch({"spec": {"field": "v2"}})
        await world.calls.until(lambda calls: calls == ["v1", "v2"])


@pytest.mark.docs("daemons/patching")
async def test_conflicting_functions_are_carried_forward(faulty):
    calls = faulty.calls

    def change(body):
        body["status"] = {"items": [*body.get("status", {}).get("items", []), "added"]}

    @on.daemon(*KEX, id="fn", registry=faulty.registry)
    async def fn(patch, retry, **_):
        calls(bool(patch))
        if retry == 0:
            patch.fns.append(change)
            raise TemporaryError("again", delay=0.1)

    def is_of_status(call):
        return b"added" in call.body and len(calls) < 2

    async with faulty.operator():
        with faulty.sandbox.faults.fail(
            422, method="PATCH", path="*/kexes/obj", match=is_of_status
        ):
            await faulty.create()
            await faulty.until(lambda obj: obj is not None and obj.get("status"))
    assert calls == [False, True]
    assert (await faulty.get())["status"] == {"items": ["added"]}


async def test_a15_objects_gone_while_disconnected_have_their_daemons_stopped(faulty):
    calls = faulty.calls

    @on.daemon(*KEX, id="fn", registry=faulty.registry)
    async def fn(stopped, name, **_):
        calls(("started", name))
        await stopped.wait()
        calls(("stopped", name))

    @on.timer(*KEX, interval=0.01, id="timer", registry=faulty.registry)
    async def timer(name, **_): ...

    @on.index(*KEX, id="names", registry=faulty.registry)
    def names(name, **_):
        return {name: 1}

    async with faulty.operator() as operator:
        await faulty.create(name="x")
        await faulty.create(name="y")
        for name in ("x", "y"):
            await faulty.until(lambda obj: get_finalizers(obj) == [FINALIZER], name)
        await calls.until(lambda calls: len(calls) == 2)
        faults = faulty.sandbox.faults
        with faults.hang(watch=True, path="*/kexes"):
            watches = len(faulty.sandbox.journal.select("GET", "*/kexes"))
            faulty.sandbox.cut_watches("*/kexes")
            await faulty.sandbox.journal.arrived("GET", "*/kexes", count=watches + 1)
            await faulty.patch({"metadata": {"finalizers": None}}, "x")
            await faulty.delete("x")
            faulty.sandbox.compact()
        await calls.until(lambda calls: ("stopped", "x") in calls)
        assert set(operator.essentials.indices["names"]) == {"y"}
        assert {it.body.meta.name for it in operator.handling.background.objects} == {"y"}
        assert len(operator.essentials.memories) == 1


async def test_a16_recreated_object_has_a_new_daemon_only(faulty):
    calls = faulty.calls

    @on.daemon(*KEX, id="fn", registry=faulty.registry)
    async def fn(stopped, uid, memo, **_):
        calls(("started", uid, memo.setdefault("uid", uid)))
        await stopped.wait()
        calls(("stopped", uid, memo.uid))

    async with faulty.operator() as operator:
        old = (await faulty.create())["metadata"]["uid"]
        await faulty.until(lambda obj: get_finalizers(obj) == [FINALIZER])
        with faulty.sandbox.faults.hang(watch=True, path="*/kexes"):
            watches = len(faulty.sandbox.journal.select("GET", "*/kexes"))
            faulty.sandbox.cut_watches("*/kexes")
            await faulty.sandbox.journal.arrived("GET", "*/kexes", count=watches + 1)
            await faulty.patch({"metadata": {"finalizers": None}})
            await faulty.delete()
            new = (await faulty.create())["metadata"]["uid"]
            faulty.sandbox.compact()
        await calls.until(lambda calls: len(calls) == 3)
        assert {it.key for it in operator.handling.background.objects} == {new}
        await faulty.until(lambda obj: get_finalizers(obj) == [FINALIZER])
    assert calls[0] == ("started", old, old)
    assert set(calls[1:3]) == {("stopped", old, old), ("started", new, new)}


async def test_d6_sync_daemons_do_not_starve_sync_handlers(world):
    calls, count = world.calls, 60

    @on.daemon(*KEX, id="daemon", registry=world.registry)
    def daemon(stopped, name, **_):
        calls(("daemon", name))
        stopped.wait()

    @on.create(*KEX, id="create", registry=world.registry)
    def create(name, **_):
        calls(("create", name))

    async with world.operator():
        await asyncio.gather(*(world.create(name=f"obj-{n}") for n in range(count)))
        await calls.until(lambda calls: len(calls) == 2 * count)


async def test_f10_pause_and_resume(world):
    calls = world.calls

    @on.daemon(*KEX, id="daemon", registry=world.registry)
    async def daemon(stopped, **_):
        calls("started")
        await stopped.wait()
        calls(stopped.reason)

    @on.timer(*KEX, interval=0.01, id="timer", registry=world.registry)
    async def timer(**_):
        ticks.append(1)

    @on.create(*KEX, id="create", registry=world.registry)
    async def create(name, **_):
        calls(name)

    ticks: list[int] = []
    async with world.operator() as operator:
        await world.create()
        await calls.until(lambda calls: {"started", "obj"} <= set(calls))
        await world.until_handled()
        await operator.pause()
        assert calls[-1] is DaemonStoppingReason.OPERATOR_PAUSING
        assert not operator.handling.background.spawned
        before = len(ticks)
        await world.create(name="another")
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(calls) == 3
        assert len(ticks) == before
        operator.resume()
        await calls.until(lambda calls: len(calls) == 6)
        await calls.until(lambda calls: len(ticks) > before + 1)
    assert sorted(map(str, calls[3:6])) == ["another", "started", "started"]


OPERATOR = """
import kopf, threading, pathlib, os

@kopf.daemon('e2e.kopf.dev', 'kexes', cancellation_timeout=0.1)
def fn(**_):
    pathlib.Path(os.environ['MARK']).write_text('started')
    threading.Event().wait()

@kopf.daemon('e2e.kopf.dev', 'kexes', cancellation_timeout=0.1)
async def afn(**_):
    import asyncio
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
"""


async def test_f2_hung_daemons_do_not_prevent_the_process_from_exiting(world, tmp_path):
    source, mark = tmp_path / "op.py", tmp_path / "mark"
    source.write_text(OPERATOR)
    async with world.process(source, env={"MARK": str(mark)}) as process:
        await world.create()
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER])
        async with asyncio.timeout(SOON):
            while not mark.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        os.kill(process.pid, signal.SIGTERM)
        async with asyncio.timeout(SOON * 2):
            assert await process.wait() == 1  # as something was left behind
