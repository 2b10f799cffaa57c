"""Where synchronous functions run: the settings of the threads, and who shares them."""

from __future__ import annotations

import concurrent.futures
import threading

import pytest

from e2e.tests.harness import GROUP
from kopf_core.intents import decorators as on

KEX = (GROUP, "kexes")


@pytest.mark.docs("configuration/executor")
async def test_sync_handlers_run_in_as_many_threads_as_allowed(world):
    limit, count = 3, 12
    world.settings.execution.max_workers = limit
    barrier = threading.Barrier(limit)

    @on.create(*KEX, id="create", registry=world.registry)
    def create(name, **_):
        barrier.wait(timeout=20)  # not fewer than the limit at once
        world.calls((name, threading.current_thread().name))

    for number in range(count):
        await world.create(name=f"obj-{number}")
    async with world.operator():
        await world.calls.until(lambda calls: len(calls) == count)
        assert len({thread for _, thread in world.calls}) == limit  # and not more


@pytest.mark.docs("configuration/executor")
async def test_executor_is_replaced_for_everything_that_begins_later(world):
    calls = world.calls
    pools = []

    @on.startup(id="configure", registry=world.registry)
    def configure(settings, **_):
        calls(("startup", threading.current_thread().name.partition("_")[0]))
        pools.append(concurrent.futures.ThreadPoolExecutor(thread_name_prefix="custom"))
        settings.execution.executor = pools[0]
        calls(("startup", threading.current_thread().name.partition("_")[0]))

    def report(param, **_):
        calls((param, threading.current_thread().name.partition("_")[0]))

    on.create(*KEX, id="create", param="create", registry=world.registry)(report)
    on.timer(*KEX, id="timer", param="timer", interval=100, registry=world.registry)(report)
    on.daemon(*KEX, id="daemon", param="daemon", registry=world.registry)(report)

    async with world.operator():
        await world.create()
        await calls.until(lambda calls: len(calls) == 5)
    pools[0].shutdown()
    assert calls[:2] == [("startup", "kopf-startup")] * 2
    assert sorted(calls[2:]) == [("create", "custom"), ("daemon", "custom"), ("timer", "custom")]
