"""The handler that blocks the event loop is named."""

import logging
import sys
import threading

import pytest

from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.states import HandlerState
from kopf_core.reactor.life.watchdog import PATIENCE, Watchdog, describe_blocker


@pytest.fixture
async def watchdog():
    return Watchdog()  # its thread is not started: the checks are made by the tests


@pytest.mark.parametrize("is_observed", [False, True])
async def test_d1_r23_blocking_handlers_are_named_once(
    watchdog, execution, make_cause, clock, logged, is_observed
):
    async def fn(**_):
        for _ in range(PATIENCE * 3):  # every time, the loop has not turned since the last one
            watchdog.check()

    handler, cause = BaseHandler(fn=fn, id="fn"), make_cause()
    watchdog.check()
    if is_observed:
        await execution.observe(handler, cause)
    else:
        await execution.attempt(handler, cause, HandlerState(started=clock.now()))
    (message,) = [text for text in logged(logging.WARNING) if "blocked" in text]
    assert "Handler 'fn' of kopfexamples.v1.kopf.dev ns/obj" in message
    assert "test_watchdog.py:" in message  # not where it is in our own code


async def test_turning_loops_are_not_complained_of(watchdog, logged):
    with watchdog:
        for _ in range(PATIENCE * 3):
            watchdog._beats += 1
            watchdog.check()
    assert not [text for text in logged(logging.WARNING) if "blocked" in text]


async def test_recovered_loops_are_told_of(watchdog, logged):
    for _ in range(PATIENCE + 3):
        watchdog.check()
    watchdog._beats += 1
    watchdog.check()
    assert [text for text in logged(logging.WARNING) if "was blocked for" in text]


def test_other_blockers_are_located():
    assert "not in a handler" in describe_blocker(sys._getframe())
    assert "test_watchdog.py:" in describe_blocker(sys._getframe())


async def test_the_thread_ends_with_the_operator():
    others = {*threading.enumerate()}  # the operators of other tests can be ending still
    with Watchdog():
        started = {*threading.enumerate()} - others
        [thread] = [one for one in started if one.name == "kopf-watchdog"]
    thread.join(10)
    assert not thread.is_alive()
