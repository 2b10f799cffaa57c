"""Simulated threads: they work when the event loop lets them, and wait in virtual time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kopf_kits.simulation import Incarnation, VirtualThreads, World, live


def test_threads_wait_in_virtual_time_and_work_in_turns():
    world, notes = World(1), []
    threads = VirtualThreads(world.loop)

    def work(name: str, pause: float) -> None:
        for _ in range(3):
            threads.wait(threading.Event(), pause)
            notes.append((name, round(world.loop.time(), 3)))

    async def story() -> None:
        threads.start(lambda: work("slow", 1000), name="slow")
        threads.start(lambda: work("slower", 1600), name="slower")
        await asyncio.sleep(10_000)

    live(world, story())
    assert [name for name, _ in notes] == ["slow", "slower", "slow", "slow", "slower", "slower"]
    assert notes[0][1] == pytest.approx(1000)
    assert notes[-1][1] == pytest.approx(4800)


def test_events_of_the_loop_wake_up_threads():
    world, event, seen = World(1), threading.Event(), []
    threads = VirtualThreads(world.loop)

    async def story() -> None:
        threads.start(lambda: seen.append(threads.wait(event)), name="waiting")
        await asyncio.sleep(100)
        assert not seen
        event.set()
        await asyncio.sleep(2)

    live(world, story())
    assert seen == [True]


@pytest.mark.parametrize("inline", [True, False])
def test_pools_call_functions_and_have_limits(inline):
    world, running, most = World(1), 0, 0
    threads = VirtualThreads(world.loop, inline=inline)

    def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if not inline:
            threads.wait(threading.Event(), 5)
        running -= 1
        return 1 // number

    async def story() -> list[object]:
        pool, loop = threads.make_pool(2, name="pool"), asyncio.get_running_loop()
        calls = [loop.run_in_executor(pool, work, number) for number in (1, 0, 1, 1)]
        return await asyncio.gather(*calls, return_exceptions=True)

    results = live(world, story())
    assert results[0] == 1
    assert isinstance(results[1], ZeroDivisionError)
    assert most == (1 if inline else 2)


def test_threads_of_crashed_processes_go_no_further_and_end_with_the_life():
    world, notes = World(1), []
    threads, incarnation = VirtualThreads(world.loop), Incarnation("one")
    world.incarnations.append(incarnation)

    def work() -> None:
        notes.append("begun")
        try:
            threads.wait(threading.Event(), 10)
            notes.append("gone on")
        finally:
            notes.append("ended")

    async def program() -> None:
        threads.start(work, name="crashed")

    async def story() -> None:
        incarnation.start(program())
        await asyncio.sleep(5)
        incarnation.crash()
        await asyncio.sleep(100)
        assert notes == ["begun"]

    live(world, story())
    assert notes == ["begun", "ended"]
    assert not any(thread.name == "crashed" for thread in threading.enumerate())


def test_nobody_waits_in_the_loop():
    world = World(1)

    async def story() -> None:
        VirtualThreads(world.loop).wait(threading.Event(), 1)

    with pytest.raises(RuntimeError, match="The event loop cannot wait"):
        live(world, story())
