"""When others lead: with the time under control, as it goes on only when everybody sleeps."""

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_core.engines.leasing import elector

DURATION, DEADLINE, PERIOD = 15.0, 10.0, 2.0
SEEDS = range(4)

pause = asyncio.sleep


class Timeline:
    """The time of all candidates. There are never two leaders in it."""

    def __init__(self, clock: FakeClock) -> None:
        self.candidates: list[Any] = []
        self._clock = clock
        self._numbers = itertools.count()
        self._sleepers: list[tuple[float, int, Any, asyncio.Future[None]]] = []
        self._suspended: set[Any] = set()

    @property
    def now(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Instead of that of asyncio."""
        if seconds <= 0:
            return await pause(0)
        task, woken = asyncio.current_task(), asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._numbers), task, woken))
        await woken

    def suspend(self, candidate: Any) -> None:
        self._suspended.add(candidate.task)

    def resume(self, candidate: Any) -> None:
        self._suspended.discard(candidate.task)

    async def until(self, check: Callable[[], object]) -> float:
        """Let the time go until it is so; get when it is."""
        while True:
            for _ in range(50):  # replies come in a few iterations of the loop
                await pause(0)
            assert sum(one.elector.is_leading for one in self.candidates) <= 1
            if check():
                return self.now
            self._wake_next()

    async def pass_time(self, seconds: float) -> None:
        moment = self.now + seconds
        waiting = asyncio.create_task(self.sleep(seconds))
        await self.until(lambda: self.now >= moment)
        await waiting

    def _wake_next(self) -> None:
        skipped = []
        while (sleeper := heapq.heappop(self._sleepers))[2] in self._suspended:
            skipped.append(sleeper)
        for one in skipped:
            heapq.heappush(self._sleepers, one)
        at, _, _, woken = sleeper
        self._clock.advance(max(0.0, at - self.now))
        if not woken.done():
            woken.set_result(None)


@pytest.fixture
def timeline(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Timeline:
    timeline = Timeline(clock)
    monkeypatch.setattr(asyncio, "sleep", timeline.sleep)
    return timeline


@pytest.fixture(params=SEEDS)
def dice(request: Any, monkeypatch: pytest.MonkeyPatch) -> random.Random:
    dice = random.Random(request.param)
    monkeypatch.setattr(elector, "get_chance", lambda: dice)  # the jitter of retries
    return dice


@pytest.fixture
def written(server: Any, timeline: Timeline) -> dict[str, float]:
    """When the lease was written for the last time, by its holders."""
    written: dict[str, float] = {}

    async def note(method: str) -> None:
        if method != "GET":
            written[server.holder] = timeline.now

    server.after = note
    return written


@pytest.fixture
async def trio(timeline, join, dice, written):
    """Three candidates; the first of them leads for some time already."""
    settings = {"duration": DURATION, "renew_deadline": DEADLINE, "retry_period": PERIOD}
    async with join("one", **settings) as one:
        timeline.candidates.append(one)
        await timeline.until(lambda: one.elector.is_leading)
        async with join("two", **settings) as two, join("three", **settings) as three:
            timeline.candidates += [two, three]
            await timeline.pass_time(dice.uniform(0, 60))
            assert one.elector.is_leading
            yield timeline.candidates


def find_next(trio: list[Any]) -> list[Any]:
    return [one for one in trio[1:] if one.elector.is_leading]


async def end(candidate: Any) -> None:
    candidate.task.cancel()
    await asyncio.wait([candidate.task])


async def test_i_the_next_one_leads_within_a_retry_period_after_a_graceful_exit(trio, timeline):
    await end(trio[0])
    await trio[0].elector.release()
    released = timeline.now
    assert await timeline.until(lambda: find_next(trio)) - released <= PERIOD


async def test_i_the_next_one_leads_within_the_duration_and_a_retry_period_after_a_crash(
    trio, timeline, written
):
    await end(trio[0])
    crashed = timeline.now
    led = await timeline.until(lambda: find_next(trio))
    assert led - crashed <= DURATION + PERIOD
    assert led - written["one"] >= DURATION


@pytest.mark.parametrize("seconds", [20, 60])
async def test_i_a_suspended_leader_writes_nothing_when_it_goes_on(
    trio, timeline, server, written, seconds
):
    one = trio[0]
    renewed = written["one"]
    timeline.suspend(one)
    suspended = timeline.now
    await timeline.pass_time(DURATION + PERIOD)
    (successor,) = find_next(trio)
    await timeline.pass_time(max(0.0, seconds - DURATION - PERIOD))
    timeline.resume(one)
    await timeline.until(one.lost.is_set)
    await timeline.pass_time(DURATION)
    assert written["one"] == renewed
    assert find_next(trio) == [successor]
    assert not one.elector.is_leading
    assert server.stored["spec"]["leaseTransitions"] == 1
    assert written[successor.elector.identity] > suspended + seconds


async def test_i_a_leader_cut_off_stops_acting_before_others_act(trio, timeline, written):
    one = trio[0]
    renewed = written["one"]
    one.link.is_cut = True
    lost = await timeline.until(one.lost.is_set)
    assert lost - renewed <= DEADLINE
    led = await timeline.until(lambda: find_next(trio))
    assert DURATION <= led - renewed <= DURATION + PERIOD
