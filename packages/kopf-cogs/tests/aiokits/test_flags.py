import asyncio
import concurrent.futures
import threading

import pytest

from kopf_cogs.aiokits import flags
from kopf_cogs.aiokits.flags import raise_flag, wait_flag


@pytest.fixture(
    params=[
        asyncio.Event,
        threading.Event,
        asyncio.Future,
        concurrent.futures.Future,
    ],
    ids=["aio-event", "thread-event", "aio-future", "thread-future"],
)
async def flag(request):
    return request.param()


def is_raised(flag):
    return flag.done() if hasattr(flag, "done") else flag.is_set()


async def test_raising(flag):
    assert not is_raised(flag)
    raise_flag(flag)
    assert is_raised(flag)
    raise_flag(flag)
    assert is_raised(flag)


async def test_waiting(flag):
    task = asyncio.create_task(wait_flag(flag))
    await asyncio.sleep(0)
    assert not task.done()
    raise_flag(flag)
    assert await task in (True, None)


async def test_waiting_for_what_is_raised(flag):
    raise_flag(flag)
    async with asyncio.timeout(60):
        await wait_flag(flag)


async def test_cancelled_waiting_does_not_affect_the_flag(flag):
    task = asyncio.create_task(wait_flag(flag))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_raised(flag)
    raise_flag(flag)
    await wait_flag(flag)


@pytest.mark.parametrize("cls", [asyncio.Future, concurrent.futures.Future])
async def test_results_of_futures(cls):
    future = cls()
    future.set_result("signal")
    assert await wait_flag(future) == "signal"


async def test_absent_flags():
    raise_flag(None)
    task = asyncio.create_task(wait_flag(None))
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()


async def test_o8_threads_end_when_nobody_waits(monkeypatch):
    monkeypatch.setattr(flags, "_THREAD_POLLING_INTERVAL", 0.001)
    task = asyncio.create_task(wait_flag(threading.Event()))
    await asyncio.sleep(0)
    thread = next(t for t in threading.enumerate() if t.name == "kopf-flag")
    task.cancel()
    await asyncio.wait([task])
    thread.join(30)
    assert not thread.is_alive()


def test_threads_survive_closed_loops():
    event = threading.Event()

    async def main():
        loop = asyncio.get_running_loop()
        return loop, loop.create_future()

    loop, future = asyncio.run(main())
    event.set()
    flags._watch_thread_event(event, threading.Event(), loop, future)
    assert not future.done()
