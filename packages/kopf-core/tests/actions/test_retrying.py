"""Whether and when a handler is tried again."""

import datetime
import math

import pytest

from kopf_cogs.clients.errors import APIForbiddenError
from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.errors import ErrorsMode, HandlerRetriesError, HandlerTimeoutError
from kopf_core.actions.retrying import (
    MAX_DELAY,
    RetryPolicy,
    describe,
    jittered,
    safe_message,
    sane_delay,
)

NO_TIME = datetime.timedelta(0)


def seconds(value):
    return datetime.timedelta(seconds=value)


def handler(**options):
    return BaseHandler(fn=lambda **_: None, id="fn", **options)


@pytest.mark.docs("errors/regular")
@pytest.mark.docs("errors/backoff")
def test_defaults_are_those_of_the_operator():
    policy = RetryPolicy.of(handler(), ErrorsMode.TEMPORARY, 60)
    assert policy == RetryPolicy(
        errors=ErrorsMode.TEMPORARY, backoff=60, timeout=None, retries=None
    )


@pytest.mark.docs("errors/backoff")
def test_options_of_the_handler_win_even_if_zero():
    one = handler(errors=ErrorsMode.PERMANENT, backoff=0, timeout=0, retries=0)
    policy = RetryPolicy.of(one, ErrorsMode.TEMPORARY, 60)
    assert policy == RetryPolicy(errors=ErrorsMode.PERMANENT, backoff=0, timeout=0, retries=0)


@pytest.mark.docs("errors/retries")
@pytest.mark.parametrize(
    ("retries", "retry", "allowed"),
    [(None, 1000, True), (3, 2, True), (3, 3, False), (3, 4, False), (0, 0, False)],
)
def test_attempts_are_limited(retries, retry, allowed):
    policy = RetryPolicy.of(handler(retries=retries), ErrorsMode.TEMPORARY, 60)
    if allowed:
        policy.check_limits(handler(), retry=retry, runtime=NO_TIME)
    else:
        with pytest.raises(HandlerRetriesError, match=f"^Handler 'fn' has exceeded {retry} "):
            policy.check_limits(handler(), retry=retry, runtime=NO_TIME)


@pytest.mark.docs("errors/timeouts")
@pytest.mark.parametrize(
    ("timeout", "runtime", "allowed"),
    [(None, 1e6, True), (5, 4.9, True), (5, 5, False), (5, 6, False), (0, 0, False)],
)
def test_overall_time_is_limited(timeout, runtime, allowed):
    policy = RetryPolicy.of(handler(timeout=timeout), ErrorsMode.TEMPORARY, 60)
    if allowed:
        policy.check_limits(handler(), retry=0, runtime=seconds(runtime))
    else:
        with pytest.raises(HandlerTimeoutError, match=r"^Handler 'fn' has timed out after "):
            policy.check_limits(handler(), retry=0, runtime=seconds(runtime))


@pytest.mark.parametrize(
    ("options", "retry", "runtime", "delay", "expected"),
    [
        ({}, 100, 1e6, 1e6, None),
        ({"retries": 3}, 1, 0, 0, None),
        ({"retries": 3}, 2, 0, 0, "exceed 3 retries"),
        ({"timeout": 10}, 0, 4, 5, None),
        ({"timeout": 10}, 0, 5, 5, "time out after 10 seconds"),
        ({"timeout": 10}, 0, 11, None, "time out after 10 seconds"),
        ({"timeout": 10, "retries": 1}, 0, 11, None, "exceed 1 retries"),
    ],
)
def test_hopeless_attempts_are_foreseen(options, retry, runtime, delay, expected):
    policy = RetryPolicy.of(handler(**options), ErrorsMode.TEMPORARY, 60)
    assert policy.forbids(retry=retry, runtime=seconds(runtime), delay=delay) == expected


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (None, None),
        (0, 0),
        (-1, 0),
        (1.5, 1.5),
        ("2", 2),
        (1e12, MAX_DELAY),
        (math.inf, MAX_DELAY),
        (-math.inf, 0),
        (math.nan, None),
        ("soon", None),
        (object(), None),
        (10**400, MAX_DELAY),
        (-(10**400), 0),
    ],
    ids=lambda value: str(value)[:20],
)
def test_d12_delays_are_sane(delay, expected):
    assert sane_delay(delay) == expected


def test_d12_the_longest_delay_can_be_stored_as_a_time():
    assert datetime.datetime(2020, 1, 1) + seconds(sane_delay(math.inf))


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("cannot be printed")


def test_s4_descriptions_go_on_with_what_to_add_to_the_role():
    exc = APIForbiddenError(status=403, message="forbidden.")
    assert describe(exc) == "403: forbidden."
    exc.role_hint = " Add this rule."
    assert describe(exc) == "403: forbidden. Add this rule."


def test_s4_errors_of_users_can_have_any_attributes():
    exc = Exception("forbidden.")
    exc.role_hint = object()
    assert describe(exc) == "forbidden."


@pytest.mark.parametrize(
    ("exc", "expected"),
    [
        (Exception("boom"), "boom"),
        (KeyError("x"), "'x'"),
        (Exception("\ud800"), "?"),
        (Unprintable(), "<unprintable Unprintable>"),
        (Exception(), ""),
    ],
)
def test_d12_messages_are_safe(exc, expected):
    assert safe_message(exc) == expected


@pytest.mark.parametrize(
    ("exc", "expected"),
    [
        (Exception("boom"), "boom"),
        (ValueError(), "ValueError()"),
        (KeyError("spec"), "KeyError: 'spec'"),
    ],
)
def test_descriptions_are_never_empty_and_never_mere_keys(exc, expected):
    assert describe(exc) == expected


def test_d12_huge_messages_are_cut_in_the_middle():
    message = safe_message(Exception("a" * 5_000_000 + "b"))
    assert len(message) < 5000
    assert message.startswith("aaa")
    assert "..." in message
    assert message.endswith("ab")


def test_jitter_is_within_its_ratio():
    assert all(90 <= jittered(100) <= 110 for _ in range(100))
    assert len({jittered(100) for _ in range(100)}) > 1
