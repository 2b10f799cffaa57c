"""Latches wake up those who wait in the loop and in threads, at once and for ever."""

import asyncio

import pytest

from kopf_cogs.aiokits.latches import Latch


@pytest.fixture
def latch():
    return Latch()


async def test_waiting_in_the_loop_ends_when_set(latch):
    tasks = [asyncio.create_task(latch.wait_in_loop(None)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    latch.set()
    assert await asyncio.gather(*tasks) == [True, True, True]


async def test_waiting_in_threads_ends_when_set(latch):
    tasks = [asyncio.create_task(asyncio.to_thread(latch.wait_in_thread, None)) for _ in range(3)]
    await asyncio.sleep(0)
    latch.set()
    assert await asyncio.gather(*tasks) == [True, True, True]


async def test_waiting_ends_by_time(latch):
    assert await latch.wait_in_loop(0.001) is False
    assert await asyncio.to_thread(latch.wait_in_thread, 0.001) is False


async def test_nothing_is_waited_for_when_it_is_set(latch):
    latch.set()
    assert latch.is_set()
    assert await latch.wait_in_loop(None) is True
    assert await asyncio.to_thread(latch.wait_in_thread, None) is True


async def test_a_cancelled_waiter_does_not_affect_others(latch):
    cancelled, other = (asyncio.create_task(latch.wait_in_loop(None)) for _ in range(2))
    await asyncio.sleep(0)
    cancelled.cancel()
    latch.set()
    assert await other is True
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_nothing_is_left_of_those_who_have_waited(latch):
    task = asyncio.create_task(latch.wait_in_loop(None))
    await asyncio.sleep(0)
    assert latch._waiters
    task.cancel()
    await asyncio.wait([task])
    await latch.wait_in_loop(0)
    latch.wait_in_thread(0)
    assert not latch._waiters
    assert not latch._events
