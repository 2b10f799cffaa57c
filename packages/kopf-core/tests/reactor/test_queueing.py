"""The work queue: order, limits, timers, opening and closing."""

import asyncio
import contextlib

import pytest
from virtual_time import VirtualTime

from kopf_core.actions.invocation import is_being_cancelled
from kopf_core.engines.records.writes import AwaitChange
from kopf_core.reactor.streams import queueing
from kopf_core.reactor.streams.places import HEADROOM, Gate, Occupancy
from kopf_core.reactor.streams.queueing import WorkQueue
from kopf_core.reactor.streams.work import DONE, Position, Requeue


def event(n=0, type="MODIFIED", **meta):
    return {"type": type, "object": {"metadata": {"resourceVersion": str(n), **meta}}}


def later(delay, **kwargs):
    """Since the start: the time is virtual, and goes only when nothing else does."""
    return Requeue(at=delay, **kwargs)


def summarize(queue):
    return {
        "objects": len(queue),
        "running": len(queue._working),
        "waiting": sum(item.position is Position.QUEUED for item in queue._items.values()),
    }


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
        if isinstance(response, BaseException):
            raise response
        return response or DONE

    async def until(self, predicate):
        async with asyncio.timeout(60):
            while not predicate():
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture
async def process():
    return Recorder()


@pytest.fixture(autouse=True)
async def clock():
    return VirtualTime(asyncio.get_running_loop())


@pytest.fixture
async def make_queue(process, clock):
    async with contextlib.AsyncExitStack() as stack:

        def make(*, opened=True, **kwargs):
            queue = WorkQueue(process, clock=clock, **kwargs)
            if opened:
                queue.reach(Gate.OPEN)
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
        queue.enqueue("a", "test")
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
    """A hot object gives its place back after every turn, and gets it after all the others."""
    queue = make_queue(limit=1)
    process.gate.clear()
    queue.put("hot", event(0))
    queue.put("a", event(1))
    queue.put("b", event(2))
    await process.until(lambda: process.active == 1)
    for n in range(3, 1000):
        queue.put("hot", event(n))
    process.gate.set()
    await process.until(lambda: len(process.calls) == 4 and not process.active)
    assert [key for key, _ in process.calls] == ["hot", "a", "b", "hot"]
    assert len(process.calls[-1][1]) == 997  # all at once


async def test_nothing_is_processed_until_opened(make_queue, process):
    queue = make_queue(opened=False)
    queue.put("a", event(1))
    queue.put("a", event(2))
    queue.put("b", event(3))
    await settle()
    assert not process.calls
    queue.reach(Gate.OPEN)
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
    queue.enqueue("a", "test")
    await process.until(lambda: len(process.calls) == 2)


async def test_waking_up_while_processing_is_not_lost(make_queue, process):
    """E.g. a daemon ends right when its object is being processed, which has seen it running."""
    queue = make_queue()
    process.responses["a"] = [later(999)]
    process.gate.clear()
    queue.put("a", event(1))
    await process.until(lambda: process.active)
    queue.enqueue("a", "test")
    process.gate.set()
    await process.until(lambda: len(process.calls) == 2)


@pytest.mark.docs("configuration/throttling")
async def test_held_objects_are_left_alone_for_their_time(make_queue, process):
    queue = make_queue(limit=1, keeps_events=False)
    process.responses["a"] = [later(999, is_held=True)]
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    queue.put("a", event(2))
    queue.enqueue("a", "test")
    await settle()
    queue.put("b", event(3))  # it does not take the place of others
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [1]), ("b", [3])]


@pytest.mark.docs("configuration/throttling")
async def test_r8_held_objects_keep_only_the_newest_state(make_queue, process):
    queue = make_queue(keeps_events=False)
    process.responses["a"] = [later(5, is_held=True)]
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    for n in range(2, 1000):
        queue.put("a", event(n))
    assert len(queue.get("a").events) == 1
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [1]), ("a", [999])]


async def test_queue1_repeated_old_states_do_not_replace_the_newest_state(make_queue, process):
    queue = make_queue(keeps_events=False)
    process.responses["a"] = [later(5, is_held=True)]
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    for version in (7, 8, 7, 6):
        queue.put("a", event(version))
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [1]), ("a", [8, 6])]


@pytest.mark.docs("configuration/throttling")
async def test_r8_events_are_delivered_though_the_object_is_held(make_queue, process):
    """They are promised to low-level handlers; everything else waits for its time."""
    queue = make_queue()
    hold = later(999, is_held=True)
    process.responses["a"] = [hold, hold, hold]
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    for n in (2, 3):
        queue.put("a", event(n))
        await process.until(lambda n=n: len(process.calls) == n and not process.active)
        assert queue.get("a").held is hold
        assert not queue.get("a").events
    assert process.calls == [("a", [1]), ("a", [2]), ("a", [3])]


@pytest.mark.docs("configuration/throttling")
@pytest.mark.parametrize("keeps_events", [True, False])
@pytest.mark.parametrize(
    "deletion",
    [event(2, "DELETED"), event(2, deletionTimestamp="2020-01-01T00:00:00Z")],
    ids=["deleted", "deleting"],
)
async def test_r25_deletions_are_never_held(make_queue, process, deletion, keeps_events):
    queue = make_queue(keeps_events=keeps_events)
    process.responses["a"] = [later(999, is_held=True)]
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    item = queue.get("a")
    item.latest = event(1)["object"]
    queue.put("a", deletion)
    assert item.held is None  # otherwise, only the handlers of events would be called
    await process.until(lambda: len(process.calls) == 2 and not process.active)
    await settle()
    assert not len(queue)


async def test_r25_deletions_that_come_in_the_middle_of_a_failing_turn_are_not_held(
    make_queue, process
):
    queue = make_queue(keeps_events=False)
    process.responses["a"] = [later(999, is_held=True)]
    process.gate.clear()
    queue.put("a", event(1))
    await process.until(lambda: process.active)
    queue.put("a", event(2, "DELETED"))
    process.gate.set()
    await process.until(lambda: len(process.calls) == 2)


async def test_waking_up_of_unknown_objects_is_nothing(make_queue, process):
    queue = make_queue()
    assert not queue.enqueue("unknown", "test")
    await settle()
    assert not process.calls


async def test_no_turn_is_made_for_the_last_event_that_an_object_waits_for(make_queue, process):
    queue = make_queue(absorb=lambda item, event: event["object"]["metadata"]["name"] == "last")
    awaited = AwaitChange("3", until=999)
    process.responses["a"] = [awaited, awaited]
    queue.put("a", event(1, name="last"))  # it does not wait for anything yet
    await process.until(lambda: process.calls and not process.active)
    queue.put("a", event(3, name="other"))
    await process.until(lambda: len(process.calls) == 2 and not process.active)
    queue.put("a", event(3, name="last"))
    assert len(queue) == 0
    await settle()
    assert process.calls == [("a", [1]), ("a", [3])]


async def test_no_turn_is_made_if_the_last_event_has_come_in_the_middle_of_the_one_before_it(
    make_queue, process
):
    """Usually, the stream is not slower than the reply."""
    queue = make_queue(absorb=lambda item, event: item.rest is not DONE)
    process.responses["a"] = [AwaitChange("2", until=999)]
    process.gate.clear()
    queue.put("a", event(1))
    await process.until(lambda: process.active)
    queue.put("a", event(2))
    process.gate.set()
    await process.until(lambda: not process.active)
    await settle()
    assert len(queue) == 0
    assert process.calls == [("a", [1])]


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
    queue.reach(Gate.OPEN)
    queue.put("a", event(5))
    async with asyncio.timeout(60):
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


async def test_closed_queues_forget_everything_and_take_nothing(make_queue, process):
    queue = make_queue()
    process.responses["a"] = [later(0.001)]
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    await queue.close(1)
    queue.put("b", event(2))
    assert not queue.enqueue("b", "test", body=event(2)["object"])
    queue.reach(Gate.OPEN)
    assert summarize(queue) == {"objects": 0, "running": 0, "waiting": 0}
    queue.put("c", event(3))
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [1]), ("c", [3])]


# --- The newest states only ---


async def test_r8_only_the_newest_state_is_kept_while_the_object_is_worked_on(make_queue, process):
    queue = make_queue(keeps_events=False)
    process.gate.clear()
    queue.put("a", event(1))
    await process.until(lambda: process.active)
    for n in range(2, 1000):
        queue.put("a", event(n))
    assert len(queue.get("a").events) == 1
    process.gate.set()
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [1]), ("a", [999])]


async def test_objects_listed_first_are_known_as_such_whatever_comes_later(make_queue):
    queue = make_queue(opened=False, keeps_events=False)
    queue.put("a", event(1, None))
    queue.put("a", event(2))
    queue.put("b", event(2, "ADDED"))
    assert queue.get("a").is_listed
    assert not queue.get("b").is_listed


async def test_outdated_states_do_not_interrupt_the_waiting_for_our_own_change(make_queue, process):
    queue = make_queue(keeps_events=False)
    process.responses["a"] = [AwaitChange("5", 999)]
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    queue.put("a", event(4))
    await settle()
    assert len(process.calls) == 1
    queue.put("a", event(5))
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [1]), ("a", [5])]


async def test_our_own_change_that_comes_before_the_turn_is_over_is_not_waited_for(
    make_queue, process
):
    queue = make_queue(keeps_events=False)
    process.responses["a"] = [AwaitChange("5", 999)]
    process.gate.clear()
    queue.put("a", event(1))
    await process.until(lambda: process.active)
    queue.put("a", event(5))
    process.gate.set()
    await process.until(lambda: len(process.calls) == 2)


# --- Without events ---


async def test_objects_can_be_enqueued_with_no_events(make_queue, process):
    states = {"a": event(7)["object"]}
    queue = make_queue(lookup=states.get)
    assert not queue.enqueue("b", "child")
    process.gate.clear()
    assert queue.enqueue("a", "child")
    assert queue.enqueue("a", "timer")
    item = queue.get("a")
    assert item.latest is states["a"]
    assert item.take_reasons() == {"child", "timer"}
    assert item.take_reasons() == set()
    process.gate.set()
    await process.until(lambda: process.calls and not process.active)
    assert process.calls == [("a", [])]


async def test_objects_can_be_enqueued_at_a_time_and_nothing_prevents_it(
    make_queue, process, clock
):
    queue = make_queue()
    queue.enqueue("a", "every", at=5, body=event(1)["object"])
    queue.enqueue("a", "later", at=999)
    queue.put("a", event(2))
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [2]), ("a", [])]
    assert clock.monotonic() == 5


# --- Fairness ---


async def test_changes_go_before_the_initial_list(make_queue, process):
    queue = make_queue(limit=1)
    process.gate.clear()
    queue.put("first", event(1))
    for n in range(3):
        queue.put(f"listed{n}", event(n, None))
    queue.put("changed", event(1))
    queue.put("listed2", event(5))  # it has changed, too
    process.gate.set()
    await process.until(lambda: len(process.calls) == 5)
    assert [key for key, _ in process.calls] == [
        *("first", "changed", "listed2", "listed0", "listed1")
    ]


async def test_d14_changes_do_not_starve_the_initial_list(make_queue, process):
    queue = make_queue(limit=1)
    process.gate.clear()
    queue.put("first", event(1))
    queue.put("listed", event(1, None))
    for n in range(20):
        queue.put(f"changed{n}", event(n))
    process.gate.set()
    await process.until(lambda: len(process.calls) == 22)
    assert [key for key, _ in process.calls].index("listed") < 6


async def test_d15_listing_waits_for_those_listed_before(make_queue, process):
    queue = make_queue(limit=1)
    process.gate.clear()
    for n in range(HEADROOM + 2):
        queue.put(str(n), event(n, None))
    waiting = asyncio.create_task(queue.wait_for_headroom())
    await settle()
    assert not waiting.done()
    process.gate.set()
    await waiting
    assert len(queue) <= HEADROOM + 1


@pytest.mark.parametrize("gate", [Gate.PAUSED, Gate.CLOSED])
async def test_listing_does_not_wait_for_those_who_are_not_processed(
    make_queue, process, gate, clock
):
    queue = make_queue()
    process.gate.clear()
    for n in range(HEADROOM + 1):
        queue.put(str(n), event(n, None))
    waiting = asyncio.create_task(queue.wait_for_headroom())
    await settle()
    assert not waiting.done()
    queue.reach(gate)
    stopping = asyncio.create_task(queue.finish(999))
    await waiting
    assert clock.monotonic() == 0  # it is told, and needs no patience
    process.gate.set()
    await stopping


async def test_k1_listing_does_not_wait_for_the_gate(make_queue, monkeypatch):
    monkeypatch.setattr(queueing, "WORKING_PATIENCE", 1e9)
    queue = make_queue(opened=False)
    for n in range(HEADROOM + 1):
        queue.put(str(n), event(n, None))
    await queue.wait_for_headroom()


# --- Pauses ---


async def test_paused_queues_keep_only_the_newest_states(make_queue, process):
    queue = make_queue(keeps_events=True)
    queue.reach(Gate.PAUSED)
    await queue.finish(1)
    for n in range(1000):
        queue.put("a", event(n))
    await settle()
    assert not process.calls
    queue.reach(Gate.OPEN)
    await process.until(lambda: process.calls)
    assert process.calls == [("a", [999])]


async def test_paused_queues_do_not_keep_deleted_objects_unless_they_were_processed(make_queue):
    queue = make_queue(forget=lambda key: key != "known")
    queue.reach(Gate.PAUSED)
    await queue.finish(1)
    for key in ("known", "unknown"):
        queue.put(key, event(1, "ADDED"))
        queue.put(key, event(2, "DELETED"))
    assert queue.get("unknown") is None
    assert queue.get("known") is not None


async def test_sim10_paused_queues_drop_deleted_objects_that_are_known_no_more(make_queue):
    """The operator has lost its lease, and has forgotten everything."""
    known = {"a"}
    queue = make_queue(forget=lambda key: key not in known)
    queue.reach(Gate.PAUSED, forget=True)
    await queue.finish(1)
    queue.put("a", event(2, "DELETED"))
    known.clear()
    queue.reach(Gate.PAUSED)
    assert queue.get("a") is None


async def test_k37_paused_queues_keep_only_the_newest_of_what_has_come_before(make_queue, process):
    queue = make_queue(opened=False, keeps_events=True)
    for n in range(3):
        queue.put("a", event(n))
    queue.reach(Gate.PAUSED)
    queue.reach(Gate.OPEN)
    await process.until(lambda: process.calls)
    assert process.calls == [("a", [2])]


async def test_k37_deletions_are_not_forgotten_when_all_is_to_be_listed_anew(make_queue, process):
    """Lists have no objects that are deleted already."""
    queue = make_queue(opened=False)
    queue.put("there", event(1))
    queue.put("deleted", event(1, "DELETED"))
    queue.reach(Gate.PAUSED, forget=True)
    queue.reach(Gate.OPEN)
    await process.until(lambda: process.calls)
    await settle()
    assert process.calls == [("deleted", [1])]


async def test_k37_deletions_of_those_in_work_are_handled_after_the_pause(make_queue, process):
    queue = make_queue(forget=lambda _: not process.calls)
    process.gate.clear()
    queue.put("a", event(1, "ADDED"))
    await process.until(lambda: process.active)
    queue.reach(Gate.PAUSED)
    queue.put("a", event(2, "DELETED"))
    process.gate.set()
    await process.until(lambda: not process.active)
    queue.reach(Gate.OPEN)
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [1]), ("a", [2])]


async def test_sim17_deletions_of_those_in_work_are_dropped_if_all_was_forgotten_meanwhile(
    make_queue, process
):
    """The lease was lost in the turn: its thread goes on, but the next leader does its work."""
    queue = make_queue(forget=lambda _: True)
    process.gate.clear()
    queue.put("a", event(1, "ADDED"))
    await process.until(lambda: process.active)
    queue.reach(Gate.PAUSED)
    queue.put("a", event(2, "DELETED"))
    assert queue.get("a") is not None
    process.gate.set()
    await process.until(lambda: not process.active)
    await settle()
    assert queue.get("a") is None


async def test_changes_that_never_come_are_awaited_until_their_time(make_queue, process):
    queue = make_queue(keeps_events=False)
    process.responses["a"] = [AwaitChange("5", until=0.01)]
    queue.put("a", event(1))
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [1]), ("a", [])]


async def test_k37_whoever_is_enqueued_does_not_wait_for_our_own_change(make_queue, process):
    queue = make_queue(keeps_events=False)
    process.responses["a"] = [AwaitChange("5", until=999)]
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    queue.put("a", event(4))  # from before that change
    await settle()
    queue.enqueue("a", "daemon")
    await process.until(lambda: len(process.calls) == 2)
    assert process.calls == [("a", [1]), ("a", [4])]


async def test_k37_interrupted_turns_are_repeated_though_there_are_no_events(make_queue, process):
    queue = make_queue(keeps_events=False)
    process.responses["a"] = [asyncio.CancelledError()]
    queue.put("a", event(1))
    await process.until(lambda: process.calls and not process.active)
    await settle()
    assert queue.get("a").reasons == {"interrupted"}


async def test_turns_cancelled_by_a_pause_are_repeated(make_queue, process):
    queue = make_queue(keeps_events=False)
    process.gate.clear()
    queue.put("a", event(1))
    await process.until(lambda: process.active)
    queue.reach(Gate.PAUSED)
    await queue.finish(0.001)
    assert not process.active
    process.gate.set()
    queue.reach(Gate.OPEN)
    await process.until(lambda: len(process.calls) == 2)


@pytest.mark.parametrize("stopped", [Gate.PAUSED, Gate.CLOSED])
async def test_e_two_turns_of_one_object_are_impossible_whatever_is_stopped(stopped):
    """Here, the turns refuse to be cancelled."""
    active, peak, turns, gate, finished = 0, 0, 0, asyncio.Event(), asyncio.Event()

    async def process(item):
        nonlocal active, peak, turns
        item.events.clear()
        active, turns = active + 1, turns + 1
        peak = max(peak, active)
        while not gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
        active -= 1
        if turns == 3:
            finished.set()
        return DONE

    occupancy = Occupancy()
    queues = [WorkQueue(process, occupancy=occupancy) for _ in range(2)]
    for queue in [*queues, *queues]:
        queue.reach(Gate.OPEN)
        queue.put("a", event(1))
        await settle()
        queue.reach(stopped)
        await queue.finish(0.001)
    for queue in queues:
        queue.reach(Gate.OPEN)
        queue.put("a", event(2))
    await settle()
    assert (active, turns) == (1, 1)
    gate.set()
    async with asyncio.timeout(60):
        await finished.wait()
    assert peak == 1
    for queue in queues:
        await queue.close(1)


@pytest.mark.parametrize(("count", "objects"), [(1, "1 object is"), (2, "2 objects are")])
async def test_objects_that_cannot_be_interrupted_are_counted(caplog, count, objects):
    gate = asyncio.Event()

    async def process(item):
        item.events.clear()
        while not gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
        return DONE

    queue = WorkQueue(process)
    queue.reach(Gate.OPEN)
    for n in range(count):
        queue.put(str(n), event(1))
    await settle()
    queue.reach(Gate.CLOSED)
    await queue.finish(0.001)
    gate.set()
    await queue.close(1)
    assert caplog.messages == [f"{objects} still being processed; left as is."]


async def test_sim20_turns_cancelled_by_a_pause_are_not_repeated_twice_at_once(clock):
    """The next turn of the object begins before the event loop tells of the end of the first."""
    active, peak, calls, gate = 0, 0, [], asyncio.Event()

    async def process(item):
        nonlocal active, peak
        calls.append(item.key)
        active, item.events = active + 1, type(item.events)()
        peak = max(peak, active)
        try:
            if item.key == "a":
                await gate.wait()
        finally:
            active -= 1
        return DONE

    queue = WorkQueue(process, clock=clock, limit=1)
    queue.reach(Gate.OPEN)
    for key in "ab":
        queue.put(key, event(1))
    await settle()
    queue.reach(Gate.PAUSED)
    queue.cancel()
    queue.reach(Gate.OPEN)
    await settle()
    gate.set()
    await settle()
    assert (calls, peak) == (["a", "b", "a"], 1)
    await queue.close(1)


async def test_sim27_turns_after_a_cancelled_turn_are_not_cancelled(clock):
    """The pause is over before its cancelled turn ends, and no other object waits."""
    turns = []

    async def process(item):
        turns.append(is_being_cancelled())
        item.events.clear()
        if len(turns) == 1:
            await asyncio.Event().wait()
        return DONE

    queue = WorkQueue(process, clock=clock)
    queue.reach(Gate.OPEN)
    queue.put("a", event(1))
    await settle()
    queue.reach(Gate.PAUSED)
    queue.cancel()
    queue.reach(Gate.OPEN)
    await settle()
    assert turns == [False, False]
    await queue.close(1)


async def test_sim30_turns_are_cancelled_in_the_order_of_their_begins(clock):
    """Not in the order of addresses in memory: that is another one in each process."""
    keys, ended = [str(number) for number in range(30)], []

    async def process(item):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item.key)
        return DONE

    queue = WorkQueue(process, clock=clock)
    queue.reach(Gate.OPEN)
    for key in keys:
        queue.put(key, event(1))
    await settle()
    queue.reach(Gate.PAUSED)
    queue.cancel()
    await settle()
    assert ended == keys
    await queue.close(1)


@pytest.mark.parametrize("gate", [Gate.PAUSED, Gate.CLOSED])
async def test_tasks_cancelled_before_they_have_started_leave_nothing_behind(make_queue, gate):
    queue = make_queue()
    queue.put("a", event(1))
    queue.cancel()
    queue.reach(gate)
    await queue.finish(10)
    assert summarize(queue)["running"] == 0


async def test_r18_turns_cancelled_by_others_are_repeated(make_queue, process, logged, monkeypatch):
    monkeypatch.setattr("kopf_core.reactor.streams.queueing.FAILURE_DELAY", 0.001)
    queue = make_queue(keeps_events=False)
    process.responses["a"] = [asyncio.CancelledError()]
    queue.put("a", event(1))
    await process.until(lambda: len(process.calls) == 2)
    assert any("was cancelled by others" in message for message in logged())
