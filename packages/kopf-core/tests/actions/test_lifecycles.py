"""Which of the handlers that are due are called now."""

import datetime

import pytest

from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.lifecycles import (
    all_at_once,
    asap,
    get_default_lifecycle,
    one_by_one,
    randomized,
    set_default_lifecycle,
    shuffled,
)
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.states import State

NOW = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
ALL = [all_at_once, one_by_one, randomized, shuffled, asap]


@pytest.fixture
def handlers():
    return [BaseHandler(fn=print, id=id) for id in "abc"]


@pytest.fixture
def state(handlers):
    return State.from_scratch(now=NOW).with_purpose("create", handlers)


@pytest.mark.parametrize("lifecycle", ALL)
def test_nothing_of_nothing(lifecycle, state):
    assert lifecycle([], state=state) == []


def test_all_at_once(handlers, state):
    assert all_at_once(handlers, state=state, body="ignored") == handlers


def test_one_by_one(handlers, state):
    assert one_by_one(handlers, state=state) == handlers[:1]


def test_randomized(handlers, state):
    picks = [randomized(handlers, state=state) for _ in range(200)]
    assert {len(pick) for pick in picks} == {1}
    assert {pick[0].id for pick in picks} == {*"abc"}


def test_shuffled(handlers, state):
    picks = [shuffled(handlers, state=state) for _ in range(200)]
    assert all(sorted(handler.id for handler in pick) == [*"abc"] for pick in picks)
    assert len({tuple(handler.id for handler in pick) for pick in picks}) > 1
    assert [handler.id for handler in handlers] == [*"abc"]  # not modified


def test_asap_prefers_the_least_tried_in_the_order_of_registration(handlers, state):
    again = Outcome(final=False, delay=0, exception=Exception())
    assert asap(handlers, state=state) == handlers[:1]
    state = state.with_outcomes({"a": again}, now=NOW)
    assert asap(handlers, state=state) == handlers[1:2]
    state = state.with_outcomes({"b": again}, now=NOW)
    assert asap(handlers, state=state) == handlers[2:]
    state = state.with_outcomes({"c": again}, now=NOW)
    assert asap(handlers, state=state) == handlers[:1]


def test_default_lifecycle_can_be_set_and_reset(logged):
    assert get_default_lifecycle() is asap
    try:
        set_default_lifecycle(all_at_once)
        assert get_default_lifecycle() is all_at_once
    finally:
        set_default_lifecycle(None)
    assert get_default_lifecycle() is asap
