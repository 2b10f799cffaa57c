"""Calling functions of all kinds, whatever they raise."""

import asyncio
import concurrent.futures
import contextvars
import functools
import threading

import pytest

from kopf_cogs.helpers.callbacks import Interrupted
from kopf_core.actions.bases import is_async_fn
from kopf_core.actions.invocation import invoke, is_being_cancelled
from kopf_core.actions.threads import Door, TakenBack


def sync(*args, **kwargs):
    return "sync", args, kwargs


async def coro(*args, **kwargs):
    return "async", args, kwargs


class Sync:
    def __call__(self, *args, **kwargs):
        return "sync", args, kwargs

    def method(self, *args, **kwargs):
        return "sync", args, kwargs

    @classmethod
    def cmethod(cls, *args, **kwargs):
        return "sync", args, kwargs

    @staticmethod
    def smethod(*args, **kwargs):
        return "sync", args, kwargs


class Async:
    async def __call__(self, *args, **kwargs):
        return "async", args, kwargs

    async def method(self, *args, **kwargs):
        return "async", args, kwargs


async def call(fn, *args, executor=None, **kwargs):
    async with asyncio.timeout(60):
        return await invoke(fn, *args, kwargs=kwargs, is_async=is_async_fn(fn), executor=executor)


@pytest.mark.docs("async")
@pytest.mark.parametrize(
    "fn",
    [
        sync,
        coro,
        Sync(),
        Async(),
        Sync().method,
        Async().method,
        Sync.cmethod,
        Sync.smethod,
        lambda *args, **kwargs: ("lambda", args, kwargs),
        lambda *args, **kwargs: coro(*args, **kwargs),
    ],
    ids=[
        "sync",
        "async",
        "object",
        "aobject",
        "method",
        "amethod",
        "class",
        "static",
        "lambda",
        "lambda-of-async",
    ],
)
@pytest.mark.parametrize("wrap", [lambda fn: fn, functools.partial], ids=["direct", "partial"])
async def test_all_kinds_of_functions(fn, wrap):
    _, args, kwargs = await call(wrap(fn), 1, 2, x=3, executor=None)
    assert (args, kwargs) == ((1, 2), {"x": 3})


async def test_arguments_of_partials_are_kept():
    _, args, kwargs = await call(functools.partial(sync, 1, x=2), 3, y=4)
    assert (args, kwargs) == ((1, 3), {"x": 2, "y": 4})


@pytest.mark.docs("async")
@pytest.mark.docs("configuration/executor")
async def test_sync_functions_run_in_the_given_executor():
    with concurrent.futures.ThreadPoolExecutor(thread_name_prefix="mine") as executor:
        name = await call(lambda: threading.current_thread().name, executor=executor)
    assert name.startswith("mine")


@pytest.mark.docs("async")
async def test_async_functions_run_in_the_loop():
    async def where():
        return threading.current_thread(), asyncio.get_running_loop()

    assert await call(where) == (threading.current_thread(), asyncio.get_running_loop())


async def test_context_variables_are_seen_in_threads():
    var = contextvars.ContextVar("var")
    var.set("value")
    assert await call(lambda: var.get()) == "value"


class Custom(Exception):
    pass


def raiser(exc, is_async):
    def fn():
        raise exc

    async def afn():
        raise exc

    return afn if is_async else fn


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("exc", [Custom("x"), TimeoutError("x"), OSError(1, "x")], ids=repr)
async def test_usual_errors_are_passed_as_they_are(exc, is_async):
    with pytest.raises(type(exc)) as info:
        await call(raiser(exc, is_async))
    assert info.value is exc


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    "exc",
    [
        asyncio.CancelledError(),
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        BaseExceptionGroup("g", [SystemExit(2)]),
        BaseException("base"),
    ],
    ids=lambda exc: type(exc).__name__,
)
async def test_d2_d3_unusual_errors_are_failures(exc, is_async):
    with pytest.raises(Interrupted) as info:
        await call(raiser(exc, is_async))
    assert info.value.__cause__ is exc
    assert type(exc).__name__ in str(info.value)
    assert isinstance(info.value, Exception)


@pytest.mark.parametrize("exc", [StopIteration(1), StopAsyncIteration()], ids=repr)
async def test_d4_iteration_stops_in_threads_do_not_hang(exc):
    with pytest.raises(Interrupted) as info:
        await call(raiser(exc, False))
    assert info.value.__cause__ is exc


async def test_d4_iteration_stops_in_coroutines_are_failures():
    with pytest.raises(RuntimeError, match="StopIteration"):  # by the language itself
        await call(raiser(StopIteration(), True))


async def test_d2_inner_cancellations_are_not_ours():
    async def handler():
        inner = asyncio.create_task(asyncio.sleep(999))
        inner.cancel()
        await inner

    with pytest.raises(Interrupted, match="CancelledError"):
        await call(handler)
    assert not is_being_cancelled()


async def test_outer_cancellation_goes_through():
    started = asyncio.Event()

    async def handler():
        started.set()
        await asyncio.sleep(999)

    task = asyncio.create_task(invoke(handler, kwargs={}, is_async=True, executor=None))
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_outer_cancellation_goes_through_while_a_thread_runs():
    started, release = threading.Event(), threading.Event()

    def handler():
        started.set()
        release.wait(10)

    with concurrent.futures.ThreadPoolExecutor() as executor:
        task = asyncio.create_task(invoke(handler, kwargs={}, is_async=False, executor=executor))
        await asyncio.to_thread(started.wait, 10)
        task.cancel()
        await asyncio.wait([task])
        release.set()
    assert task.cancelled()


async def test_o2_r15_outcomes_of_endured_threads_are_not_lost():
    """The first cancellation cannot interrupt the thread, so it does not interrupt the waiting."""
    started, release = threading.Event(), threading.Event()

    def handler():
        started.set()
        release.wait()
        return "result"

    with concurrent.futures.ThreadPoolExecutor() as executor:
        task = asyncio.create_task(
            invoke(handler, kwargs={}, is_async=False, executor=executor, is_endured=True)
        )
        await asyncio.to_thread(started.wait)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        release.set()
        assert await task == "result"
        assert task.cancelling() == 1


async def test_o2_r15_the_second_cancellation_interrupts_the_waiting_for_endured_threads():
    started, release, ended = threading.Event(), threading.Event(), threading.Event()

    def handler():
        started.set()
        release.wait()

    with concurrent.futures.ThreadPoolExecutor() as executor:
        call = invoke(
            handler,
            kwargs={},
            is_async=False,
            executor=executor,
            is_endured=True,
            on_ended=ended.set,
        )
        task = asyncio.create_task(call)
        await asyncio.to_thread(started.wait)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([task])
        assert task.cancelled()
        assert not ended.is_set()  # the thread goes on, and it is known of
        release.set()
    assert ended.is_set()


async def test_threads_can_end_when_the_loop_is_closed(caplog):
    started, release, ended = threading.Event(), threading.Event(), threading.Event()

    def handler():
        started.set()
        release.wait()

    async def leave(executor):
        call = invoke(handler, kwargs={}, is_async=False, executor=executor, on_ended=ended.set)
        task = asyncio.create_task(call)
        await asyncio.to_thread(started.wait)
        task.cancel()
        await asyncio.wait([task])

    with concurrent.futures.ThreadPoolExecutor() as executor:
        await asyncio.to_thread(asyncio.run, leave(executor))
        release.set()
    assert ended.is_set()
    assert not caplog.records


async def test_f3_endured_calls_that_have_not_begun_never_do():
    called, release = [], threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        executor.submit(release.wait)
        call = invoke(
            lambda: called.append(1), kwargs={}, is_async=False, executor=executor, is_endured=True
        )
        task = asyncio.create_task(call)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        release.set()
    assert task.cancelled()
    assert not called


@pytest.mark.parametrize("is_endured", [False, True])
async def test_f3_calls_can_be_taken_back_until_they_begin(is_endured):
    called, release, waiting = [], threading.Event(), Door()
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def handler(n):
        called.append(n)
        loop.call_soon_threadsafe(begun.set)
        release.wait()
        return n

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        executor = waiting.watch(pool)
        calls = [
            invoke(handler, n, kwargs={}, is_async=False, executor=executor, is_endured=is_endured)
            for n in range(3)
        ]
        tasks = [asyncio.create_task(call) for call in calls]
        await begun.wait()
        waiting.take_back()
        for task in tasks[1:]:
            with pytest.raises(TakenBack):
                await task
        release.set()
        assert await tasks[0] == 0
    assert called == [0]
