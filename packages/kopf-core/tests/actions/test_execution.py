"""One step of handling: which handlers are called, and what is made of their outcomes."""

import asyncio
import datetime
import functools
import logging
import threading

import pytest

from kopf_cogs.clients import errors
from kopf_cogs.helpers.callbacks import exit_listener
from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.context import current_body, current_invocation
from kopf_core.actions.errors import (
    ErrorsMode,
    HandlerRetriesError,
    HandlerTimeoutError,
    PermanentError,
    TemporaryError,
)
from kopf_core.actions.execution import collect_results
from kopf_core.actions.lifecycles import one_by_one
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.states import HandlerState, State

IGNORED, TEMPORARY, PERMANENT = ErrorsMode.IGNORED, ErrorsMode.TEMPORARY, ErrorsMode.PERMANENT


def make_handler(fn=None, exc=None, is_async=False, id="fn", **options):
    """A handler that raises the error, or that calls the function."""

    def sync(**kwargs):
        if exc is not None:
            raise exc
        return fn(**kwargs) if fn is not None else None

    async def coro(**kwargs):
        return sync(**kwargs)

    return BaseHandler(fn=coro if is_async else sync, id=id, **options)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request):
    return request.param


@pytest.fixture
def attempt(execution, make_cause, clock):
    """Make one attempt, as if some were already made."""

    async def attempt(handler, *, retries=0, runtime=0):
        started = clock.now() - datetime.timedelta(seconds=runtime)
        return await execution.attempt(
            handler, make_cause(), HandlerState(started=started, retries=retries)
        )

    return attempt


# --- Outcomes ---


@pytest.mark.docs("results")
@pytest.mark.parametrize("result", [None, 0, "", False, {}, [], {"x": 1}, object()])
async def test_success(attempt, is_async, logged, result):
    outcome = await attempt(make_handler(lambda **_: result, is_async=is_async))
    assert outcome == Outcome(final=True, result=result, subrefs=set())
    assert logged() == ["Handler 'fn' is invoked.", "Handler 'fn' succeeded."]


@pytest.mark.docs("errors/temporary")
@pytest.mark.parametrize("mode", [None, IGNORED, TEMPORARY, PERMANENT])
async def test_temporary_errors_are_retried_in_all_modes(attempt, is_async, logged, mode):
    exc = TemporaryError("not yet", delay=12.3)
    outcome = await attempt(make_handler(exc=exc, is_async=is_async, errors=mode))
    assert not outcome.final
    assert outcome.delay == 12.3
    assert outcome.exception is exc
    assert logged(logging.ERROR) == ["Handler 'fn' failed temporarily: not yet"]


@pytest.mark.docs("errors/temporary")
@pytest.mark.parametrize(
    ("exc", "delay", "text"),
    [
        (TemporaryError(), 60, "None"),
        (TemporaryError("x", delay=None), None, "x"),
        (TemporaryError("x", delay=0), 0, "x"),
        (TemporaryError("x", delay=-5), 0, "x"),
        (TemporaryError(""), 60, "TemporaryError('')"),
    ],
)
async def test_d12_delays_and_texts_of_temporary_errors(attempt, logged, exc, delay, text):
    outcome = await attempt(make_handler(exc=exc))
    assert (outcome.final, outcome.delay) == (False, delay)
    assert logged(logging.ERROR) == [f"Handler 'fn' failed temporarily: {text}"]


@pytest.mark.docs("errors/permanent")
@pytest.mark.parametrize("mode", [None, IGNORED, TEMPORARY, PERMANENT])
async def test_permanent_errors_are_final_in_all_modes(attempt, is_async, logged, mode):
    exc = PermanentError("never")
    outcome = await attempt(make_handler(exc=exc, is_async=is_async, errors=mode))
    assert outcome == Outcome(final=True, exception=exc, subrefs=set())
    assert logged(logging.ERROR) == ["Handler 'fn' failed permanently: never"]


@pytest.mark.docs("errors/regular")
@pytest.mark.docs("errors/backoff")
@pytest.mark.parametrize(
    ("mode", "backoff", "final", "delay", "fails", "ending"),
    [
        (None, None, False, 60, True, "and will try again in 60 seconds: boom"),
        (None, 0.5, False, 0.5, True, "and will try again in 0.5 seconds: boom"),
        (TEMPORARY, 5, False, 5, True, "and will try again in 5 seconds: boom"),
        (TEMPORARY, 0, False, 0, True, "and will try again in 0 seconds: boom"),
        (PERMANENT, 5, True, None, True, "and will stop now: boom"),
        (IGNORED, 5, True, None, False, "and will ignore it: boom"),
    ],
)
async def test_arbitrary_errors_by_modes(
    attempt, is_async, logged, mode, backoff, final, delay, fails, ending
):
    exc = ValueError("boom")
    outcome = await attempt(make_handler(exc=exc, is_async=is_async, errors=mode, backoff=backoff))
    assert (outcome.final, outcome.delay) == (final, delay)
    assert outcome.exception is (exc if fails else None)
    assert outcome.result is None
    assert logged(logging.ERROR) == [f"Handler 'fn' failed with an exception {ending}"]


@pytest.mark.docs("errors/backoff")
async def test_default_backoff_is_configurable(attempt, settings):
    settings.execution.default_backoff = 7
    outcome = await attempt(make_handler(exc=ValueError()))
    assert outcome.delay == 7


@pytest.mark.parametrize("exc", [TemporaryError("x"), PermanentError("x")])
async def test_declared_errors_are_logged_without_tracebacks(attempt, caplog, exc):
    await attempt(make_handler(exc=exc))
    assert not [record for record in caplog.records if record.exc_info]


async def test_arbitrary_errors_are_logged_with_tracebacks_of_users_code_only(
    attempt, caplog, is_async
):
    await attempt(make_handler(exc=ValueError("boom"), is_async=is_async))
    (record,) = [record for record in caplog.records if record.exc_info]
    modules = []
    traceback = record.exc_info[2]
    while traceback is not None:
        modules.append(traceback.tb_frame.f_globals["__name__"])
        traceback = traceback.tb_next
    assert modules
    assert not [module for module in modules if module.startswith("kopf_core")]


async def test_wrong_calls_are_logged_with_no_tracebacks_as_all_code_there_is_ours(
    attempt, caplog, is_async
):
    def sync():
        raise AssertionError("It cannot be called.")

    async def coro():
        raise AssertionError("It cannot be called.")

    await attempt(BaseHandler(fn=coro if is_async else sync, id="fn"))
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "unexpected keyword argument" in record.getMessage()
    assert not record.exc_info


@pytest.mark.docs("errors")
@pytest.mark.parametrize("cls", [TemporaryError, PermanentError])
async def test_inherited_errors_are_the_same(attempt, cls):
    class Custom(cls):
        pass

    outcome = await attempt(make_handler(exc=Custom("x")))
    assert outcome.final is issubclass(cls, PermanentError)


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError


class UnprintableTemporary(Unprintable, TemporaryError):
    pass


@pytest.mark.parametrize("cls", [Unprintable, UnprintableTemporary])
async def test_d12_unprintable_errors(attempt, logged, cls):
    outcome = await attempt(make_handler(exc=cls()))
    assert not outcome.final
    assert f"<unprintable {cls.__name__}>" in logged(logging.ERROR)[0]


class Evil(Exception):
    def __str__(self):
        raise SystemExit(1)

    __repr__ = __str__


async def test_r20_errors_with_evil_texts(attempt, logged):
    outcome = await attempt(make_handler(exc=Evil()))
    assert not outcome.final
    assert "<unprintable Evil>" in logged(logging.ERROR)[0]


@pytest.mark.parametrize("exc", [OverflowError(), SystemExit(1), asyncio.CancelledError()])
async def test_r12_r20_failing_backoffs_are_replaced(attempt, logged, exc):
    def backoff(_):
        raise exc

    outcome = await attempt(make_handler(exc=ValueError("x"), backoff=backoff))
    assert (outcome.final, outcome.delay) == (False, 60)
    assert "backoff function has failed" in logged(logging.ERROR)[0]


@pytest.mark.parametrize(
    "exc",
    [
        asyncio.CancelledError(),
        KeyboardInterrupt(),
        GeneratorExit(),
        BaseExceptionGroup("many", [SystemExit(2)]),
        StopIteration(),
        StopAsyncIteration(),
        ExceptionGroup("many", [ValueError()]),
    ],
    ids=lambda exc: type(exc).__name__,
)
async def test_d2_d3_d4_all_kinds_of_exceptions_are_retried(attempt, is_async, exc, logged):
    async with asyncio.timeout(60):
        outcome = await attempt(make_handler(exc=exc, is_async=is_async, backoff=1))
    assert not outcome.final
    assert outcome.delay == 1
    assert "will try again in 1 seconds" in logged(logging.ERROR)[0]


@pytest.mark.parametrize("mode", [PERMANENT, IGNORED])
async def test_k39_wishes_to_exit_are_no_failures(attempt, is_async, mode, logged):
    wishes = []
    token = exit_listener.set(wishes.append)
    wish = SystemExit(1)
    outcome = await attempt(make_handler(exc=wish, is_async=is_async, errors=mode))
    exit_listener.reset(token)
    assert wishes == [wish]
    assert not outcome.final
    assert not logged(logging.ERROR)


@pytest.mark.parametrize("exc", [KeyboardInterrupt(), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize(("mode", "fails"), [(PERMANENT, True), (IGNORED, False)])
async def test_d3_errors_modes_apply_to_all_kinds_of_exceptions(
    attempt, is_async, exc, mode, fails
):
    outcome = await attempt(make_handler(exc=exc, is_async=is_async, errors=mode))
    assert outcome.final
    assert (outcome.exception is not None) is fails


async def test_cancellation_of_the_operator_is_not_an_outcome(execution, make_cause, clock):
    started = asyncio.Event()

    async def fn(**_):
        started.set()
        await asyncio.sleep(999)

    task = asyncio.create_task(
        execution.attempt(
            BaseHandler(fn=fn, id="fn"), make_cause(), HandlerState(started=clock.now())
        )
    )
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.parametrize(
    ("retry_after", "delay"),
    [
        pytest.param("40", 40, id="longer"),
        pytest.param("5", 10, id="shorter"),
        pytest.param(None, 10, id="unspecified"),
        pytest.param("Wed, 21 Oct 2015 07:28:00 GMT", 10, id="a date"),
        pytest.param("nan", 10, id="senseless"),
    ],
)
async def test_k37_servers_say_when_to_retry_handlers(attempt, is_async, retry_after, delay):
    exc = errors.APIServerError({"message": "busy"}, status=503, retry_after=retry_after)
    outcome = await attempt(make_handler(exc=exc, is_async=is_async, backoff=10))
    assert not outcome.final
    assert outcome.delay == delay


# --- Limits ---


@pytest.mark.docs("errors/retries")
async def test_exceeded_retries_are_not_called(attempt, logged):
    calls = []
    outcome = await attempt(make_handler(lambda **_: calls.append(1), retries=3), retries=3)
    assert not calls
    assert outcome.final
    assert isinstance(outcome.exception, HandlerRetriesError)
    assert logged(logging.ERROR) == ["Handler 'fn' has exceeded 3 retries."]


@pytest.mark.docs("errors/retries")
async def test_the_last_retry_by_an_arbitrary_error_is_final(attempt, logged):
    handler = make_handler(exc=ValueError("boom"), retries=3)
    assert not (await attempt(handler, retries=1)).final
    outcome = await attempt(handler, retries=2)
    assert outcome.final
    message = (
        "Handler 'fn' failed with an exception and will stop now "
        "(it would exceed 3 retries on the next attempt): boom"
    )
    assert logged(logging.ERROR)[-1] == message
    assert str(outcome.exception) == message


@pytest.mark.docs("errors/retries")
async def test_the_last_retry_by_a_temporary_error_is_final(attempt, logged):
    handler = make_handler(exc=TemporaryError("temp"), retries=3)
    assert not (await attempt(handler, retries=1)).final
    outcome = await attempt(handler, retries=2)
    assert outcome.final
    message = "Handler 'fn' failed temporarily but will exceed 3 retries: temp"
    assert logged(logging.ERROR)[-1] == message
    assert str(outcome.exception) == message


@pytest.mark.docs("errors/retries")
async def test_the_last_retry_can_succeed(attempt):
    outcome = await attempt(make_handler(lambda **_: "ok", retries=3), retries=2)
    assert outcome == Outcome(final=True, result="ok", subrefs=set())


@pytest.mark.docs("errors/timeouts")
async def test_timed_out_handlers_are_not_called(attempt, logged, is_async):
    calls = []
    handler = make_handler(lambda **_: calls.append(1), timeout=5, is_async=is_async)
    outcome = await attempt(handler, runtime=6)
    assert not calls
    assert outcome.final
    assert isinstance(outcome.exception, HandlerTimeoutError)
    assert logged(logging.ERROR) == ["Handler 'fn' has timed out after 0:00:06."]


@pytest.mark.docs("errors/timeouts")
async def test_running_async_handlers_are_cancelled_at_their_timeout(attempt, logged):
    cancelled = []

    async def fn(**_):
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    outcome = await attempt(BaseHandler(fn=fn, id="fn", timeout=5), runtime=4.99)
    assert cancelled == [True]
    assert outcome.final
    assert isinstance(outcome.exception, HandlerTimeoutError)
    assert logged(logging.ERROR)[0].startswith("Handler 'fn' has timed out after ")


@pytest.mark.docs("errors/timeouts")
async def test_timeout_errors_of_handlers_themselves_are_arbitrary_errors(attempt, is_async):
    outcome = await attempt(
        make_handler(exc=TimeoutError("mine"), is_async=is_async, timeout=100, backoff=5)
    )
    assert not outcome.final
    assert outcome.delay == 5


@pytest.mark.docs("errors/timeouts")
async def test_hopeless_delays_are_final(attempt, logged):
    handler = make_handler(exc=TemporaryError("temp", delay=60), timeout=30)
    outcome = await attempt(handler)
    assert outcome.final
    assert logged(logging.ERROR) == [
        "Handler 'fn' failed temporarily but will time out after 30 seconds: temp"
    ]


@pytest.mark.docs("errors/timeouts")
async def test_slow_but_successful_sync_handlers_succeed(attempt, clock):
    outcome = await attempt(make_handler(lambda **_: clock.advance(99), timeout=5))
    assert outcome.final
    assert outcome.exception is None


@pytest.mark.docs("errors/retries")
async def test_zero_retries_mean_never(attempt, logged):
    outcome = await attempt(make_handler(retries=0))
    assert outcome.final
    assert logged(logging.ERROR) == ["Handler 'fn' has exceeded 0 retries."]


# --- Kwargs ---


@pytest.mark.docs("arguments/retrying")
async def test_kwargs_of_retrying(attempt, clock):
    seen = {}
    await attempt(make_handler(lambda **kw: seen.update(kw), param="p"), retries=3, runtime=10)
    assert seen["retry"] == 3
    assert seen["started"] == clock.now() - datetime.timedelta(seconds=10)
    assert seen["runtime"] == datetime.timedelta(seconds=10)
    assert seen["param"] == "p"


@pytest.mark.docs("arguments/param")
async def test_param_is_none_by_default(attempt):
    seen = {}
    await attempt(make_handler(lambda **kw: seen.update(kw)))
    assert seen["param"] is None


async def test_kwargs_of_handlers_do_not_leak_into_the_cause(execution, make_cause, clock):
    cause = make_cause()
    before = dict(cause.kwargs)
    handler = make_handler(lambda **kw: kw.clear(), param="p")
    await execution.attempt(handler, cause, HandlerState(started=clock.now()))
    assert cause.kwargs == before


async def test_handlers_know_their_invocation_only_while_running(attempt, is_async):
    seen = []

    def fn(**_):
        seen.append((current_invocation().handler.id, current_body().metadata.name))

    await attempt(make_handler(fn, is_async=is_async))
    assert seen == [("fn", "obj")]
    with pytest.raises(LookupError):
        current_invocation()


@pytest.mark.docs("handlers/registering")
@pytest.mark.parametrize("kind", ["partial", "lambda", "method", "object"])
async def test_all_kinds_of_functions_get_kwargs(attempt, kind):
    class Kex:
        def method(self, *, name, **_):
            return f"hello {name}"

        __call__ = method

    fn = {
        "partial": functools.partial(Kex().method, extra=1),
        "lambda": lambda *, name, **_: f"hello {name}",
        "method": Kex().method,
        "object": Kex(),
    }[kind]
    outcome = await attempt(BaseHandler(fn=fn, id="fn"))
    assert outcome.result == "hello obj"


async def test_functions_without_catch_all_kwargs_fail_with_a_clear_error(attempt, logged):
    def fn(spec):
        pass

    outcome = await attempt(BaseHandler(fn=fn, id="fn", errors=PERMANENT))
    assert outcome.final
    assert "unexpected keyword argument" in logged(logging.ERROR)[0]


# --- Steps ---


@pytest.fixture
def step(execution, make_cause, clock):
    async def step(handlers, state=None, lifecycle=None):
        state = state or State.from_scratch(now=clock.now()).with_purpose("create", handlers)
        outcomes = await execution.run(handlers, make_cause(), state, lifecycle)
        return outcomes, state.with_outcomes(outcomes, now=clock.now())

    return step


async def test_handlers_of_a_step_are_called_in_order(step):
    calls = []
    handlers = [
        make_handler(lambda id=id, **_: calls.append(id), id=id, is_async=id == "b") for id in "cab"
    ]
    outcomes, state = await step(handlers)
    assert calls == [*outcomes] == ["c", "a", "b"]
    assert state.done


async def test_one_failing_handler_does_not_affect_the_others(step):
    handlers = [make_handler(exc=ValueError(), id="a"), make_handler(id="b")]
    outcomes, _ = await step(handlers)
    assert not outcomes["a"].final
    assert outcomes["b"].final


async def test_delayed_and_finished_handlers_are_not_called(step, clock):
    calls = []

    def fn(id, **_):
        calls.append(id)
        if id == "later" and calls.count(id) == 1:
            raise TemporaryError("x", delay=5)

    handlers = [make_handler(functools.partial(fn, id), id=id) for id in ("done", "later")]
    _, state = await step(handlers)
    _, state = await step(handlers, state)
    assert calls == ["done", "later"]
    clock.advance(5)
    _, state = await step(handlers, state)
    assert calls == ["done", "later", "later"]
    assert state.done


async def test_lifecycles_decide_and_get_the_kwargs(step):
    seen = {}

    def lifecycle(handlers, **kwargs):
        seen.update(kwargs)
        return reversed(handlers)

    outcomes, _ = await step([make_handler(id="a"), make_handler(id="b")], lifecycle=lifecycle)
    assert [*outcomes] == ["b", "a"]
    assert seen["name"] == "obj"
    assert [*seen["state"]] == ["a", "b"]
    outcomes, _ = await step([make_handler(id="a"), make_handler(id="b")], lifecycle=one_by_one)
    assert [*outcomes] == ["a"]


async def test_k37_no_handlers_are_called_after_a_cancellation(execution, make_cause, clock):
    """The thread of the first one is only waited for to know what it has come to."""

    def first(**_):
        started.set()
        release.wait()
        return "done"

    started, release, calls = threading.Event(), threading.Event(), []
    handlers = [
        make_handler(first, id="first"),
        make_handler(lambda **_: calls.append("sync"), id="sync"),
        make_handler(lambda **_: calls.append("async"), id="async", is_async=True),
    ]
    state = State({}, now=clock.now()).with_purpose(None, handlers)
    task = asyncio.create_task(execution.run(handlers, make_cause(), state))
    await asyncio.to_thread(started.wait)
    task.cancel()
    await asyncio.sleep(0)
    release.set()
    assert {id: outcome.result for id, outcome in (await task).items()} == {"first": "done"}
    assert not calls


# --- Observation ---


@pytest.mark.docs("handlers/event")
async def test_observers_return_their_results(execution, make_event_cause, is_async, logged):
    handler = make_handler(lambda *, type, **_: f"seen {type}", is_async=is_async)
    assert await execution.observe(handler, make_event_cause()) == "seen ADDED"
    assert logged() == ["Handler 'fn' is invoked.", "Handler 'fn' succeeded."]


@pytest.mark.docs("handlers/event")
@pytest.mark.parametrize(
    ("exc", "message"),
    [
        (ValueError("boom"), "failed with an exception and will ignore it: boom"),
        (TemporaryError("boom"), "failed temporarily: boom"),
        (PermanentError("boom"), "failed permanently: boom"),
        (
            KeyboardInterrupt("boom"),
            "failed with an exception and will ignore it: KeyboardInterrupt: boom",
        ),
        (
            asyncio.CancelledError("boom"),
            "failed with an exception and will ignore it: CancelledError: boom",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_errors_of_observers_are_logged_and_ignored(
    execution, make_event_cause, is_async, logged, exc, message
):
    handler = make_handler(exc=exc, is_async=is_async)
    assert await execution.observe(handler, make_event_cause()) is None
    assert logged(logging.ERROR) == [f"Handler 'fn' {message}"]


async def test_observers_get_the_common_kwargs(execution, make_event_cause):
    seen = {}
    await execution.observe(
        make_handler(lambda **kw: seen.update(kw), param="p"), make_event_cause()
    )
    assert (seen["retry"], seen["param"], seen["runtime"]) == (0, "p", datetime.timedelta(0))
    assert "started" in seen


# --- Results ---


@pytest.mark.docs("results")
def test_results_are_of_those_who_succeeded_and_returned_something():
    assert collect_results(
        {
            "a": Outcome(final=True, result="r"),
            "b": Outcome(final=True, result=None),
            "c": Outcome(final=True, exception=PermanentError(), result="unused"),
            "d": Outcome(final=False, delay=1, result="unused"),
            "e": Outcome(final=True, result=0),
        }
    ) == {"a": "r", "e": 0}


# --- Jumps of the wall clock ---


@pytest.mark.parametrize("days", [-1, 1])
async def test_d11_r12_the_wall_clock_does_not_matter_within_the_process(
    execution, make_cause, clock, days
):
    state = HandlerState(started=clock.now(), since=clock.monotonic())
    handler = make_handler(exc=Exception("oops"), timeout=60, backoff=5)
    clock.set_wall_time(clock.now() + datetime.timedelta(days=days))
    clock.advance(30)
    outcome = await execution.attempt(handler, make_cause(), state)
    assert not outcome.final
    clock.advance(30)
    outcome = await execution.attempt(handler, make_cause(), state)
    assert isinstance(outcome.exception, HandlerTimeoutError)


async def test_d11_r12_jumps_during_an_attempt_do_not_matter(execution, make_cause, clock):
    def jump(**_):
        clock.set_wall_time(clock.now() + datetime.timedelta(days=1))
        raise Exception("oops")

    state = HandlerState(started=clock.now())
    outcome = await execution.attempt(
        make_handler(jump, timeout=60, backoff=5), make_cause(), state
    )
    assert not outcome.final
