"""Nothing is handled until all the indices are filled."""

import asyncio

import pytest

from kopf_core.reactor.streams.readiness import Readiness


@pytest.fixture
def readiness():
    return Readiness()


async def test_ready_only_when_all_blockers_are_known(readiness):
    assert not readiness.is_ready
    readiness.release(object())
    assert not readiness.is_ready
    readiness.arm()
    assert readiness.is_ready


@pytest.mark.docs("arguments/indices")
async def test_held_until_all_release(readiness):
    waiter = asyncio.create_task(readiness.wait())
    readiness.hold("a")
    readiness.hold("b")
    readiness.arm()
    readiness.release("a")
    readiness.release("a")
    await asyncio.sleep(0)
    assert not waiter.done()
    readiness.release("b")
    async with asyncio.timeout(60):
        await waiter


async def test_ready_for_ever(readiness):
    readiness.arm()
    readiness.hold("late")
    assert readiness.is_ready
    await readiness.wait()


async def test_held_again_by_those_to_be_listed_anew(readiness):
    readiness.arm()
    assert readiness.is_ready
    readiness.renew("a")
    readiness.renew("b")
    await readiness.wait_for_doubts()
    readiness.release("a")
    assert not readiness.is_ready
    readiness.release("b")
    await readiness.wait()
    doubting = asyncio.create_task(readiness.wait_for_doubts())
    await asyncio.sleep(0)
    assert not doubting.done()
    doubting.cancel()
