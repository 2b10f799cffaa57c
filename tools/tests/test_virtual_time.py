"""The time of tests."""

import asyncio
import datetime

from virtual_time import START, LoopClock, jump, timeless


@timeless
async def test_k37_hours_pass_in_no_time() -> None:
    clock = LoopClock()
    await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(7200))
    assert clock.monotonic() == 7200
    assert clock.now() == START + datetime.timedelta(hours=2)


@timeless
async def test_k37_threads_are_waited_for_with_no_timers() -> None:
    assert await asyncio.to_thread(lambda: "result") == "result"
    assert LoopClock().monotonic() == 0


async def test_k37_loops_can_be_late() -> None:
    task = asyncio.create_task(asyncio.sleep(3600))
    await asyncio.sleep(0)
    jump(3600)
    await task
