"""Delays after errors of the framework itself."""

import pytest

from kopf_core.actions.throttling import Throttler


@pytest.mark.docs("configuration/throttling")
def test_delays_grow_and_the_last_one_is_repeated():
    throttler = Throttler()
    assert [throttler.fail([1, 2, 3]) for _ in range(5)] == [1, 2, 3, 3, 3]


@pytest.mark.docs("configuration/throttling")
def test_delays_start_anew_after_a_success():
    throttler = Throttler()
    throttler.fail([1, 2, 3])
    throttler.fail([1, 2, 3])
    throttler.succeed()
    assert throttler.fail([1, 2, 3]) == 1


@pytest.mark.docs("configuration/throttling")
def test_no_delays_no_throttling():
    assert Throttler().fail([]) is None


def test_b4_e7_repeated_errors_are_told_once():
    throttler = Throttler()
    assert [throttler.is_news(reason) for reason in "aabba"] == [True, False, True, False, True]
    throttler.succeed()
    assert throttler.is_news("a")
