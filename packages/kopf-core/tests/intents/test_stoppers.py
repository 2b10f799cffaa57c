"""How daemons find out that they are to be stopped: in the loop and in threads."""

import asyncio
import concurrent.futures
import threading

import pytest

from kopf_core.intents.stoppers import DaemonStopped, DaemonStopper, DaemonStoppingReason

DELETED = DaemonStoppingReason.RESOURCE_DELETED
SIGNALLED = DaemonStoppingReason.DAEMON_SIGNALLED
CANCELLED = DaemonStoppingReason.DAEMON_CANCELLED


@pytest.fixture
def stopper():
    return DaemonStopper()


@pytest.fixture(params=["sync_checker", "async_checker"])
def checker(request, stopper):
    return getattr(stopper, request.param)


@pytest.mark.docs("arguments/stopped")
def test_initially_not_stopped(stopper, checker):
    assert not checker
    assert not checker.is_set()
    assert checker.reason is None
    assert not stopper.is_set()
    assert repr(checker) == f"<{type(checker).__name__}: False, reason=None>"


@pytest.mark.docs("arguments/stopped")
def test_stopped_with_a_reason(stopper, checker):
    stopper.set(DELETED)
    assert checker
    assert checker.is_set()
    assert checker.reason == DELETED
    assert "True, reason=" in repr(checker)
    assert "RESOURCE_DELETED" in repr(checker)


def test_reasons_accumulate(stopper, checker):
    stopper.set(DELETED)
    stopper.set(SIGNALLED)
    assert checker.reason == DELETED | SIGNALLED
    assert stopper.is_set(DELETED)
    assert stopper.is_set(SIGNALLED)
    assert not stopper.is_set(CANCELLED)


def test_a_specific_reason_is_not_there_before_stopping(stopper):
    assert not stopper.is_set(DELETED)


def test_checkers_follow_the_public_protocol(checker):
    assert isinstance(checker, DaemonStopped)


@pytest.mark.docs("arguments/stopped")
async def test_waiting_in_the_loop_ends_when_stopped(stopper):
    checker = stopper.async_checker

    async def daemon():
        return await checker.wait()

    tasks = [asyncio.create_task(daemon()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    stopper.set(DELETED)
    async with asyncio.timeout(60):
        assert await asyncio.gather(*tasks) == [checker] * 3


async def test_waiting_in_the_loop_ends_at_once_when_already_stopped(stopper):
    stopper.set(DELETED)
    async with asyncio.timeout(60):
        assert await stopper.async_checker.wait(999)


@pytest.mark.docs("arguments/stopped")
async def test_waiting_in_the_loop_ends_by_time(stopper):
    assert not await stopper.async_checker.wait(0.001)
    assert not stopper._latch.is_awaited


async def test_cancelled_waiting_leaves_nothing(stopper):
    async def daemon():
        await stopper.async_checker.wait()

    task = asyncio.create_task(daemon())
    await asyncio.sleep(0)
    assert stopper._latch.is_awaited
    task.cancel()
    await asyncio.wait([task])
    assert not stopper._latch.is_awaited


def test_forgotten_await_is_an_error(stopper):
    with pytest.raises(TypeError, match="must be awaited"):
        bool(stopper.async_checker.wait(1))


@pytest.mark.docs("arguments/stopped")
def test_waiting_in_a_thread_ends_when_stopped(stopper):
    started, checker = threading.Event(), stopper.sync_checker

    def daemon():
        started.set()
        return checker.wait(30)

    with concurrent.futures.ThreadPoolExecutor() as executor:
        future = executor.submit(daemon)
        started.wait(30)
        stopper.set(DELETED)
        assert future.result(30) is checker


def test_waiting_in_a_thread_ends_by_time(stopper):
    assert not stopper.sync_checker.wait(0.001)
