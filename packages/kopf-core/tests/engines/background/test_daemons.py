"""Daemons: spawned, restarted, stopped in stages, and never in two instances."""

import asyncio
import logging
import threading
import warnings

import pytest
from virtual_time import timeless

from kopf_core.actions.errors import PermanentError, TemporaryError
from kopf_core.actions.execution import Execution
from kopf_core.actions.lifecycles import all_at_once
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.intents.stoppers import (
    AsyncDaemonStopperChecker,
    DaemonStoppingReason,
    SyncDaemonStopperChecker,
)

REQUEST = "Daemon 'fn' has exited on request and will not be retried or restarted."
OWN = "Daemon 'fn' has exited on its own and will not be retried or restarted."
DELETED = DaemonStoppingReason.RESOURCE_DELETED
MISMATCH = DaemonStoppingReason.FILTERS_MISMATCH
PAUSING = DaemonStoppingReason.OPERATOR_PAUSING
EXITING = DaemonStoppingReason.OPERATOR_EXITING
SIGNALLED = DaemonStoppingReason.DAEMON_SIGNALLED
CANCELLED = DaemonStoppingReason.DAEMON_CANCELLED
ABANDONED = DaemonStoppingReason.DAEMON_ABANDONED


@pytest.mark.docs("daemons/spawning")
@pytest.mark.docs("daemons/resources")
@timeless
async def test_daemon_is_one_task_for_every_object(yard):
    @yard.daemon()
    async def fn(uid, **_):
        seen.append(uid)
        await asyncio.sleep(1000)

    seen = []
    before = asyncio.all_tasks()
    for _ in range(3):
        yard.see(uid="a")
        yard.see(uid="b")
        await asyncio.sleep(1)
    assert seen == ["a", "b"]
    assert len(asyncio.all_tasks() - before) == 2


@pytest.mark.docs("daemons/restarting")
@pytest.mark.parametrize("error", [None, PermanentError("no")])
@timeless
async def test_daemon_is_not_restarted_after_it_exits(yard, logged, error):
    @yard.daemon(labels={"label": "yes"})
    async def fn(**_):
        yard.tick()
        if error:
            raise error

    key = yard.label("yes")
    await asyncio.sleep(1)
    yard.label("no")
    yard.label("yes")
    await asyncio.sleep(1)
    assert yard.ticks == [0]
    assert logged()[-1] == OWN
    assert not yard.engine.is_running(key)
    assert not yard.woken


@pytest.mark.docs("daemons/restarting")
@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (10, [0, 11, 22]),
        (None, [0, 1, 2]),
        (0, [0, 1, 2]),
    ],
)
@timeless
async def test_daemon_is_restarted_by_temporary_errors(yard, delay, expected):
    @yard.daemon()
    async def fn(retry, **_):
        assert retry == len(yard.ticks)
        yard.tick()
        await asyncio.sleep(1)
        if retry < 2:
            raise TemporaryError("restart", delay=delay)

    yard.see()
    await asyncio.sleep(100)
    assert yard.ticks == expected


@pytest.mark.docs("daemons/errors")
@timeless
async def test_errors_of_daemons_are_handled_as_of_any_handlers(yard):
    @yard.daemon(backoff=2, retries=10)
    async def fn(retry, **_):
        yard.tick()
        if retry < 3:
            raise TemporaryError("I'll be back!", delay=1)
        elif retry < 5:
            raise OSError("Something happened!")
        raise PermanentError("Bye-bye!")

    yard.see()
    await asyncio.sleep(100)
    assert yard.ticks == [0, 1, 2, 3, 5, 7]


@timeless
async def test_task_cancelled_by_its_own_function_is_restarted(yard):
    @yard.daemon()
    async def fn(retry, **_):
        yard.tick()
        if retry == 0:
            asyncio.current_task().cancel()
            await asyncio.sleep(1)

    yard.see()
    await asyncio.sleep(100)
    assert yard.ticks == [0, 60]


@pytest.mark.docs("daemons/postponing")
@pytest.mark.parametrize("delay", [30, lambda name, **_: 30 if name == "obj" else 0])
@timeless
async def test_initial_delay_costs_no_task(yard, logged, delay):
    @yard.daemon(initial_delay=delay)
    async def fn(**_):
        yard.tick()
        await asyncio.sleep(1000)

    before = asyncio.all_tasks()
    yard.see()
    await asyncio.sleep(29)
    assert asyncio.all_tasks() == before
    await asyncio.sleep(2)
    assert yard.ticks == [30]


@timeless
async def test_postponed_daemon_is_stopped_at_once(yard, logged):
    @yard.daemon(initial_delay=30)
    async def fn(**_):
        yard.tick()

    key = yard.see()
    await asyncio.sleep(1)
    yard.delete()
    assert not yard.engine.is_running(key)
    assert logged()[-1] == REQUEST
    await asyncio.sleep(100)
    assert not yard.ticks


@pytest.mark.docs("daemons/fields")
@timeless
async def test_fields_are_live(yard):
    @yard.daemon()
    async def fn(body, spec, meta, labels, status, name, **_):
        for _ in range(2):
            seen.append((spec["field"], labels.get("label"), status.get("x"), meta.labels, name))
            await asyncio.sleep(10)
            assert body["spec"] == spec

    seen = []
    yard.see()
    await asyncio.sleep(5)
    yard.see(spec={"field": "v2"}, status={"x": 1}, metadata={"labels": {"label": "yes"}})
    await asyncio.sleep(10)
    assert seen == [
        ("v1", None, None, {"label": "yes"}, "obj"),
        ("v2", "yes", 1, {"label": "yes"}, "obj"),
    ]


@timeless
async def test_terminating_daemon_sees_the_deletion(yard):
    @yard.daemon()
    async def fn(meta, stopped, **_):
        assert meta.deletion_timestamp is None
        await stopped.wait()
        seen.append(meta.deletion_timestamp)

    seen = []
    yard.see()
    await asyncio.sleep(1)
    yard.body["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    yard.delete()
    await asyncio.sleep(1)
    assert seen == ["2020-01-01T00:00:00Z"]


@pytest.mark.docs("daemons/results")
@pytest.mark.docs("daemons/patching")
@timeless
async def test_results_and_patches_are_applied_after_every_iteration(yard):
    def change(body): ...

    @yard.daemon()
    async def fn(patch, retry, **_):
        carried.append(list(patch.fns))
        patch.status["replicas"] = retry
        if retry == 0:
            patch.fns.append(change)
            raise TemporaryError("again", delay=5)
        return {"finished": True}

    carried = []
    yard.conflicts.append((change,))
    yard.see()
    await asyncio.sleep(10)
    assert carried == [[], [change]]
    assert yard.patches == [
        {"status": {"replicas": 0}, "fns": [change]},
        {"status": {"fn": {"finished": True}, "replicas": 1}, "fns": [change]},
    ]


@pytest.mark.docs("daemons/termination")
@timeless
async def test_instantly_exiting_daemon_ends_within_the_same_cycle_of_processing(yard, logged):
    @yard.daemon(cancellation_backoff=5, cancellation_timeout=5)
    async def fn(stopped, **_):
        await stopped.wait()
        reasons.append(stopped.reason)

    reasons = []
    key = yard.see()
    await asyncio.sleep(1)
    yard.delete()
    assert yard.engine.is_stopping(key)
    await yard.engine.settle(key)
    assert not yard.engine.is_stopping(key)
    assert yard.time() == 1
    assert reasons == [DELETED]
    assert logged()[-1] == REQUEST


@timeless
async def test_instant_exit_is_by_time_if_set(yard, settings, logged):
    @yard.daemon(cancellation_timeout=5)
    async def fn(stopped, **_):
        await stopped.wait()
        await asyncio.sleep(2)

    settings.background.instant_exit_timeout = 3
    settings.background.instant_exit_zero_time_cycles = None
    key = yard.see()
    await asyncio.sleep(1)
    yard.delete()
    await yard.engine.settle(key)
    assert yard.time() == 3
    assert not yard.engine.is_stopping(key)
    assert not any("force" in message for message in logged())


@pytest.mark.docs("daemons/timeouts")
@timeless
async def test_three_stages_of_termination(yard, logged):
    @yard.daemon(cancellation_backoff=10, cancellation_timeout=20)
    async def fn(stopped, **_):
        await stopped.wait()
        while True:
            reasons.append((yard.time(), stopped.reason))
            try:
                await asyncio.sleep(8)
            except asyncio.CancelledError:
                reasons.append((yard.time(), "cancelled"))

    reasons = []
    key = yard.see()
    await asyncio.sleep(1)
    yard.delete()
    await asyncio.sleep(29)
    assert yard.engine.is_running(key)
    assert not yard.woken
    with pytest.warns(ResourceWarning, match="Daemon 'fn' did not exit in time"):
        await asyncio.sleep(3)
    assert not yard.engine.is_running(key)
    assert yard.woken == ["uid1"]
    assert len(yard.engine.orphans) == 1
    assert reasons == [
        (1, DELETED),
        (9, DELETED | SIGNALLED),
        (11, "cancelled"),
        (11, DELETED | SIGNALLED | CANCELLED),
        (19, DELETED | SIGNALLED | CANCELLED),
        (27, DELETED | SIGNALLED | CANCELLED),
    ]
    await asyncio.sleep(4)
    assert reasons[-1] == (35, DELETED | SIGNALLED | CANCELLED | ABANDONED)
    assert logged() == [
        "Daemon 'fn' is invoked.",
        "Daemon 'fn' is signalled to exit gracefully.",
        "Daemon 'fn' is signalled to exit by force.",
        "Daemon 'fn' did not exit in time. Leaving it orphaned.",
        "Orphaned daemons: 1, including 0 in threads.",
    ]
    await yard.engine.exit()


@pytest.mark.docs("daemons/timeouts")
@timeless
async def test_cancellation_is_immediate_without_backoff(yard, logged):
    @yard.daemon(cancellation_timeout=20)
    async def fn(stopped, **_):
        try:
            await asyncio.sleep(100)
        finally:
            reasons.append((yard.time(), stopped.reason))

    reasons = []
    yard.see()
    await asyncio.sleep(1)
    yard.delete()
    await asyncio.sleep(1)
    assert reasons == [(1, DELETED | CANCELLED)]
    assert yard.woken == ["uid1"]
    assert logged()[-2:] == ["Daemon 'fn' is cancelled. Will escalate.", REQUEST]


@timeless
async def test_daemon_cancelled_before_its_first_step_is_over(yard, settings):
    @yard.daemon(cancellation_timeout=10)
    async def fn(**_):
        await asyncio.sleep(100)

    settings.background.instant_exit_zero_time_cycles = 0
    key = yard.see()
    await asyncio.sleep(0)  # the task is made, but not started
    (run,) = yard.engine.spawned
    assert run.is_working
    yard.delete()
    assert yard.engine.is_running(key)
    await asyncio.sleep(1)
    assert not yard.engine.is_running(key)
    assert yard.woken == ["uid1"]


@timeless
async def test_zero_cancellation_timeout_still_lets_the_daemon_end(yard):
    @yard.daemon(cancellation_timeout=0)
    async def fn(stopped, **_):
        await asyncio.sleep(100)

    key = yard.see()
    await asyncio.sleep(1)
    yard.delete()
    await asyncio.sleep(1)
    assert not yard.engine.is_running(key)
    assert not yard.engine.orphans


@timeless
async def test_k37_zero_cancellation_timeout_lets_the_daemon_clean_up(yard, logged):
    """There is no time for it, but a few cycles of the loop: e.g. to end its own tasks."""

    @yard.daemon(cancellation_timeout=0)
    async def fn(**_):
        try:
            await asyncio.sleep(100)
        finally:
            for _ in range(7):
                await asyncio.sleep(0)
            ended.append(yard.time())

    ended = []
    key = yard.see()
    await asyncio.sleep(1)
    yard.delete()
    await asyncio.sleep(1)
    assert ended == [1]
    assert not yard.engine.is_running(key)
    assert logged()[-2:] == ["Daemon 'fn' is cancelled. Will escalate.", REQUEST]


@pytest.mark.docs("daemons/timeouts")
@pytest.mark.parametrize("where", ["handler", "settings"])
@timeless
async def test_daemon_with_no_timeout_is_waited_for_with_reminders(yard, settings, logged, where):
    @yard.daemon(**({"cancellation_polling": 20} if where == "handler" else {}))
    async def fn(stopped, **_):
        await stopped.wait()
        await asyncio.sleep(50)

    settings.background.cancellation_polling = 20 if where == "settings" else 60
    key = yard.see()
    await asyncio.sleep(1)
    yard.delete()
    await asyncio.sleep(49)
    assert yard.engine.is_running(key)
    assert not yard.woken
    await asyncio.sleep(2)
    assert not yard.engine.is_running(key)
    assert yard.woken == ["uid1"]
    assert logged() == [
        "Daemon 'fn' is invoked.",
        *["Daemon 'fn' is still exiting. The next check is in 20 seconds."] * 3,
        "Daemon 'fn' succeeded.",
        REQUEST,
    ]
    assert len(logged(logging.WARNING)) == 2


@pytest.mark.docs("daemons/deletion-prevention")
@pytest.mark.parametrize("style", ["async", "sync"])
@pytest.mark.parametrize("how", ["deletion", "mismatch", "pause", "exit"])
@timeless
async def test_d7_daemon_that_ignores_everything_is_abandoned(yard, logged, style, how):
    options = {"labels": {"label": "yes"}, "cancellation_backoff": 1, "cancellation_timeout": 2}
    loop, started, release = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    @yard.daemon(**options)
    def fn(stopped, **_):
        loop.call_soon_threadsafe(started.set)
        release.wait()

    async def async_fn(stopped, **_):
        started.set()
        while not release.is_set():
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                pass

    if style == "async":
        yard.registry = OperatorRegistry()
        yard.daemon(**options)(async_fn)
    key = yard.label("yes")
    await started.wait()

    async def stop():
        match how:
            case "deletion":
                yard.delete()
            case "mismatch":
                yard.label("no")
            case "pause":
                yard.engine.reach(DaemonStoppingReason.OPERATOR_PAUSING)
                await yard.engine.end_instantly()
            case "exit":
                await yard.engine.exit()
        await asyncio.sleep(4)

    with pytest.warns(ResourceWarning):
        await stop()
    assert not yard.engine.is_running(key)
    assert not yard.engine.spawned
    assert yard.woken == ([] if how in ("pause", "exit") else ["uid1"])
    count = 1 if style == "sync" else 0
    assert f"Orphaned daemons: 1, including {count} in threads." in logged(logging.WARNING)
    release.set()
    if how != "exit":  # they do not report to the engine anymore
        while yard.engine.orphans:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert logged()[-1] == REQUEST


@pytest.mark.parametrize("is_pause_over", [False, True])
@timeless
async def test_k14_daemons_abandoned_in_a_pause_change_nothing_in_it(yard, logged, is_pause_over):
    release = asyncio.Event()

    @yard.daemon(cancellation_timeout=1)
    async def fn(patch, **_):
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass
        patch.status["field"] = "value"
        return "result"

    yard.see()
    await asyncio.sleep(1)
    yard.engine.reach(DaemonStoppingReason.OPERATOR_PAUSING)
    await yard.engine.end_instantly()
    with pytest.warns(ResourceWarning):
        await asyncio.sleep(2)
    yard.execution.door.is_shut = not is_pause_over
    release.set()
    await asyncio.sleep(1)
    sent = [{"status": {"field": "value", "fn": "result"}}]
    assert yard.patches == (sent if is_pause_over else [])
    told = "Daemon 'fn' could not change the object: it has not ended in time in a pause."
    assert logged(logging.ERROR) == ([] if is_pause_over else [told])


@timeless
async def test_daemons_abandoned_at_once_are_reported_at_once(yard, logged):
    release = asyncio.Event()

    @yard.daemon(cancellation_timeout=1)
    async def fn(**_):
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass

    for number in range(10):
        yard.see(f"uid{number}")
    await asyncio.sleep(1)
    yard.engine.reach(DaemonStoppingReason.OPERATOR_PAUSING)
    await yard.engine.end_instantly()
    with pytest.warns(ResourceWarning):
        await asyncio.sleep(2)
    assert [text for text in logged(logging.WARNING) if text.startswith("Orphaned")] == [
        "Orphaned daemons: 10, including 0 in threads."
    ]
    release.set()
    await asyncio.sleep(1)


@timeless
async def test_d10_flapping_filters_never_make_two_instances(yard):
    active, highest = 0, 0

    @yard.daemon(labels={"label": "yes"})
    async def fn(stopped, **_):
        nonlocal active, highest
        active += 1
        highest = max(active, highest)
        await stopped.wait()
        await asyncio.sleep(0.035)
        active -= 1

    for number in range(1001):
        key = yard.label("yes" if number % 2 == 0 else "no")
        await asyncio.sleep(0.01)
    assert highest == 1
    await asyncio.sleep(1)
    assert active == 1
    assert yard.engine.is_running(key)
    assert not yard.engine.is_stopping(key)
    yard.label("no")
    await asyncio.sleep(1)
    assert active == 0
    assert not yard.engine.is_running(key)


@pytest.mark.docs("daemons/filtering")
@timeless
async def test_mismatched_daemon_is_stopped_and_spawned_again_when_it_matches(yard, logged):
    @yard.daemon(labels={"label": "yes"})
    async def fn(stopped, **_):
        yard.tick()
        await stopped.wait()
        reasons.append(stopped.reason)

    reasons = []
    yard.label("no")
    await asyncio.sleep(1)
    assert not yard.ticks
    yard.label("yes")
    await asyncio.sleep(1)
    yard.label("no")
    await asyncio.sleep(1)
    yard.label("yes")
    await asyncio.sleep(1)
    assert yard.ticks == [1, 3]
    assert reasons == [MISMATCH]


@timeless
async def test_restart_of_a_lingering_daemon_is_not_lost_without_further_events(yard):
    @yard.daemon(labels={"label": "yes"})
    async def fn(stopped, **_):
        yard.tick()
        await stopped.wait()
        await asyncio.sleep(10)

    yard.label("yes")
    await asyncio.sleep(1)
    yard.label("no")
    await asyncio.sleep(1)
    yard.label("yes")
    await asyncio.sleep(20)
    assert yard.ticks == [0, 11]
    assert not yard.woken


@timeless
async def test_lingering_daemon_is_not_restarted_for_a_deleted_object(yard):
    @yard.daemon(labels={"label": "yes"})
    async def fn(stopped, **_):
        yard.tick()
        await stopped.wait()
        await asyncio.sleep(10)

    yard.label("yes")
    await asyncio.sleep(1)
    yard.label("no")
    yard.label("yes")
    yard.delete()
    await asyncio.sleep(20)
    assert yard.ticks == [0]
    assert yard.woken == ["uid1"]


@timeless
async def test_a15_deletion_reported_after_the_fact_stops_everything(yard):
    @yard.timer(interval=1, id="timer")
    @yard.daemon(id="daemon")
    async def fn(stopped, **_):
        await stopped.wait()

    key = yard.see()
    await asyncio.sleep(1)
    yard.delete()  # the same for the real and synthetic events
    await asyncio.sleep(1)
    assert not yard.engine.is_running(key)
    assert not yard.engine.spawned


@timeless
async def test_a16_recreated_object_has_its_own_daemon(yard):
    @yard.daemon()
    async def fn(stopped, uid, **_):
        seen.append(("started", uid))
        await stopped.wait()
        seen.append(("stopped", uid))

    seen = []
    yard.see(uid="old")
    await asyncio.sleep(1)
    yard.delete(uid="old")
    yard.see(uid="new")
    await asyncio.sleep(1)
    assert sorted(seen) == [("started", "new"), ("started", "old"), ("stopped", "old")]


@timeless
async def test_f10_pausing_stops_everything_and_resuming_starts_it_again(yard):
    @yard.daemon(id="daemon")
    async def daemon(stopped, **_):
        yard.tick()
        await stopped.wait()
        reasons.append(stopped.reason)

    @yard.timer(id="timer", interval=1)
    async def timer(**_):
        calls.append(yard.time())

    reasons, calls = [], []
    yard.see()
    await asyncio.sleep(1.5)
    yard.engine.reach(DaemonStoppingReason.OPERATOR_PAUSING)
    await yard.engine.end_instantly()
    assert reasons == [PAUSING]
    assert not yard.engine.spawned
    yard.see()
    await asyncio.sleep(10)
    assert calls == [0, 1]
    yard.engine.reach(None)
    yard.see()
    await asyncio.sleep(1.2)
    assert yard.ticks == [0, 11.5]
    assert calls == [0, 1, 11.5, 12.5]


@pytest.mark.parametrize("delay", [None, 5])
@timeless
async def test_f10_nothing_starts_after_a_pause_in_the_middle_of_spawning(yard, delay):
    @yard.daemon(id="daemon", initial_delay=delay)
    async def daemon(**_):
        yard.tick()

    @yard.timer(id="timer", interval=1, initial_delay=delay)
    async def timer(**_):
        yard.tick()

    for number in range(1000):
        yard.see(f"uid{number}")
    yard.engine.reach(DaemonStoppingReason.OPERATOR_PAUSING)
    await yard.engine.end_instantly()
    started = len(yard.ticks)
    assert started < 2000
    await asyncio.sleep(100)
    assert len(yard.ticks) == started
    assert not yard.engine.spawned


@pytest.mark.docs("daemons/filtering")
@timeless
async def test_criteria_are_checked_when_the_object_changes_and_not_by_themselves(yard):
    @yard.daemon(when=lambda **_: is_wanted)
    async def fn(stopped, **_):
        yard.tick()
        await stopped.wait()
        yard.tick()

    is_wanted = False
    yard.see()
    await asyncio.sleep(10)
    is_wanted = True
    await asyncio.sleep(10)
    assert yard.ticks == []
    yard.see()
    await asyncio.sleep(10)
    assert yard.ticks == [20]
    is_wanted = False
    await asyncio.sleep(10)
    assert yard.ticks == [20]
    yard.see()
    await asyncio.sleep(10)
    assert yard.ticks == [20, 40]


@timeless
async def test_daemon_lingering_over_the_pause_is_restarted_after_it(yard):
    @yard.daemon()
    async def fn(stopped, **_):
        yard.tick()
        await stopped.wait()
        await asyncio.sleep(10)

    yard.see()
    await asyncio.sleep(1)
    yard.engine.reach(DaemonStoppingReason.OPERATOR_PAUSING)
    await yard.engine.end_instantly()
    yard.engine.reach(None)
    yard.see()
    await asyncio.sleep(20)
    assert yard.ticks == [0, 11]


@pytest.mark.docs("daemons/termination")
@timeless
async def test_exit_waits_for_what_the_daemons_have_declared(yard):
    @yard.daemon(cancellation_backoff=10, cancellation_timeout=20)
    async def fn(stopped, **_):
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(15)
            ended.append(yard.time())

    ended = []
    yard.see()
    await asyncio.sleep(1)
    await yard.engine.exit()
    assert ended == [26]
    assert yard.time() == 26


@timeless
async def test_exit_cancels_those_with_no_limits_after_the_timeout(yard):
    @yard.daemon()
    async def fn(stopped, **_):
        try:
            await asyncio.sleep(100)
        finally:
            reasons.append(stopped.reason)

    reasons = []
    yard.see()
    await asyncio.sleep(1)
    await yard.engine.exit()
    assert yard.time() == 6
    assert reasons == [EXITING]
    assert not yard.engine.orphans


@timeless
async def test_f2_exit_leaves_behind_those_who_ignore_it(yard):
    @yard.daemon(id="async")
    async def async_fn(stopped, **_):
        while True:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                pass

    @yard.daemon(id="sync")
    def sync_fn(stopped, **_):
        release.wait()

    release = threading.Event()
    before = asyncio.all_tasks()
    yard.see()
    await asyncio.sleep(1)
    with pytest.warns(ResourceWarning) as warned:
        await yard.engine.exit()
    assert yard.time() == 7
    assert len(warned) == 2
    assert asyncio.all_tasks() == before, "the loop would wait for them for ever"
    release.set()


@timeless
async def test_exit_with_warnings_as_errors_still_exits(yard):
    @yard.daemon()
    def fn(stopped, **_):
        release.wait()

    release = threading.Event()
    yard.see()
    await asyncio.sleep(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await yard.engine.exit()
    assert not yard.engine.spawned
    release.set()


@timeless
async def test_removed_resources_are_stopped(yard, resource):
    @yard.daemon()
    async def fn(stopped, **_):
        await stopped.wait()
        reasons.append(stopped.reason)

    reasons = []
    yard.see()
    await asyncio.sleep(1)
    yard.engine.stop_resource(resource, "other-namespace", DELETED)
    await asyncio.sleep(1)
    assert not reasons
    yard.engine.stop_resource(resource, "ns", DELETED)
    await asyncio.sleep(1)
    assert reasons == [DELETED]


@timeless
async def test_two_functions_with_one_id_are_one_daemon(yard):
    @yard.daemon()
    async def fn1(**_):
        yard.tick()

    @yard.daemon()
    async def fn2(**_):
        yard.tick()

    yard.see()
    await asyncio.sleep(1)
    assert yard.ticks == [0]


@timeless
async def test_object_with_nothing_matching_has_no_record(yard):
    @yard.daemon(labels={"label": "yes"})
    async def fn(**_): ...

    key = yard.label("no")
    assert not yard.engine._objects
    assert not yard.engine.is_running(key)
    assert not yard.engine.is_stopping(key)
    yard.delete()


@pytest.mark.docs("daemons/safe-sleep")
@timeless
async def test_sleep_ends_by_time_or_when_the_daemon_is_stopped(yard):
    @yard.daemon()
    async def fn(stopped, **_):
        while not stopped:
            yard.tick()
            await stopped.wait(3600)
        yard.tick()

    key = yard.see()
    await asyncio.sleep(4000)
    yard.delete()
    await yard.engine.settle(key)
    assert not yard.engine.is_running(key)
    assert yard.ticks == [0, 3600, 4000]


@pytest.mark.docs("daemons/safe-sleep")
async def test_sleep_in_a_thread_ends_when_the_daemon_is_stopped(yard):
    loop, started = asyncio.get_running_loop(), asyncio.Event()
    yard.execution = Execution(settings=yard.settings, lifecycle=all_at_once)
    reasons = []

    @yard.daemon()
    def fn(stopped, **_):
        loop.call_soon_threadsafe(started.set)
        reasons.append(stopped.wait(3600).reason)

    key = yard.see()
    await started.wait()
    yard.delete()
    await asyncio.wait([run.task for run in yard.engine.spawned], timeout=10)
    assert not yard.engine.is_running(key)
    assert DaemonStoppingReason.RESOURCE_DELETED in reasons[0]


@pytest.mark.docs("daemons/safe-sleep")
@pytest.mark.parametrize(
    ("style", "checker"), [("sync", SyncDaemonStopperChecker), ("async", AsyncDaemonStopperChecker)]
)
async def test_stop_flags_are_for_the_kind_of_the_function(yard, style, checker):
    loop, types = asyncio.get_running_loop(), asyncio.Queue()
    yard.execution = Execution(settings=yard.settings, lifecycle=all_at_once)

    def fn(stopped, **_):
        loop.call_soon_threadsafe(types.put_nowait, type(stopped))

    async def afn(stopped, **_):
        fn(stopped)

    yard.daemon()(fn if style == "sync" else afn)
    yard.see()
    assert await types.get() is checker
    await yard.engine.exit()


@timeless
async def test_r5_the_last_patch_is_not_interrupted(yard):
    """The function has exited when it was asked, but it would be cancelled while it is patching."""

    @yard.daemon(cancellation_timeout=10)
    async def fn(stopped, patch, **_):
        await stopped.wait()
        patch.status["last"] = "word"

    yard.latency = 3
    key = yard.see()
    await asyncio.sleep(1)
    yard.delete()
    await asyncio.sleep(4)
    assert yard.patches == [{"status": {"last": "word"}}]
    assert not yard.engine.is_running(key)


@timeless
async def test_r5_the_last_patch_of_cancelled_functions_is_sent(yard):
    @yard.daemon(cancellation_timeout=10)
    async def fn(patch, **_):
        try:
            await asyncio.sleep(100)
        finally:
            patch.status["last"] = "word"

    yard.latency = 3
    key = yard.see()
    await asyncio.sleep(1)
    yard.delete()
    await asyncio.sleep(4)
    assert yard.patches == [{"status": {"last": "word"}}]
    assert not yard.engine.is_running(key)


@timeless
async def test_r5_hanging_patches_do_not_hold_the_exit(yard):
    @yard.daemon(cancellation_timeout=10)
    async def fn(stopped, patch, **_):
        await stopped.wait()
        patch.status["last"] = "word"

    yard.latency = 1000
    before = asyncio.all_tasks()
    yard.see()
    await asyncio.sleep(1)
    with pytest.warns(ResourceWarning):
        await yard.engine.exit()
    assert yard.time() < 30
    await asyncio.sleep(0)
    assert yard.patches == []
    assert asyncio.all_tasks() == before


@timeless
async def test_l_objects_are_forgotten_as_after_a_restart_but_not_those_in_work(yard):
    @yard.daemon()
    async def fn(name, **_):
        await asyncio.sleep(10 if yard.running is None else 0)

    yard.running = None
    working = yard.see("a")
    await asyncio.sleep(1)
    yard.running = "b"
    finished = yard.see("b")
    await asyncio.sleep(1)
    assert yard.engine.get_finished(finished) == {"fn"}
    assert [*yard.engine.restart()] == [working]
    assert not yard.engine.get_finished(finished)
    yard.engine.forget(working)
    assert not yard.engine.is_running(working)


async def test_sim31_daemons_start_after_a_pause_in_the_order_of_their_first_starts(yard):
    """Not in the order of addresses in memory: that is another one in each process."""

    @yard.daemon()
    async def fn(stopped, **_):
        await stopped.wait()

    uids = [f"uid{number}" for number in range(30)]
    for uid in uids:
        yard.see(uid)
    await asyncio.sleep(0)
    yard.engine.reach(PAUSING)
    suspended = [str(body.metadata.uid) for _, body in yard.engine.take_suspended().values()]
    assert suspended == uids
