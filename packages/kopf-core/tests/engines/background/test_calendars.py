"""Timers by the calendar: in a loop where months pass in no time."""

import asyncio
import datetime

import pytest
from virtual_time import timeless

from kopf_core.actions.errors import ErrorsMode, TemporaryError

HOUR, DAY = 3600.0, 86400.0


class Runs(list):
    """For which moments a timer was called, and when."""

    def __init__(self, yard):
        super().__init__()
        self.yard = yard
        self.scheduled = []

    async def __call__(self, scheduled, **_):
        self.append(self.yard.clock.now())
        self.scheduled.append(scheduled)


@pytest.fixture
def runs(yard):
    return Runs(yard)


def at(day, hour=0, minute=0, second=0):
    return datetime.datetime(2024, 5, day, hour, minute, second, tzinfo=datetime.UTC)


@pytest.fixture(autouse=True)
def noon(yard):
    """It is noon of the 1st of May in all tests."""
    yard.clock.epoch = at(1, 12)


def passed(yard):
    """The progress of the latest patch."""
    annotations = yard.patches[-1]["metadata"]["annotations"]
    return {key: value for key, value in annotations.items() if value is not None}


@pytest.mark.docs("timers/schedules")
@timeless
async def test_q_cron_a_timer_runs_by_the_calendar(yard, runs):
    yard.timer(schedule="30 3 * * *")(runs)
    yard.timer(schedule="@monthly", id="monthly")(runs)
    yard.see()
    await asyncio.sleep(3 * DAY)
    assert runs.scheduled == [at(2, 3, 30), at(3, 3, 30), at(4, 3, 30)]
    assert runs == runs.scheduled
    assert not yard.patches


@timeless
async def test_q_cron_the_time_zone_has_its_summer_time(yard, runs):
    yard.clock.epoch = datetime.datetime(2024, 10, 26, tzinfo=datetime.UTC)
    yard.timer(schedule="0 12 * * *", timezone="Europe/Berlin")(runs)
    yard.see()
    await asyncio.sleep(2 * DAY)
    assert [run.hour for run in runs] == [10, 11]


@timeless
async def test_q_cron_runs_missed_in_a_long_call_are_not_made_up_for_by_default(yard, runs):
    @yard.timer(schedule="0 * * * *")
    async def fn(**kwargs):
        await runs(**kwargs)
        await asyncio.sleep(2.5 * HOUR)

    yard.see()
    await asyncio.sleep(8 * HOUR)
    assert runs == [at(1, 13), at(1, 16), at(1, 19)]


@pytest.mark.docs("timers/schedules")
@pytest.mark.parametrize(
    ("missed", "scheduled"),
    [
        ("none", [at(2, 13)]),
        ("one", [at(2, 12), at(2, 13)]),
        ("all", [*(at(1, hour) for hour in range(20, 24)), *(at(2, hour) for hour in range(14))]),
    ],
)
@timeless
async def test_q_cron_runs_missed_while_the_operator_was_down(yard, runs, missed, scheduled):
    yard.clock.epoch = at(2, 12, 30)
    yard.timer(schedule="0 * * * *", missed=missed)(runs)
    record = '{"started":"2024-05-01T19:00:00+00:00","stopped":"2024-05-01T19:00:00+00:00"}'
    yard.see(metadata={"annotations": {"kopf.zalando.org/fn.schedule": record}})
    await asyncio.sleep(HOUR)
    assert runs.scheduled == scheduled


@timeless
async def test_q_cron_no_more_than_a_hundred_missed_runs_are_made_up_for(yard, runs):
    yard.timer(schedule="* * * * *", missed="all")(runs)
    record = '{"stopped":"2024-04-01T19:00:00+00:00"}'
    yard.see(metadata={"annotations": {"kopf.zalando.org/fn.schedule": record}})
    await asyncio.sleep(1)
    assert len(runs) == 100
    assert runs.scheduled[0] == at(1, 10, 21)
    assert runs.scheduled[-1] == at(1, 12)


@timeless
async def test_q_cron_the_latest_run_is_remembered_on_the_object(yard, runs):
    yard.timer(schedule="0 * * * *", missed="one")(runs)
    yard.see()
    await asyncio.sleep(2.5 * HOUR)
    assert len(yard.patches) == 2
    [(key, value)] = passed(yard).items()
    assert key == "kopf.zalando.org/fn.schedule"
    assert "2024-05-01T14:00:00+00:00" in value


@timeless
async def test_q_cron_garbage_in_the_record_is_as_no_record(yard, runs):
    yard.timer(schedule="0 * * * *", missed="all")(runs)
    yard.see(metadata={"annotations": {"kopf.zalando.org/fn.schedule": '{"stopped":"soon"}'}})
    await asyncio.sleep(1.5 * HOUR)
    assert runs.scheduled == [at(1, 13)]


@timeless
async def test_q_cron_a_failed_run_is_retried_for_the_same_moment(yard, runs):
    @yard.timer(schedule="0 * * * *", missed="one")
    async def fn(retry, **kwargs):
        await runs(**kwargs)
        if retry < 2:
            raise TemporaryError("not yet", delay=10)

    yard.see()
    await asyncio.sleep(1.5 * HOUR)
    assert runs.scheduled == [at(1, 13)] * 3
    assert len(yard.patches) == 1


@timeless
async def test_q_cron_a_run_that_is_given_up_does_not_end_the_schedule(yard, runs):
    @yard.timer(schedule="0 * * * *", errors=ErrorsMode.PERMANENT)
    async def fn(**kwargs):
        await runs(**kwargs)
        raise ValueError("never")

    yard.see()
    await asyncio.sleep(2.5 * HOUR)
    assert runs.scheduled == [at(1, 13), at(1, 14)]


@timeless
async def test_q_cron_a_clock_set_forward_is_noticed_before_the_run(yard, runs):
    yard.timer(schedule="0 3 * * *", missed="one")(runs)
    yard.see()
    await asyncio.sleep(HOUR)
    yard.clock.epoch += datetime.timedelta(hours=20)
    await asyncio.sleep(8 * HOUR)
    assert runs.scheduled == [at(2, 3)]


@timeless
async def test_q_cron_no_run_starts_before_its_moment(yard, runs):
    """Event loops can wake up slightly earlier than asked: as if the clock was set back."""
    yard.timer(schedule="0 * * * *")(runs)
    yard.see()
    await asyncio.sleep(1)
    yard.clock.epoch -= datetime.timedelta(microseconds=300)
    await asyncio.sleep(1.5 * HOUR)
    assert runs.scheduled == [at(1, 13)]
    assert runs[0] >= at(1, 13)


@timeless
async def test_q_cron_a_clock_set_back_repeats_nothing(yard, runs):
    yard.timer(schedule="0 * * * *")(runs)
    yard.see()
    await asyncio.sleep(2.5 * HOUR)
    yard.clock.epoch -= datetime.timedelta(hours=2)
    await asyncio.sleep(3 * HOUR)
    assert runs.scheduled == [at(1, 13), at(1, 14), at(1, 15)]


@timeless
async def test_q_cron_jitter_spreads_objects_and_keeps_their_delays(yard, runs):
    yard.timer(schedule="0 * * * *", jitter=600)(runs)
    for number in range(50):
        yard.see(uid=f"uid{number}")
    await asyncio.sleep(2.5 * HOUR)
    first, second = runs[:50], runs[50:]
    assert len(set(first)) > 40
    assert max(first) - at(1, 13) <= datetime.timedelta(seconds=600)
    gaps = [after - before for before, after in zip(first, second, strict=True)]
    assert all(abs(gap.total_seconds() - HOUR) < 0.001 for gap in gaps)


@timeless
async def test_q_cron_the_initial_delay_is_over_before_the_first_run(yard, runs):
    yard.timer(schedule="0 * * * *", initial_delay=1.5 * HOUR)(runs)
    yard.see()
    await asyncio.sleep(2.5 * HOUR)
    assert runs.scheduled == [at(1, 14)]


@timeless
async def test_q_cron_timers_with_no_schedule_have_no_scheduled_time(yard, runs):
    yard.timer(interval=HOUR)(runs)
    yard.see()
    await asyncio.sleep(1)
    assert runs.scheduled == [None]
