"""A busy object among many others, in virtual time: nobody starves, nothing piles up."""

import asyncio
from typing import Any

from virtual_time import VirtualTime

from kopf_core.reactor.streams.places import Gate
from kopf_core.reactor.streams.queueing import WorkQueue
from kopf_core.reactor.streams.work import DONE, TurnResult, WorkItem

DURATION = 20  # seconds
HOT_RATE = 500  # changes a second
OTHERS = 200  # objects, each changed once a second
TURN = 0.1  # seconds for the hot object
QUICK = 0.001  # seconds for others
BUSY = 0.0045  # the same when they need nine tenths of the only worker


class Load:
    """The changes, and how long they had to wait for their turns."""

    def __init__(self, clock: VirtualTime, *, keeps_events: bool, turn: float = QUICK) -> None:
        self.clock = clock
        self.turn = turn
        self.hot_turns = 0
        self.changed: dict[str, tuple[int, float]] = {}
        self.handled: dict[str, int] = {}
        self.longest = 0.0
        self.largest = 0
        self.queue = WorkQueue(
            self.process,
            limit=1,
            clock=clock,
            keeps_events=keeps_events,  # type: ignore[arg-type]
        )

    async def process(self, item: WorkItem) -> TurnResult:
        key = str(item.key)
        self.largest = max(self.largest, len(item.events))
        version = int(item.events[-1]["object"]["metadata"]["resourceVersion"])
        item.events.clear()
        await asyncio.sleep(TURN if key == "hot" else self.turn)
        self.hot_turns += key == "hot"
        self.handled[key] = version
        if key != "hot":
            self.longest = max(self.longest, self.clock.monotonic() - self.changed[key][1])
        return DONE

    def change(self, key: str, version: int) -> None:
        body: Any = {"metadata": {"resourceVersion": str(version)}}
        self.changed[key] = version, self.clock.monotonic()
        self.queue.put(key, {"type": "MODIFIED", "object": body})

    async def produce(self, key: str, rate: float, offset: float) -> None:
        await asyncio.sleep(offset)
        for version in range(int(DURATION * rate)):
            self.change(key, version)
            await asyncio.sleep(1 / rate)

    async def run(self) -> None:
        self.queue.reach(Gate.OPEN)
        await asyncio.gather(
            self.produce("hot", HOT_RATE, 0),
            *(self.produce(f"other{n}", 1, n / OTHERS) for n in range(OTHERS)),
        )
        await asyncio.sleep(10)
        await self.queue.close(1)


async def test_r8_d14_a_hot_object_starves_nobody_and_is_handled_in_its_final_state() -> None:
    load = Load(VirtualTime(asyncio.get_running_loop()), keeps_events=False)
    await load.run()
    assert load.longest < 1
    assert load.largest == 1
    assert load.handled == {key: version for key, (version, _) in load.changed.items()}


async def test_r8_d14_also_when_every_event_is_kept() -> None:
    """The events are kept until the next turn only; the turns are as fair as without them."""
    load = Load(VirtualTime(asyncio.get_running_loop()), keeps_events=True)
    await load.run()
    assert load.longest < 1
    assert load.largest < HOT_RATE
    assert load.handled == {key: version for key, (version, _) in load.changed.items()}


async def test_r8_d14_nobody_waits_for_long_even_if_the_worker_is_nearly_always_busy() -> None:
    """Those who come again and again let the others go first; but they have their turns, too."""
    load = Load(VirtualTime(asyncio.get_running_loop()), keeps_events=False, turn=BUSY)
    await load.run()
    assert load.longest < 0.5
    assert load.hot_turns >= DURATION / 5
    assert load.handled == {key: version for key, (version, _) in load.changed.items()}


async def test_r8_the_restless_have_their_turns_though_others_never_end() -> None:
    """The others need more than there is, so there is never a moment when nobody waits."""
    load = Load(VirtualTime(asyncio.get_running_loop()), keeps_events=False, turn=2 / OTHERS)
    await load.run()
    assert load.hot_turns >= DURATION / 5
