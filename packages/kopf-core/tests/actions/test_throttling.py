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
