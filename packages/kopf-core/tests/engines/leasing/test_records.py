"""What is in the leases, and who holds them: by the rules of client-go."""

import datetime
from typing import Any

import pytest

from kopf_core.engines.leasing.lease_records import (
    LeaseRecord,
    Observation,
    make_next,
    make_released,
)

NOW = datetime.datetime(2030, 1, 2, 3, 4, 5, 678, tzinfo=datetime.UTC)
TIME = "2030-01-02T03:04:05.000678Z"
OTHER = LeaseRecord("other", 15, 3, "then", "later")


def test_nobody_holds_what_is_not_there() -> None:
    assert not Observation().is_held_by_other("me", 0)


@pytest.mark.parametrize(("now", "expected"), [(100, True), (114.9, True), (115, False)])
def test_others_hold_it_for_as_long_as_they_say(now: float, expected: bool) -> None:
    observation = Observation()
    observation.observe(OTHER, 100)
    assert observation.is_held_by_other("me", now) is expected


@pytest.mark.parametrize("duration", [None, 0, -5, "x", 1.5])
@pytest.mark.parametrize(("now", "expected"), [(100, True), (109.9, True), (110, False)])
def test_f8_r40_others_that_do_not_say_how_long_hold_it_for_as_long_as_we_would(
    duration: Any, now: float, expected: bool
) -> None:
    observation = Observation(duration=10)
    spec = {"holderIdentity": "other", "leaseDurationSeconds": duration, "renewTime": "junk"}
    observation.observe(LeaseRecord.parse({"spec": spec}), 100)
    assert observation.is_held_by_other("me", now) is expected


def test_f8_only_local_observation_counts() -> None:
    observation = Observation()
    observation.observe(OTHER, 100)
    observation.observe(OTHER, 114)  # the same: nobody has renewed it
    assert not observation.is_held_by_other("me", 116)
    observation.observe(LeaseRecord("other", 15, 3, "then", "1970-01-01T00:00:00Z"), 116)
    assert observation.is_held_by_other("me", 130)


def test_ours_and_released_are_not_held_by_others() -> None:
    observation = Observation()
    observation.observe(OTHER, 100)
    assert not observation.is_held_by_other("other", 101)
    observation.observe(make_released(OTHER, now=NOW), 101)
    assert not observation.is_held_by_other("me", 101)


def test_acquiring_counts_transitions() -> None:
    assert make_next(None, "me", duration=15, now=NOW) == LeaseRecord("me", 15, 0, TIME, TIME)
    assert make_next(OTHER, "me", duration=15, now=NOW) == LeaseRecord("me", 15, 4, TIME, TIME)


def test_renewing_keeps_when_it_was_acquired() -> None:
    assert make_next(OTHER, "other", duration=9, now=NOW) == LeaseRecord(
        "other", 9, 3, "then", TIME
    )


def test_the_form_is_that_of_kubernetes() -> None:
    record = make_next(OTHER, "me", duration=15, now=NOW)
    assert record.as_spec() == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 4,
        "acquireTime": TIME,
        "renewTime": TIME,
    }
    assert LeaseRecord.parse({"spec": record.as_spec()}) == record


@pytest.mark.parametrize(("duration", "expected"), [(0.2, 1), (2.5, 3), (3, 3), (3.01, 4)])
def test_i_others_never_wait_less_than_the_duration(duration: float, expected: int) -> None:
    record = make_next(None, "me", duration=duration, now=NOW)
    assert record.as_spec()["leaseDurationSeconds"] == expected


@pytest.mark.parametrize(
    "spec",
    [
        None,
        "x",
        {},
        {"holderIdentity": 5, "leaseDurationSeconds": "x", "leaseTransitions": None},
        {"holderIdentity": None, "leaseDurationSeconds": -5, "renewTime": 7},
    ],
)
def test_junk_is_as_absent(spec: Any) -> None:
    assert LeaseRecord.parse({"spec": spec}) == LeaseRecord()
