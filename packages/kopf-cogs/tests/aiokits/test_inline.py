"""Where there are no threads: everything is done in the event loop."""

import asyncio
import threading

import pytest
from virtual_time import timeless

from kopf_cogs.aiokits.inline import InlineThreads


async def test_functions_are_called_in_this_thread_in_order():
    threads, seen, done = InlineThreads(), [], asyncio.Event()
    threads.start(lambda: seen.append(threading.get_ident()), name="one")
    threads.start(done.set, name="two")
    assert not seen
    await done.wait()
    assert seen == [threading.get_ident()]


async def test_results_errors_and_cancellations_of_pools():
    pool = InlineThreads().make_pool(1, name="pool")
    loop, calls = asyncio.get_running_loop(), []
    assert await loop.run_in_executor(pool, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await loop.run_in_executor(pool, lambda: 1 / 0)
    assert pool.submit(calls.append, 1).cancel()
    await loop.run_in_executor(pool, calls.append, 2)
    assert calls == [2]


@timeless
async def test_repetitions():
    times, loop = [], asyncio.get_running_loop()
    stop = InlineThreads().repeat(lambda: times.append(loop.time()), period=10, name="ticks")
    begun = loop.time()
    await asyncio.sleep(25)
    stop()
    await asyncio.sleep(25)
    assert [time - begun for time in times] == [10, 20]


async def test_nothing_can_wait():
    with pytest.raises(RuntimeError, match="use `async def`"):
        InlineThreads().wait(threading.Event(), 1)


@timeless
async def test_waiting_where_functions_can_be_suspended():
    waits = []
    threads = InlineThreads(suspend=waits.append)
    loop, event = asyncio.get_running_loop(), threading.Event()
    assert not threads.wait(event, 5)  # here, "suspended" is only remembered
    begun = loop.time()
    await waits.pop()
    assert loop.time() - begun == pytest.approx(5)
    loop.call_later(3, event.set)
    threads.wait(event)
    begun = loop.time()
    await waits.pop()
    assert loop.time() - begun == pytest.approx(3, abs=0.1)
    assert threads.wait(event, 5)
    waits.pop().close()
