"""The work queue: order, limits, timers, opening and closing."""

import asyncio
import contextlib
import time

import pytest

from kopf_core.reactor.queueing import WorkQueue, summarize
from kopf_core.reactor.work import DONE, Requeue


def event(n=0, type="MODIFIED", **meta):
    return {"type": type, "object": {"metadata": {"resourceVersion": str(n), **meta}}}


def later(delay, **kwargs):
    return Requeue(at=time.monotonic() + delay, **kwargs)


class Recorder:
    """What the queue calls for the objects; can be blocked, and told what to respond."""

    def __init__(self):
        self.calls = []
        self.active = self.peak = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.changed = asyncio.Event()
        self.responses = {}

    async def __call__(self, item):
        taken = [int(e["object"]["metadata"]["resourceVersion"]) for e in item.events]
        item.events.clear()
        self.calls.append((item.key, taken))
        self.active += 1
        self.peak = max(self.peak, self.active)
        self.changed.set()
        try:
            await self.gate.wait()
        finally:
            self.active -= 1
            self.changed.set()
        responses = self.responses.get(item.key)
        response = responses.pop(0) if responses else None
        if isinstance(response, Exception):
            raise response
        return response or DONE

    async def until(self, predicate):
        async with asyncio.timeout(10):
            while not predicate():
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture
async def process():
    return Recorder()


@pytest.fixture
async def make_queue(process):
    async with contextlib.AsyncExitStack() as stack:

        def make(*, limit=None, opened=True):
            queue = WorkQueue(process, limit=limit)
            if opened:
                queue.open()
            stack.push_async_callback(queue.close, 0.1)
            return queue

        yield make
        process.gate.set()


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_events_of_one_object_are_processed_in_order_and_together(make_queue, process):
    queue = make_queue()
    process.gate.clear()
    queue.put("a", event(1))
    await process.until(lambda: process.active)
    for n in (2, 3, 4):
        queue.put("a", event(n))
    process.gate.set()
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [1]), ("a", [2, 3, 4])]


async def test_one_object_is_never_processed_twice_at_once(make_queue, process):
    queue = make_queue()
    process.gate.clear()
    for n in range(5):
        queue.put("a", event(n))
        queue.wake("a")
        await settle()
    assert process.active == 1
    assert len(process.calls) == 1


async def test_objects_are_processed_independently(make_queue, process):
    queue = make_queue()
    process.gate.clear()
    for key in "abc":
        queue.put(key, event(1))
    await process.until(lambda: process.active == 3)


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_limit_of_workers(make_queue, process, limit):
    queue = make_queue(limit=limit)
    process.gate.clear()
    for n in range(20):
        queue.put(str(n), event(n))
    await process.until(lambda: process.active == limit)
    await settle()
    assert summarize(queue) == {"objects": 20, "running": limit, "waiting": 20 - limit}
    process.gate.set()
    await process.until(lambda: len(process.calls) == 20 and not process.active)
    assert process.peak == limit
    assert [key for key, _ in process.calls] == [str(n) for n in range(20)]  # fairly


async def test_d14_busy_objects_do_not_starve_those_waiting(make_queue, process):
    """A hot object gives its place only when it is out of events; others get theirs anyway."""
    queue = make_queue(limit=2)
    process.gate.clear()
    queue.put("hot", event(0))
    queue.put("a", event(1))
    queue.put("b", event(2))
    await process.until(lambda: process.active == 2)
    for n in range(3, 1000):
        queue.put("hot", event(n))
    process.gate.set()
    await process.until(lambda: len(process.calls) == 4 and not process.active)
    assert {key for key, _ in process.calls} == {"hot", "a", "b"}
    assert len(dict(process.calls[1:])["hot"]) == 997  # all at once


async def test_nothing_is_processed_until_opened(make_queue, process):
    queue = make_queue(opened=False)
    queue.put("a", event(1))
    queue.put("a", event(2))
    queue.put("b", event(3))
    await settle()
    assert not process.calls
    queue.open()
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [1, 2]), ("b", [3])]


async def test_finished_objects_cost_nothing(make_queue, process):
    queue = make_queue()
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    await settle()
    assert len(queue) == 0


async def test_delayed_objects_are_processed_again_without_events(make_queue, process):
    queue = make_queue()
    process.responses["a"] = [later(0.001), later(0), None]
    queue.put("a", event(1))
    await process.until(lambda: len(process.calls) == 3)
    assert process.calls == [("a", [1]), ("a", []), ("a", [])]
    await settle()
    assert len(queue) == 0


async def test_events_interrupt_delays(make_queue, process):
    queue = make_queue()
    process.responses["a"] = [later(999)]
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    await settle()
    assert len(queue) == 1
    queue.put("a", event(2))
    await process.until(lambda: len(process.calls) == 2)
    await settle()
    assert len(queue) == 0  # the delay is not there anymore


async def test_delayed_objects_can_be_woken_up(make_queue, process):
    queue = make_queue()
    process.responses["a"] = [later(999)]
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    await settle()
    queue.wake("a")
    await process.until(lambda: len(process.calls) == 2)


async def test_waking_up_while_processing_is_not_lost(make_queue, process):
    """E.g. a daemon ends right when its object is being processed, which has seen it running."""
    queue = make_queue()
    process.responses["a"] = [later(999)]
    process.gate.clear()
    queue.put("a", event(1))
    await process.until(lambda: process.active)
    queue.wake("a")
    process.gate.set()
    await process.until(lambda: len(process.calls) == 2)


@pytest.mark.docs("configuration/throttling")
async def test_held_objects_are_left_alone_for_their_time(make_queue, process):
    queue = make_queue(limit=1)
    process.responses["a"] = [later(999, is_held=True)]
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    queue.put("a", event(2))
    queue.wake("a")
    await settle()
    queue.put("b", event(3))  # it does not take the place of others
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [1]), ("b", [3])]


@pytest.mark.docs("configuration/throttling")
async def test_held_objects_are_processed_with_all_events_after_their_time(make_queue, process):
    queue = make_queue()
    process.responses["a"] = [later(0.05, is_held=True)]
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    queue.put("a", event(2))
    queue.put("a", event(3))
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [1]), ("a", [2, 3])]


async def test_waking_up_of_unknown_objects_is_nothing(make_queue, process):
    queue = make_queue()
    queue.wake("unknown")
    await settle()
    assert not process.calls


async def test_the_latest_state_is_kept_between_delays(make_queue):
    seen = []
    done = asyncio.Event()

    async def process(item):
        if item.events:
            item.latest = item.events.pop()["object"]
            return later(0)
        seen.append(item.latest["metadata"]["resourceVersion"])
        done.set()
        return DONE

    queue = WorkQueue(process)
    queue.open()
    queue.put("a", event(5))
    async with asyncio.timeout(10):
        await done.wait()
    await queue.close(1)
    assert seen == ["5"]


async def test_failures_of_processing_affect_nothing_else(make_queue, process, logged):
    queue = make_queue(limit=1)
    process.responses["a"] = [ValueError("boom")]
    queue.put("a", event(1))
    queue.put("b", event(2))
    await process.until(lambda: len(process.calls) == 2)
    queue.put("a", event(3))
    await process.until(lambda: len(process.calls) == 3)
    assert any("boom" in message for message in logged())


async def test_closing_waits_for_what_is_running(make_queue, process):
    queue = make_queue(limit=1)
    process.gate.clear()
    queue.put("a", event(1))
    queue.put("b", event(2))
    await process.until(lambda: process.active)
    closing = asyncio.create_task(queue.close(10))
    await settle()
    assert not closing.done()
    process.gate.set()
    await closing
    assert process.calls == [("a", [1])]  # but takes nothing new


async def test_closing_cancels_what_is_too_slow(make_queue, process):
    queue = make_queue()
    process.gate.clear()
    queue.put("a", event(1))
    await process.until(lambda: process.active)
    await queue.close(0.001)
    assert not process.active


async def test_closed_queues_collect_but_do_not_process(make_queue, process):
    queue = make_queue()
    await queue.close(1)
    queue.put("a", event(1))
    await settle()
    assert not process.calls
    queue.open()
    await process.until(lambda: process.calls == [("a", [1])])


async def test_clearing_forgets_everything(make_queue, process):
    queue = make_queue()
    process.responses["a"] = [later(0.001)]
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    await queue.close(1)
    queue.put("b", event(2))
    queue.clear()
    queue.open()
    assert summarize(queue) == {"objects": 0, "running": 0, "waiting": 0}
    queue.put("c", event(3))
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [1]), ("c", [3])]
