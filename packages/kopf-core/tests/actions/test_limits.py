"""The time for one attempt: async functions are cancelled, threads are named."""

import asyncio
import logging
import threading

import pytest
from virtual_time import LoopClock, timeless

from kopf_cogs.configs.settings import OperatorSettings
from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.errors import ErrorsMode
from kopf_core.actions.execution import Execution
from kopf_core.actions.instruments import Instruments
from kopf_core.actions.lifecycles import asap
from kopf_core.actions.states import HandlerState
from kopf_core.intents.causes import Activity
from kopf_core.intents.handlers import ActivityHandler, DaemonHandler


class Counter(Instruments):
    def __init__(self):
        self.timeouts = []

    def on_timeout(self, handler):
        self.timeouts.append(handler.id)


@pytest.fixture
def counter():
    return Counter()


@pytest.fixture
def attempt(make_cause, counter):
    async def attempt(fn, cls=BaseHandler, seconds=10, **options):
        settings = OperatorSettings()
        settings.execution.attempt_timeout = seconds
        execution = Execution(settings=settings, lifecycle=asap, clock=LoopClock())
        execution.panel.instruments = counter
        handler = cls(fn=fn, id="fn", **options)
        state = HandlerState(started=execution.clock.now())
        return await execution.attempt(handler, make_cause(), state)

    return attempt


async def forever(**_):
    await asyncio.Event().wait()


@timeless
async def test_async_functions_are_cancelled_and_retried(attempt, logged, counter):
    outcome = await attempt(forever, backoff=30)
    assert asyncio.get_running_loop().time() == 10
    assert (outcome.final, outcome.delay) == (False, 30)
    [line] = logged(logging.ERROR)
    assert line == (
        "Handler 'fn' failed with an exception and will try again in 30 seconds: "
        "The attempt has taken more than 10 seconds (settings.execution.attempt_timeout)."
    )
    assert counter.timeouts == ["fn"]


@timeless
async def test_the_mode_of_errors_is_respected(attempt):
    assert (await attempt(forever, errors=ErrorsMode.PERMANENT)).final
    assert (await attempt(forever, errors=ErrorsMode.IGNORED)).exception is None


@timeless
async def test_quick_functions_know_nothing_of_it(attempt, logged, counter):
    async def fn(**_):
        await asyncio.sleep(9)
        return 1

    outcome = await attempt(fn)
    assert outcome.result == 1
    assert not counter.timeouts
    assert not logged(logging.WARNING)


@timeless
async def test_own_time_outs_of_functions_are_their_own(attempt, logged, counter):
    async def fn(**_):
        raise TimeoutError("a database")

    await attempt(fn)
    assert "a database" in logged(logging.ERROR)[0]
    assert not counter.timeouts


@timeless
async def test_the_total_limit_can_come_earlier(attempt, logged):
    outcome = await attempt(forever, timeout=5)
    assert outcome.final
    assert "has timed out after 0:00:05" in logged(logging.ERROR)[0]


@timeless
@pytest.mark.parametrize("limits", [{"seconds": 10}, {"seconds": None, "timeout": 10}])
async def test_who_ignores_the_cancellation_is_named(attempt, logged, limits):
    async def fn(**_):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(20)
        return "done"

    outcome = await attempt(fn, **limits)
    assert outcome.result == "done"  # it is not to be repeated
    ignoring, swallowed = logged(logging.WARNING)[:2]
    assert ignoring == (
        "Handler 'fn' ignores its cancellation: it still works 5 seconds after that."
    )
    assert swallowed == "Handler 'fn' was cancelled by its time-out, but has swallowed that."


async def test_threads_are_named_and_waited_for(attempt, logged, counter):
    loop, told = asyncio.get_running_loop(), threading.Event()
    counter.on_timeout = lambda _: loop.call_soon(told.set)

    def fn(**_):
        assert told.wait(30)
        return "done"

    outcome = await attempt(fn, seconds=0)
    assert outcome.result == "done"
    [line] = logged(logging.WARNING)
    assert line.startswith("Handler 'fn' still works after 0 seconds")


@timeless
async def test_daemons_are_not_limited(attempt, counter):
    async def fn(**_):
        await asyncio.sleep(100)

    assert (await attempt(fn, DaemonHandler)).exception is None
    assert not (await attempt(fn, ActivityHandler, activity=Activity.PROBE)).final
