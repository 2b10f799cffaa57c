"""The bound of the whole exit: what it is, and what is left for its stages."""

import math

import pytest

from kopf_cogs.configs.settings import OperatorSettings, ProcessSettings
from kopf_core.actions.ongoing import Ongoing
from kopf_core.intents import decorators as on
from kopf_core.reactor.life.exiting import (
    GRACE,
    HASTE,
    RESERVE,
    YEAR,
    AbandonedError,
    Exit,
    get_bound,
)

KUBERNETES_DEFAULT = 30


async def fn(**_):
    pass


@pytest.mark.docs("shutdown")
def test_f2_the_default_is_below_what_kubernetes_grants(registry):
    on.daemon("kopfexamples", cancellation_timeout=5, registry=registry)(fn)
    assert get_bound(OperatorSettings(), registry.handlers) == GRACE < KUBERNETES_DEFAULT


@pytest.mark.docs("shutdown")
def test_longer_times_are_respected(registry, settings):
    settings.queueing.exit_timeout = 100
    assert get_bound(settings, registry.handlers) == 110
    on.daemon("kopfexamples", cancellation_backoff=50, cancellation_timeout=150, registry=registry)(
        fn
    )
    assert get_bound(settings, registry.handlers) == 210
    on.startup(timeout=9999, registry=registry)(fn)
    assert get_bound(settings, registry.handlers) == 210
    on.cleanup(timeout=300, registry=registry)(fn)
    assert get_bound(settings, registry.handlers) == 310


@pytest.mark.docs("shutdown")
@pytest.mark.parametrize(
    ("value", "bound"), [(10, 10), (600, 600), (None, math.inf), (0, 0), (1000, 1000)]
)
def test_ultimate_limits_win_if_they_are_set(registry, settings, value, bound):
    settings.queueing.exit_timeout = 100
    settings.process.ultimate_exiting_timeout = value
    assert get_bound(settings, registry.handlers) == bound


def test_limits_can_be_given_at_once(registry):
    settings = OperatorSettings(process=ProcessSettings(ultimate_exiting_timeout=7))
    assert get_bound(settings, registry.handlers) == 7


@pytest.fixture
async def exit(settings):
    exit = Exit(settings, lambda: [], Ongoing())
    yield exit
    exit.end()


async def test_time_goes_since_the_first_request_only(exit):
    assert exit.get_left() == YEAR
    exit.request()
    left = exit.get_left()
    assert GRACE - 1 < left <= GRACE
    exit.request()
    assert exit.get_left() <= left
    assert exit.get_left_for_work() <= left - RESERVE
    assert not exit.hastened.is_set()


async def test_haste_leaves_the_least(exit):
    exit.hasten()
    assert exit.requested.is_set()
    assert exit.get_left() <= HASTE
    exit.request()
    assert exit.get_left() <= HASTE


async def test_short_limits_leave_time_for_both_work_and_cleanup(settings):
    settings.process.ultimate_exiting_timeout = 3
    exit = Exit(settings, lambda: [], Ongoing())
    exit.request()
    assert 1 < exit.get_left_for_work() <= 2
    exit.end()


async def test_what_is_left_is_named(exit):
    exit.request()
    exit.check()
    exit.note_unfinished("the cleanup activity")
    with pytest.raises(AbandonedError, match=r"left as is: the cleanup activity\."):
        exit.check()
