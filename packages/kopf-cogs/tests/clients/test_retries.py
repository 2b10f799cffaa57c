import datetime
import itertools

import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.clients import errors
from kopf_cogs.clients.retries import (
    MAX_RETRY_AFTER,
    Backoff,
    choose_delay,
    is_retriable,
    iter_backoffs,
    parse_retry_after,
)


@pytest.fixture
def clock():
    return FakeClock(datetime.datetime(2026, 10, 21, 7, 28, 0, tzinfo=datetime.UTC))


@pytest.mark.parametrize(
    ("backoffs", "expected"),
    [
        (1, [1]),
        (1.5, [1.5]),
        (0, [0]),
        ([], []),
        ((1, 2), [1, 2]),
        (range(3), [0, 1, 2]),
    ],
)
def test_backoffs(backoffs, expected):
    assert list(iter_backoffs(backoffs)) == expected


def test_infinite_backoffs_are_not_exhausted():
    class Infinite:
        def __iter__(self):
            return itertools.count()

    assert list(itertools.islice(iter_backoffs(Infinite()), 3)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("5", 5),
        ("0", 0),
        ("1.5", 1.5),
        (" 7 ", 7),
        ("Wed, 21 Oct 2026 07:28:10 GMT", 10),
        ("Wed, 21 Oct 2026 09:28:10 +0200", 10),
        ("Wed, 21 Oct 2026 07:28:10", 10),
        ("Wed, 21 Oct 2026 07:27:00 GMT", None),
        ("1e9", MAX_RETRY_AFTER),
        ("Wed, 21 Oct 2099 07:28:10 GMT", MAX_RETRY_AFTER),
        ("-1", None),
        ("inf", None),
        ("-inf", None),
        ("nan", None),
        ("", None),
        (None, None),
        ("soon", None),
        ("Wed, 99 Oct 2026 07:28:10 GMT", None),
    ],
)
def test_b2_retry_after(clock, value, expected):
    assert parse_retry_after(value, clock) == expected


def too_many(value):
    return errors.make_status_error({}, status=429, retry_after=value)


@pytest.mark.parametrize(
    ("error", "backoff", "enforce", "expected"),
    [
        (errors.APIConnectionError(), 5, False, 5),
        (too_many(None), 5, False, 5),
        (too_many("3"), 5, False, 5),
        (too_many("3"), 5, True, 3),
        (too_many("7"), 5, False, 7),
        (too_many("7"), 5, True, 7),
        (too_many("junk"), 5, True, 5),
        (errors.APIConnectionError(), -1, False, 0),
        (errors.APIConnectionError(), float("nan"), False, 0),
        (errors.APIConnectionError(), float("inf"), False, 0),
    ],
)
def test_b2_delays(clock, error, backoff, enforce, expected):
    assert choose_delay(error, backoff, clock=clock, enforce=enforce) == expected


def test_retry_after_in_details(clock):
    error = errors.make_status_error({"details": {"retryAfterSeconds": 9}}, status=429)
    assert choose_delay(error, 5, clock=clock) == 9


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.APIConnectionError(), True),
        (errors.APIResponseError(), True),
        (errors.APITooDeepError(b""), False),
        (errors.make_status_error({}, status=500), True),
        (errors.make_status_error({}, status=504), True),
        (errors.make_status_error({}, status=429), True),
        (errors.make_status_error({}, status=400), False),
        (errors.make_status_error({}, status=404), False),
        (errors.make_status_error({}, status=307), False),
    ],
)
def test_retriable_errors(error, expected):
    assert is_retriable(error) is expected


def test_a19_growing_backoffs_have_jitter():
    series = [[Backoff(1, limit=30).advance() for _ in range(1)] for _ in range(50)]
    assert len({delay for delays in series for delay in delays}) > 40
    backoff = Backoff(1, limit=30)
    delays = [backoff.advance() for _ in range(10)]
    for delay, base in zip(delays, [1, 2, 4, 8, 16, 30, 30, 30, 30, 30], strict=True):
        assert base <= delay <= base * 1.5


def test_backoffs_are_reset():
    backoff = Backoff(1)
    for _ in range(5):
        backoff.advance()
    assert backoff.failures == 5
    backoff.reset()
    assert backoff.failures == 0
    assert backoff.advance() <= 1.5


def test_backoffs_are_never_below_those_of_the_settings():
    backoff = Backoff(100, limit=30)
    assert all(backoff.advance() >= 100 for _ in range(1000))


def test_o3_zero_backoffs_do_grow():
    backoff = Backoff(0)
    delays = [backoff.advance() for _ in range(20)]
    assert delays[0] == 0
    assert delays[-1] >= 30
