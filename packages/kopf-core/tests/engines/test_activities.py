"""Activities of the operator: all handlers until all are over."""

import asyncio
import datetime
import logging
import threading

import pytest

from kopf_cogs.configs.checks import UnknownSettingError
from kopf_cogs.structs.memos import Memo
from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.errors import ErrorsMode, PermanentError, TemporaryError
from kopf_core.actions.ongoing import Ongoing
from kopf_core.engines.activities import ActivityError, ActivityRunner
from kopf_core.intents.causes import Activity
from kopf_core.intents.handlers import ActivityHandler


def make(fn, id="fn", **options):
    return ActivityHandler(fn=fn, id=id, activity=Activity.STARTUP, **options)


@pytest.fixture
def run(settings, clock):
    runner = ActivityRunner(settings, Memo(x=1), {"my_index": "the index"}, clock)

    async def run(*handlers):
        return await runner.run(Activity.STARTUP, [*handlers])

    return run


@pytest.mark.docs("startup")
async def test_results_are_collected_by_ids(run):
    assert await run(
        make(lambda **_: "a", "a"),
        make(lambda **_: None, "b"),
        make(lambda **_: 0, "c"),
    ) == {"a": "a", "c": 0}


async def test_nothing_to_run(run):
    assert await run() == {}


@pytest.mark.docs("startup")
async def test_kwargs(run, settings):
    seen = {}
    await run(make(lambda **kwargs: seen.update(kwargs), param="p"))
    assert sorted(seen) == [
        "activity",
        "dryrun",
        "logger",
        "memo",
        "my_index",
        "param",
        "retry",
        "runtime",
        "settings",
        "started",
    ]
    assert seen["settings"] is settings
    assert seen["memo"].x == 1
    assert seen["logger"].name == "kopf.activities.startup"


@pytest.mark.docs("startup")
async def test_errors_are_retried_in_memory(run, logged):
    calls = []

    def fn(retry, **_):
        calls.append(retry)
        if retry < 2:
            raise TemporaryError("not yet", delay=0)
        return "done"

    assert await run(make(fn), make(lambda **_: calls.append("other"), "other")) == {"fn": "done"}
    assert calls == [0, "other", 1, 2]
    assert logged()[0] == "Activity 'fn' is invoked."
    assert logged()[-1] == "Activity 'fn' succeeded."
    assert "Activity 'fn' failed temporarily: not yet" in logged()


@pytest.mark.docs("startup")
@pytest.mark.parametrize("exc", [PermanentError("boom"), ValueError("boom"), SystemExit("boom")])
async def test_failures_are_errors_naming_the_handlers(run, exc):
    def fn(**_):
        raise exc

    with pytest.raises(ActivityError, match=r"startup activity has failed: 'fn' \(.*boom") as info:
        await run(make(fn, errors=ErrorsMode.PERMANENT), make(lambda **_: "r", "good"))
    assert info.value.results == {"good": "r"}
    assert {*info.value.outcomes} == {"fn", "good"}


async def test_failures_are_named_as_in_the_log(run):
    def fn(**_):
        raise KeyError("nope")

    with pytest.raises(ActivityError, match=r"'fn' \(KeyError: 'nope'\)"):
        await run(make(fn, errors=ErrorsMode.PERMANENT))


async def test_ignored_errors_are_no_failures(run):
    def fn(**_):
        raise ValueError

    assert await run(make(fn, errors=ErrorsMode.IGNORED)) == {}


async def test_retries_are_limited(run):
    def fn(**_):
        raise TemporaryError("x", delay=0)

    with pytest.raises(ActivityError, match="exceed 3 retries"):
        await run(make(fn, retries=3))


@pytest.mark.parametrize("days", [-1, 1])
async def test_r12_d11_jumps_of_the_wall_clock_change_neither_timeouts_nor_delays(run, clock, days):
    calls = []

    def fn(retry, runtime, **_):
        calls.append(runtime)
        if not retry:
            clock.set_wall_time(clock.now() + datetime.timedelta(days=days))
            clock.advance(3)
            raise TemporaryError("not yet", delay=0)

    await run(make(fn, timeout=10))
    assert calls == [datetime.timedelta(0), datetime.timedelta(seconds=3)]


async def test_cancellation_ends_the_activity_and_leaves_its_thread_known(settings):
    """Whoever exits decides how long to wait for the threads."""
    started, proceed, ongoing = threading.Event(), threading.Event(), Ongoing()

    def slow(**_):
        started.set()
        proceed.wait()

    runner = ActivityRunner(settings, Memo(), {}, ongoing=ongoing)
    task = asyncio.create_task(runner.run(Activity.STARTUP, [make(slow)]))
    await asyncio.to_thread(started.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ongoing.describe() == ["Activity 'fn'"]
    proceed.set()
    while ongoing:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_r7_activities_do_not_wait_for_busy_handlers(settings):
    settings.execution.max_workers = 1
    release = threading.Event()
    busy = settings.execution.executor.submit(release.wait)
    names = await ActivityRunner(settings, Memo(), {}).run(
        Activity.STARTUP, [make(lambda **_: threading.current_thread().name)]
    )
    assert names == {"fn": "kopf-startup_0"}
    assert not busy.done()
    release.set()


async def test_f2_retries_that_would_be_too_late_are_failures(settings, clock):
    def fn(**_):
        raise TemporaryError("not yet", delay=60)

    runner = ActivityRunner(settings, Memo(), {}, clock)
    with pytest.raises(ActivityError, match="not yet"):
        await runner.run(Activity.CLEANUP, [make(fn)], get_left=lambda: 25.0)


async def test_senseless_settings_are_final(settings, caplog):
    """The next attempt would set the same value."""

    def configure(settings, **_):
        settings.posting.level = "INFO"

    with pytest.raises(ActivityError, match=r"settings\.posting\.level must be an integer"):
        await ActivityRunner(settings, Memo(), {}).run(Activity.STARTUP, [make(configure)])
    assert "failed permanently: settings.posting.level must be an integer" in caplog.text


async def test_misspelled_sections_of_settings_are_final(settings, caplog):
    """The next attempt would misspell them, too."""

    def configure(settings, **_):
        settings.postign.level = logging.INFO

    text = r"There is no such setting: settings\.postign\. Did you mean 'settings\.posting'\?"
    with pytest.raises(ActivityError, match=text):
        await ActivityRunner(settings, Memo(), {}).run(Activity.STARTUP, [make(configure)])
    (message,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert message.startswith("Activity 'fn' failed permanently: There is no such setting")
    assert not any(record.exc_info for record in caplog.records)


def test_misspelled_sections_are_not_final_for_handlers_of_objects():
    assert UnknownSettingError in ActivityHandler.final_errors
    assert not issubclass(UnknownSettingError, BaseHandler.final_errors)
