"""The reasons to leave an object alone for a while."""

import itertools

import pytest

from kopf_core.engines.records.holds import (
    FREE,
    LOST_MARKS_DELAYS,
    PEACE,
    FinalizerHold,
    Throttling,
)


def fail(times, delays):
    throttling, found = Throttling(), []
    for _ in range(times):
        throttling = throttling.failed("reason")
        found.append(throttling.get_delay(delays))
    return found


@pytest.mark.docs("configuration/throttling")
def test_delays_grow_and_the_last_one_is_repeated():
    assert fail(5, [1, 2, 3]) == [1, 2, 3, 3, 3]


@pytest.mark.docs("configuration/throttling")
def test_no_delays_no_throttling():
    assert fail(1, []) == [None]


@pytest.mark.docs("configuration/throttling")
def test_delays_can_be_endless():
    assert fail(3, itertools.repeat(1)) == [1, 1, 1]
    assert fail(3, range(10**9)) == [0, 1, 2]


def test_b4_the_latest_reason_is_known():
    assert Throttling().failed("a").failed("b") == Throttling(failures=2, reason="b")


def test_c15_objects_are_held_longer_each_time_when_they_lose_our_marks():
    holds, delays = FREE, []
    for _ in range(10):
        holds = holds.lost(100.0)
        delays.append(holds.until - 100.0)
    assert delays[: len(LOST_MARKS_DELAYS)] == [*LOST_MARKS_DELAYS]
    assert delays[-1] == LOST_MARKS_DELAYS[-1]
    assert holds.handled().until == 0.0
    assert holds.handled().losses == 10


def test_c15_only_what_we_have_done_to_the_finalizer_can_be_undone():
    hold = FinalizerHold()
    assert hold.noticed("v1", 100.0, wanted=True) is hold
    added = hold.changed("v1", is_added=True)
    assert added.noticed("v1", 100.0, wanted=False) is added  # not undone, but not wanted anymore
    once = added.noticed("v1", 100.0, wanted=True)
    assert (once.undone, once.until) == (1, 100.0 + LOST_MARKS_DELAYS[0])
    assert once.noticed("v1", 100.0, wanted=True) is once


def test_c15_others_with_the_finalizer_in_another_version_of_the_kind_undo_it():
    added = FinalizerHold().changed("v1", is_added=True)
    assert added.noticed("v2", 100.0, wanted=False).undone == 1


def test_c15_after_a_long_peace_it_is_counted_anew():
    hold = FinalizerHold()
    for _ in range(3):
        hold = hold.changed("v1", is_added=True).noticed("v1", 100.0, wanted=True)
    assert hold.undone == 3
    hold = hold.changed("v1", is_added=True).noticed("v1", hold.until + PEACE, wanted=True)
    assert hold.undone == 1
