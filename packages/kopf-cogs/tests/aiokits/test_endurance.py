"""Waiting that is interrupted by the second cancellation only."""

import asyncio

import pytest

from kopf_cogs.aiokits.endurance import endure


async def start(future):
    task = asyncio.create_task(endure(future))
    await asyncio.sleep(0)
    return task


async def test_results_and_errors_go_through():
    async def fail():
        raise ValueError("boom")

    assert await endure(asyncio.sleep(0, "result")) == "result"
    with pytest.raises(ValueError, match="boom"):
        await endure(fail())


async def test_the_first_cancellation_is_put_off():
    future = asyncio.get_running_loop().create_future()
    task = await start(future)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    future.set_result("result")
    assert await task == "result"
    assert task.cancelling()


async def test_the_second_cancellation_interrupts():
    future = asyncio.get_running_loop().create_future()
    task = await start(future)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert future.cancelled()


async def test_the_work_can_cancel_itself():
    future = asyncio.get_running_loop().create_future()
    task = await start(future)
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not task.cancelling()
