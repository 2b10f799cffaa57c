"""Synchronous daemons have threads of their own, unless the user has decided otherwise."""

import asyncio
import concurrent.futures
import logging
import threading

import pytest
from virtual_time import timeless

from kopf_core.actions.errors import TemporaryError
from kopf_core.engines.background.daemon_threads import (
    PATIENCE,
    DaemonExecutors,
    DaemonThreads,
    WatchedExecutor,
)


async def test_d6_hundreds_of_daemons_run_at_once_and_let_the_process_exit():
    threads = DaemonThreads()
    barrier = threading.Barrier(101)
    loop = asyncio.get_running_loop()
    futures = [loop.run_in_executor(threads, barrier.wait) for _ in range(100)]
    assert threads.count == 100
    assert all(t.daemon for t in threading.enumerate() if t.name.startswith("kopf-daemon"))
    await loop.run_in_executor(None, barrier.wait)
    assert sorted(await asyncio.gather(*futures))[-1] >= 99
    while threads.count:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_errors_are_delivered():
    with pytest.raises(ZeroDivisionError):
        await asyncio.get_running_loop().run_in_executor(DaemonThreads(), lambda: 1 / 0)


def test_d6_exhausted_system_is_reported_and_retried(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    threads = DaemonThreads()
    with pytest.raises(TemporaryError, match=r"0 threads.*can't start new thread"):
        threads.submit(print)
    assert threads.count == 0


def test_default_settings_give_separate_threads(settings):
    assert settings.execution.executor  # made on demand, which is not a customization
    executors = DaemonExecutors(settings.execution)
    assert isinstance(executors.acquire(), DaemonThreads)


def test_d6_custom_executor_is_respected(settings, logged):
    with concurrent.futures.ThreadPoolExecutor(max_workers=100) as pool:
        settings.execution.executor = pool
        executors = DaemonExecutors(settings.execution)
        assert executors.acquire() is pool
        executors.release(pool)
        assert not logged(logging.WARNING)


def test_d6_exhausted_limit_is_named_once(settings, logged):
    settings.execution.max_workers = 2
    executors = DaemonExecutors(settings.execution)
    assert executors.acquire() is settings.execution.executor
    assert not logged(logging.WARNING)
    for _ in range(5):
        executors.acquire()
    errors = logged(logging.ERROR)
    assert len(errors) == 1
    assert "All 2 workers" in errors[0]
    assert "settings.execution.max_workers" in errors[0]


def test_d6_released_places_do_not_count(settings, logged):
    settings.execution.max_workers = 2
    executors = DaemonExecutors(settings.execution)
    for _ in range(5):
        executors.release(executors.acquire())
    assert not logged(logging.WARNING)


class ManualExecutor(concurrent.futures.Executor):
    """Nothing starts by itself."""

    def __init__(self):
        self._max_workers = 2
        self.futures = []

    def submit(self, fn, /, *args, **kwargs):
        self.futures.append(concurrent.futures.Future())
        return self.futures[-1]

    def start(self):
        self.futures.pop(0).set_running_or_notify_cancel()


@pytest.fixture
def manual(settings):
    settings.execution.executor = ManualExecutor()
    yield settings.execution.executor
    settings.execution._executor = None


@pytest.mark.docs("timers/resources", "configuration/executor")
@timeless
async def test_d6_queue_of_slow_timers_is_reported_once_with_the_limit(manual, settings, logged):
    watched = WatchedExecutor(settings.execution)
    for _ in range(5):
        watched.submit(print)
    manual.start()
    manual.start()
    await asyncio.sleep(PATIENCE * 1.5)  # enough for the first one, but not for the last one
    assert not logged(logging.WARNING)
    await asyncio.sleep(PATIENCE)
    watched.submit(print)
    await asyncio.sleep(PATIENCE * 10)
    errors = logged(logging.ERROR)
    assert len(errors) == 1
    assert "all 2 workers" in errors[0]
    assert "settings.execution.max_workers" in errors[0]


@timeless
async def test_d6_timers_that_start_soon_are_not_reported(manual, settings, logged):
    watched = WatchedExecutor(settings.execution)
    for _ in range(5):
        for _ in range(10):
            watched.submit(print)
        await asyncio.sleep(PATIENCE * 0.9)
        while manual.futures:
            manual.start()
        await asyncio.sleep(PATIENCE)
    assert not logged(logging.WARNING)
