import asyncio
import math

import pytest
from virtual_time import LoopClock, timeless

from kopf_cogs.aiokits.sleeps import sleep


@pytest.mark.parametrize("delay", [None, 0, -1, -math.inf, math.nan])
@pytest.mark.parametrize("with_event", [True, False])
async def test_d12_no_delay_lets_others_run(delay, with_event):
    others = []
    asyncio.get_running_loop().call_soon(others.append, 1)
    assert await sleep(delay, asyncio.Event() if with_event else None) is None
    assert others


@pytest.mark.parametrize("with_event", [True, False])
@timeless
async def test_full_sleep(with_event):
    assert await sleep(10, asyncio.Event() if with_event else None) is None
    assert LoopClock().monotonic() == 10


@pytest.mark.parametrize("delay", [1000, 1e12, math.inf])
async def test_wakeup_returns_the_remainder(delay):
    event = asyncio.Event()
    task = asyncio.create_task(sleep(delay, event))
    await asyncio.sleep(0)
    event.set()
    remainder = await task
    assert 0 < remainder <= delay
    assert event.is_set()


async def test_already_woken_up():
    event = asyncio.Event()
    event.set()
    assert await sleep(5, event) == 5


async def test_d12_endless_sleeps_can_be_cancelled():
    task = asyncio.create_task(sleep(math.inf))
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
