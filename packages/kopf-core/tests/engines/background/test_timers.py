"""Timers: each of them is a handle in the loop while it waits, and a task while it works."""

import asyncio
import logging
import threading

import pytest
from virtual_time import timeless

from kopf_cogs.clients.errors import APIConnectionError
from kopf_core.actions.effects import Applied
from kopf_core.actions.errors import ErrorsMode, PermanentError, TemporaryError
from kopf_core.engines.background import attempts
from kopf_core.intents.stoppers import DaemonStoppingReason


@pytest.mark.docs("timers/intervals")
@timeless
async def test_interval_is_between_the_runs(yard):
    @yard.timer(interval=10)
    async def fn(**_):
        yard.tick()
        await asyncio.sleep(3)

    yard.see()
    await asyncio.sleep(35)
    assert yard.ticks == [0, 13, 26]


@pytest.mark.docs("timers/sharpness")
@timeless
async def test_d9_sharp_timer_keeps_its_grid_for_an_hour_with_a_stall(yard):
    @yard.timer(interval=1, sharp=True)
    async def fn(**_):
        number = yard.tick()
        await asyncio.sleep(5.2 if number == 100 else 0.3)

    yard.see()
    await asyncio.sleep(3600.5)
    assert yard.ticks == [*range(100), *range(105, 3601)]


@pytest.mark.docs("timers/resources")
@timeless
async def test_waiting_timer_is_not_a_task(yard):
    @yard.timer(interval=10)
    async def fn(**_): ...

    before = asyncio.all_tasks()
    for number in range(100):
        yard.see(uid=f"uid{number}")
    await asyncio.sleep(5)
    assert len(yard.engine.spawned) == 100
    assert asyncio.all_tasks() == before


@pytest.mark.docs("timers/intervals")
@timeless
async def test_timer_never_overlaps_with_itself_but_does_with_others(yard):
    active = []

    @yard.timer(interval=1, id="a")
    @yard.timer(interval=1, id="b", sharp=True)
    async def fn(**_):
        active.append(len(active))
        yard.tick()
        await asyncio.sleep(2.5)
        active.pop()

    yard.see()
    await asyncio.sleep(10)
    assert yard.ticks == [0, 0, 3, 3.5, 6, 7, 9]
    assert max(yard.ticks.count(tick) for tick in yard.ticks) == 2


@pytest.mark.docs("timers/idling")
@timeless
async def test_idling_with_no_interval_runs_once_after_every_change(yard):
    @yard.timer(idle=10)
    async def fn(spec, **_):
        yard.tick()
        values.append(spec["field"])

    values = []
    yard.see()
    await asyncio.sleep(100)
    yard.see(spec={"field": "v2"})
    await asyncio.sleep(5)
    yard.see(spec={"field": "v3"})
    await asyncio.sleep(100)
    yard.see()
    await asyncio.sleep(100)
    assert yard.ticks == [10, 115]
    assert values == ["v1", "v3"]


@timeless
async def test_change_while_idle_timer_works_is_not_lost(yard):
    @yard.timer(idle=10)
    async def fn(**_):
        yard.tick()
        await asyncio.sleep(20)

    yard.see()
    await asyncio.sleep(15)
    yard.see(spec={"field": "v2"})
    await asyncio.sleep(100)
    assert yard.ticks == [10, 30]


@pytest.mark.docs("timers/idling")
@timeless
async def test_idling_and_interval_together(yard):
    @yard.timer(idle=10, interval=3)
    async def fn(**_):
        yard.tick()

    yard.see()
    await asyncio.sleep(20)
    yard.see(status={"any": "thing"})
    await asyncio.sleep(15)
    assert yard.ticks == [10, 13, 16, 19, 30, 33]


@timeless
async def test_idling_is_not_disturbed_by_marks_of_the_framework(yard):
    @yard.timer(idle=10)
    async def fn(**_):
        yard.tick()

    yard.see()
    await asyncio.sleep(5)
    yard.see(metadata={"annotations": {"kopf.zalando.org/fn": "{}"}, "finalizers": ["x"]})
    await asyncio.sleep(15)
    assert yard.ticks == [10]


@pytest.mark.docs("timers/idling")
@pytest.mark.docs("timers/results")
@timeless
async def test_results_of_the_timer_itself_reset_its_idling(yard):
    @yard.timer(idle=10, interval=1)
    async def fn(**_):
        count = yard.tick()
        asyncio.get_running_loop().call_later(0.5, lambda: yard.see(status={"fn": count}))
        return count

    yard.see()
    await asyncio.sleep(40)
    assert yard.ticks == [10, 20.5, 31]


@timeless
async def test_sharp_grid_starts_anew_after_idling(yard):
    @yard.timer(idle=2.5, interval=1, sharp=True)
    async def fn(**_):
        yard.tick()
        await asyncio.sleep(0.1)

    yard.see()
    await asyncio.sleep(4)
    yard.see(spec={"field": "v2"})
    await asyncio.sleep(4)
    assert yard.ticks == [2.5, 3.5, 6.5, 7.5]


@pytest.mark.docs("timers/postponing")
@pytest.mark.parametrize("delay", [5, lambda body, spec, **_: 5 if body["spec"] == spec else 0])
@timeless
async def test_initial_delay_is_for_the_first_run_only(yard, delay):
    @yard.timer(interval=3, initial_delay=delay)
    async def fn(**_):
        yard.tick()

    yard.see()
    await asyncio.sleep(12)
    assert yard.ticks == [5, 8, 11]


@pytest.mark.docs("timers/combined")
@timeless
async def test_combined_timing(yard):
    @yard.timer(initial_delay=60, interval=10, idle=600)
    async def fn(**_):
        yard.tick()

    yard.see()
    await asyncio.sleep(615)
    yard.see(spec={"field": "v2"})
    await asyncio.sleep(605)
    assert yard.ticks == [600, 610, 1215]


@timeless
async def test_broken_initial_delay_is_reported_and_ignored(yard, logged):
    @yard.timer(interval=3, initial_delay=lambda **_: 1 / 0)
    async def fn(**_):
        yard.tick()

    yard.see()
    await asyncio.sleep(1)
    assert yard.ticks == [0]
    assert any("'fn'" in message and "division by zero" in message for message in logged())


@pytest.mark.docs("timers/errors")
@timeless
async def test_errors_override_the_schedule(yard):
    retries = []

    @yard.timer(errors=ErrorsMode.TEMPORARY, interval=10, backoff=5)
    async def fn(retry, runtime, **_):
        yard.tick()
        retries.append((retry, runtime.total_seconds()))
        if retry < 3:
            raise Exception("boo!")

    yard.see()
    await asyncio.sleep(29)
    assert yard.ticks == [0, 5, 10, 15, 25]
    assert retries == [(0, 0), (1, 5), (2, 10), (3, 15), (0, 0)]


@pytest.mark.docs("timers/errors")
@timeless
async def test_temporary_error_has_its_own_delay_and_a_sharp_timer_returns_to_its_grid(yard):
    @yard.timer(interval=10, sharp=True)
    async def fn(retry, **_):
        if yard.tick() == 2:
            raise TemporaryError("not now", delay=13)

    yard.see()
    await asyncio.sleep(35)
    assert yard.ticks == [0, 10, 23, 30]


@pytest.mark.docs("timers/errors")
@timeless
async def test_permanent_error_stops_the_timer_for_ever(yard):
    @yard.timer(interval=10, labels={"label": "yes"})
    async def fn(**_):
        yard.tick()
        raise PermanentError()

    key = yard.label("yes")
    await asyncio.sleep(100)
    yard.label("no")
    yard.label("yes")
    await asyncio.sleep(100)
    assert yard.ticks == [0]
    assert not yard.engine.is_running(key)


@pytest.mark.docs("timers/errors")
@pytest.mark.parametrize(
    "options",
    [
        {"errors": ErrorsMode.PERMANENT},
        {"retries": 1},
        {"timeout": 5, "backoff": 20},
    ],
)
@timeless
async def test_failed_series_of_attempts_does_not_stop_the_schedule(yard, options):
    retries = []

    @yard.timer(interval=10, **options)
    async def fn(retry, **_):
        yard.tick()
        retries.append(retry)
        raise Exception()

    yard.see()
    await asyncio.sleep(35)
    assert yard.ticks == [0, 10, 20, 30]
    assert retries == [0, 0, 0, 0]


@timeless
async def test_ignored_error_is_a_success(yard):
    @yard.timer(interval=10, errors=ErrorsMode.IGNORED)
    async def fn(**_):
        yard.tick()
        raise Exception()

    yard.see()
    await asyncio.sleep(15)
    assert yard.ticks == [0, 10]


@pytest.mark.docs("timers/results")
@timeless
async def test_results_and_patches_are_applied_after_each_run(yard):
    @yard.timer(interval=10)
    async def fn(patch, retry, **_):
        assert not patch
        patch.spec["field"] = yard.tick()
        if retry == 0:
            raise TemporaryError("again", delay=1)
        return len(yard.ticks)

    yard.see()
    await asyncio.sleep(5)
    assert yard.patches == [{"spec": {"field": 1}}, {"spec": {"field": 2}, "status": {"fn": 2}}]


@timeless
async def test_nothing_is_sent_when_there_is_nothing_to_send(yard):
    @yard.timer(interval=10)
    async def fn(**_): ...

    yard.see()
    await asyncio.sleep(5)
    assert not yard.patches


@timeless
async def test_patch_of_one_run_is_not_in_the_next_one(yard):
    @yard.timer(interval=10)
    async def fn(patch, spec, **_):
        assert not patch
        if yard.tick() == 2:
            patch.spec["field"] = "patched"
        values.append(spec["field"])

    values = []
    yard.see()
    await asyncio.sleep(25)
    yard.see(spec={"field": "v2"})
    await asyncio.sleep(10)
    assert yard.patches == [{"spec": {"field": "patched"}}]
    assert values == ["v1", "v1", "v1", "v2"]


@pytest.mark.docs("timers/patching")
@timeless
async def test_conflicting_functions_are_carried_to_the_next_run(yard):
    seen = []

    def change(body): ...

    @yard.timer(interval=10)
    async def fn(patch, **_):
        seen.append(list(patch.fns))
        if not patch:
            patch.fns.append(change)

    yard.conflicts.append((change,))
    yard.see()
    await asyncio.sleep(25)
    assert seen == [[], [change], []]
    assert yard.patches == [{"fns": [change]}] * 3


@timeless
async def test_failed_patch_does_not_stop_the_timer(yard, logged):
    def change(body): ...

    @yard.timer(interval=10)
    async def fn(patch, **_):
        yard.tick()
        if not patch.fns:
            patch.fns.append(change)

    yard.errors.append(APIConnectionError("no network"))
    yard.see()
    await asyncio.sleep(15)
    assert yard.ticks == [0, 10]
    assert yard.patches == [{"fns": [change]}] * 2
    assert any("no network" in message for message in logged())


@pytest.mark.docs("timers/filtering")
@timeless
async def test_timer_runs_while_it_matches(yard):
    @yard.timer(interval=10, labels={"label": "yes"})
    async def fn(**_):
        yard.tick()

    yard.label("no")
    await asyncio.sleep(5)
    yard.label("yes")
    await asyncio.sleep(15)
    yard.label("no")
    await asyncio.sleep(95)
    yard.label("yes")
    await asyncio.sleep(5)
    assert yard.ticks == [5, 15, 115]


@timeless
async def test_timer_with_no_interval_and_no_idling_runs_once(yard):
    @yard.timer()
    async def fn(**_):
        yard.tick()

    key = yard.see()
    await asyncio.sleep(100)
    yard.see(spec={"field": "v2"})
    await asyncio.sleep(100)
    assert yard.ticks == [0]
    assert not yard.engine.is_running(key)


@pytest.mark.parametrize("how", ["deleted", "paused", "exiting"])
@timeless
async def test_d8_idle_timer_with_no_interval_stops_after_its_only_run(yard, how):
    @yard.timer(idle=10)
    async def fn(**_):
        yard.tick()

    key = yard.see()
    await asyncio.sleep(50)
    if how == "deleted":
        yard.delete()
    elif how == "paused":
        yard.engine.reach(DaemonStoppingReason.OPERATOR_PAUSING)
        await yard.engine.end_instantly()
    else:
        await yard.engine.exit()
    assert not yard.engine.is_running(key)
    assert not yard.engine.spawned
    assert yard.time() == 50
    yard.see(spec={"field": "v2"})
    await asyncio.sleep(50)
    assert yard.ticks == [10] if how != "deleted" else [10, 60]


@timeless
async def test_timer_sees_that_it_is_stopped_while_working(yard):
    stops = []

    @yard.timer(interval=10)
    async def fn(stopped, **_):
        await stopped.wait()
        stops.append(stopped.reason)

    key = yard.see()
    await asyncio.sleep(5)
    yard.delete()
    assert yard.engine.is_running(key)
    assert not yard.woken
    await yard.engine.settle(key)
    assert not yard.engine.is_running(key)
    assert stops == [DaemonStoppingReason.RESOURCE_DELETED]
    assert yard.woken == ["uid1"]


@timeless
async def test_sync_timers_run_in_the_executor_of_handlers(yard, settings):
    names = []

    @yard.timer(interval=10)
    def fn(**_):
        names.append(threading.current_thread().name)
        loop.call_soon_threadsafe(done.set)

    loop, done = asyncio.get_running_loop(), asyncio.Event()
    yard.see()
    while not done.is_set():  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert names[0].startswith("kopf-handler")
    await yard.engine.exit()


@timeless
async def test_k31_ticks_are_of_interest_for_developers_only(yard, caplog):
    @yard.timer(interval=10)
    async def fn(**_):
        yard.tick()

    caplog.set_level(logging.DEBUG)
    yard.see()
    await asyncio.sleep(25)
    assert yard.ticks == [0, 10, 20]
    told = [record for record in caplog.records if "Timer 'fn'" in record.getMessage()]
    assert "Timer 'fn' succeeded." in [record.getMessage() for record in told]
    assert {record.levelno for record in told} == {logging.DEBUG}


@timeless
async def test_k29_timers_send_nothing_when_nothing_differs(yard):
    @yard.timer(interval=1)
    async def fn(patch, **_):
        patch.status["known"] = {"list": [1], "flag": True}
        patch.metadata.labels["absent"] = None
        yard.tick()
        return "result"

    yard.see(
        status={"known": {"list": [1], "flag": True, "other": 1}, "fn": "result"},
        metadata={"labels": {"label": "value"}},
    )
    await asyncio.sleep(1.5)
    assert not yard.patches
    yard.see(status={"known": {"list": [1], "flag": 1}})  # it is not the same in JSON
    await asyncio.sleep(1)
    assert yard.ticks == [0, 1, 2]
    assert [patch["status"]["known"] for patch in yard.patches] == [{"list": [1], "flag": True}]


@timeless
async def test_k29_timers_send_their_changes_if_the_stream_is_late(yard, monkeypatch):
    @yard.timer(interval=1)
    async def fn(patch, **_):
        patch.status["n"] = yard.tick() % 2

    async def apply(**kwargs):
        await yard.apply(**kwargs)
        body = {**yard.body, "metadata": {**yard.body["metadata"], "resourceVersion": "9"}}
        return Applied(body={**body, "status": {"n": len(yard.ticks) % 2}})

    monkeypatch.setattr(attempts, "apply_patches", apply)
    yard.see(status={"n": 0})
    await asyncio.sleep(0.5)
    yard.see(metadata={"labels": {"label": "value"}})  # it is older than the patch, and comes late
    await asyncio.sleep(1)
    assert [patch["status"]["n"] for patch in yard.patches] == [1, 0]
