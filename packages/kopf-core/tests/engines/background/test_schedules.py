"""When the next attempts are: pure arithmetics of time."""

import pytest

from kopf_core.engines.background.schedules import (
    get_first_tick,
    get_idle_end,
    get_next_tick,
    is_idle,
)
from kopf_core.intents.handlers import TimerHandler


def make(**kwargs):
    return TimerHandler(fn=lambda **_: None, id="t", **kwargs)


@pytest.mark.docs("timers/postponing")
@pytest.mark.parametrize(
    ("idle", "delay", "expected"),
    [
        (None, 0, 100),
        (None, 5, 105),
        (7, 0, 97),
        (20, 0, 110),
        (20, 5, 110),
        (20, 30, 130),
    ],
)
def test_first_tick_waits_for_both_the_delay_and_idling(idle, delay, expected):
    handler = make(interval=1, idle=idle)
    assert get_first_tick(handler, now=100, delay=delay, changed_at=90) == max(expected, 100)


@pytest.mark.docs("timers/intervals")
def test_interval_is_counted_from_the_end_of_the_handling():
    assert get_next_tick(make(interval=10), now=103, anchor=0, changed_at=0, ticked_at=100) == 113


@pytest.mark.docs("timers/sharpness")
@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (100.3, 101),
        (100, 101),
        (100.9995, 102),
        (101.2, 102),
        (105, 106),
        (100.0005, 101),
    ],
)
def test_d9_sharp_interval_keeps_the_grid_and_skips_missed_ticks(now, expected):
    handler = make(interval=1, sharp=True)
    assert get_next_tick(handler, now=now, anchor=0, changed_at=0, ticked_at=100) == expected


def test_d9_grid_of_an_hour_does_not_drift():
    handler = make(interval=0.1, sharp=True)
    tick = anchor = 12.345
    for _ in range(36000):
        tick = get_next_tick(handler, now=tick + 0.03, anchor=anchor, changed_at=0, ticked_at=tick)
    assert tick == pytest.approx(anchor + 3600)


@pytest.mark.parametrize("interval", [0, -1])
def test_zero_interval_is_at_once_even_if_sharp(interval):
    handler = make(interval=interval, sharp=True)
    assert get_next_tick(handler, now=100, anchor=0, changed_at=0, ticked_at=90) == 100


@pytest.mark.docs("timers/idling")
def test_idling_with_no_interval_depends_on_changes_only():
    handler = make(idle=10)
    assert get_next_tick(handler, now=100, anchor=0, changed_at=80, ticked_at=95) is None
    assert get_next_tick(handler, now=100, anchor=0, changed_at=96, ticked_at=95) == 106


def test_neither_interval_nor_idling_is_for_one_time():
    assert get_next_tick(make(), now=100, anchor=0, changed_at=96, ticked_at=95) is None


@pytest.mark.parametrize(
    ("idle", "now", "expected"),
    [
        (None, 0, True),
        (0, 0, True),
        (10, 104, False),
        (10, 110, True),
        (10, 109.9995, True),
    ],
)
def test_is_idle(idle, now, expected):
    assert is_idle(make(idle=idle), now=now, changed_at=100) is expected


def test_endless_idling_is_limited_to_what_loops_can_sleep():
    assert get_idle_end(make(idle=float("inf")), changed_at=0) < 1e10
