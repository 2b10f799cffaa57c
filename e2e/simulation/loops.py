"""Lives of operators with a mistake: their own changes call their handlers again, for ever.

A life is made of one seed: which handler loops, what other people change, when the operator crashes
or is suspended, and how bad the network is. Then there is peace for an hour.

For each life, this is checked:

* changes by others are handled soon, however long the rounds of the loop wait;
* the delays of the rounds grow in the hour, and each run warns once of each object;
* the metric counts exactly the rounds that delay the next one;
* a deleted object is released soon.

Usage: ``python -m e2e.simulation.loops [--lives 100] [--first 0]``.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import kopf
from e2e.simulation.clusters import GROUP, SandboxCluster
from e2e.simulation.logs import Log
from e2e.simulation.programs import make_options
from kopf_core.actions.instruments import Instruments
from kopf_core.engines.records.holds import FIRST_DELAY, FREE_ROUNDS, MAX_DELAY
from kopf_core.intents.registries import OperatorRegistry
from kopf_kits.simulation import Process, Standstill, World, live

KEXES = (GROUP, "v1", "kexes")
HOUR = 3600.0
SOON = 15.0
"""How long (in virtual seconds) a change by others may take in the worst of networks."""

LATE = 1.0
"""By how much (in virtual seconds) a round may come later than its delay ends."""

BIT = 1e-3
"""By how much (in virtual seconds) it may come sooner: the delay begins a bit before its patch."""

FAULTS = ("crash", "restart", "suspend", "drop-late", "nothing", "nothing")


@dataclass(frozen=True)
class Call:
    """One call of the handler that loops."""

    at: float
    name: str
    x: int
    """The number that other people have set."""


class Rounds(Instruments):
    """Counts the rounds of one run, as the metrics do."""

    def __init__(self) -> None:
        self.count = 0

    def on_round(self, handler: Any) -> None:
        self.count += 1


class Program:
    """The handlers of one operator: one of them loops."""

    def __init__(self, mistake: str, note: Callable[[str, int], None]) -> None:
        self.registry = OperatorRegistry()
        self._note = note
        kopf.on.delete(*KEXES, id="gone", registry=self.registry)(lambda **_: None)
        getattr(self, f"_{mistake}")()

    def _changes(self) -> None:
        """The spec is changed for each change of the spec."""

        @kopf.on.create(*KEXES, id="fn", registry=self.registry)
        @kopf.on.update(*KEXES, id="fn", registry=self.registry)
        async def fn(name: str, spec: Any, patch: kopf.Patch, **_: Any) -> None:
            self._note(name, spec["x"])
            patch.spec["n"] = spec.get("n", 0) + 1

    def _status(self) -> None:
        """A field of the status is changed for each change of that field."""

        @kopf.on.field(*KEXES, field="status.n", id="fn", registry=self.registry)
        @kopf.on.field(*KEXES, field="spec.x", id="fn", registry=self.registry)
        async def fn(name: str, spec: Any, status: Any, patch: kopf.Patch, **_: Any) -> None:
            self._note(name, spec["x"])
            patch.status["n"] = status.get("n", 0) + 1

    def _events(self) -> None:
        """The status is changed for each event."""

        @kopf.on.event(*KEXES, id="fn", registry=self.registry)
        async def fn(name: str, spec: Any, status: Any, patch: kopf.Patch, **_: Any) -> None:
            self._note(name, spec["x"])
            patch.status["n"] = status.get("n", 0) + 1

    def _passes(self) -> None:
        """The spec is changed in each pass of a reconciler."""

        @kopf.reconcile(*KEXES, id="fn", registry=self.registry, owns=["configmaps"])
        async def fn(name: str, spec: Any, patch: kopf.Patch, **_: Any) -> None:
            self._note(name, spec["x"])
            patch.spec["n"] = spec.get("n", 0) + 1


MISTAKES = ("changes", "status", "events", "passes")


class Life:
    """One life of an operator that loops."""

    def __init__(self, seed: str, mistake: str | None = None) -> None:
        self.world = World(seed)
        self._chance = random.Random(f"{seed}:plan")
        self.mistake = mistake or self._chance.choice(MISTAKES)
        self.cluster = SandboxCluster(self.world, has_status=self._chance.random() < 0.5)
        self.calls: list[Call] = []
        self.problems: list[str] = []
        self.faults: Counter[str] = Counter()
        self.log = Log(self.world)
        self._x = 0
        self._names = [f"obj{number}" for number in range(self._chance.choice([1, 2]))]
        self._process: Process
        self._logged = 0
        """The number of lines in the log when the latest run began."""

    def run(self) -> list[str]:
        """Live it; get what was wrong."""
        try:
            with self.log:
                live(self.world, self._live())
        except Standstill as e:
            self.problems.append(f"Standstill: {e}")
        return self.problems

    async def _live(self) -> None:
        weather = self.world.weather
        weather.latency = self._chance.choice([0.0005, 0.002, 0.02])
        weather.slow = self._chance.choice([0.0, 0.1, 0.5])
        async with self.cluster:
            keeper = asyncio.ensure_future(self._keep())
            for name in self._names:
                await self.cluster.create(name, {"x": self._x})
            for _ in range(self._chance.randint(1, 4)):
                await asyncio.sleep(self._chance.random() * self._chance.choice([1, 30, 600]))
                await self._go_wrong(self._chance.choice(FAULTS))
                await self._edit()
            weather.calm_down()
            self.cluster.recover()
            self.world.tell("peace")
            await asyncio.sleep(8 * SOON)  # a crashed or suspended operator works again by then
            await self._judge_hour()
            await self._judge_end()
            keeper.cancel()
            await self._process.stop()

    async def _keep(self) -> None:
        """Start the operator again whenever it has exited or crashed."""
        while True:
            self._logged = len(self.log.lines)
            program = Program(self.mistake, self._note)
            self._process = self.world.operate(make_options(program, self.cluster.url, {}))
            await self._process.wait()
            await asyncio.sleep(self._chance.random() * 2)

    async def _edit(self) -> None:
        self._x += 1
        for name in self._names:
            await self.cluster.patch("kexes", name, {"spec": {"x": self._x}})

    async def _go_wrong(self, what: str) -> None:
        self.faults[what] += 1
        self.world.tell(f"fault: {what}")
        match what:
            case "crash":
                self._process.crash()
            case "suspend":
                self._process.suspend(self._chance.random() * self._chance.choice([1, 100]))
            case "restart":
                await self._process.stop()
            case "drop-late":
                self.world.loop.network.lose_replies(self._chance.randint(1, 5))

    # The judgement.

    async def _judge_hour(self) -> None:
        """Nothing happens for an hour but the loop."""
        rounds = Rounds()
        self._process.operator.essentials.plug_in([rounds])
        await self._judge_edit()
        await asyncio.sleep(HOUR)
        delayed = 0
        for name in self._names:
            times = [call.at for call in self.calls if call.name == name and call.x == self._x]
            quick = find_first_delay(times)
            delayed += len(times) - (quick or 0)
            if quick is None:
                self.problems.append(f"{name}: the delays do not grow as they must: {times}")
        if rounds.count != delayed:
            self.problems.append(f"the metric counts {rounds.count} rounds instead of {delayed}")
        lines = self.log.lines[self._logged :]
        if (count := sum("ever more rare" in line for line in lines)) != len(self._names):
            self.problems.append(f"{count} warnings of {len(self._names)} objects: {lines}")

    async def _judge_edit(self) -> None:
        """A change by others never waits for the loop."""
        await self._edit()
        await asyncio.sleep(SOON)
        for name in {*self._names} - {call.name for call in self.calls if call.x == self._x}:
            self.problems.append(f"{name}: the change to {self._x} waits for the loop")

    async def _judge_end(self) -> None:
        """Neither does a deletion."""
        await self._judge_edit()
        for name in self._names:
            await self.cluster.delete(name)
        await asyncio.sleep(SOON)
        for obj in await self.cluster.list("kexes"):
            self.problems.append(f"{obj['metadata']['name']}: its deletion waits for the loop")

    def _note(self, name: str, x: int) -> None:
        self.calls.append(Call(self.world.loop.time(), name, x))


def find_first_delay(times: Sequence[float]) -> int | None:
    """After which of the calls the delays begin; ``None`` if they do not grow as they must.

    The first of the times is that of a change by others. The echoes that the loop was waiting for
    can be handled together with that change: no rounds.

    A round is a turn, and a turn can have several calls of a handler of events. The turn with the
    change by others can also handle an echo that was held back. Then it sends two patches, and the
    next turn handles their echoes, and the echo of its own early patch: two calls more than rounds.
    """
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    for quick in range(FREE_ROUNDS - 1, FREE_ROUNDS + 3):
        expected = [0.0] * quick + [FIRST_DELAY * 2.0**number for number in range(len(gaps))]
        if len(gaps) > quick and all(
            min(delay, MAX_DELAY) - BIT <= gap <= min(delay, MAX_DELAY) + LATE
            for gap, delay in zip(gaps, expected, strict=False)
        ):
            return quick
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lives", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    faults: Counter[str] = Counter()
    failed = 0
    for number in range(args.first, args.first + args.lives):
        life = Life(f"loops-{number}")
        if problems := life.run():
            failed += 1
            print(f"- loops-{number}: {life.mistake}: {'; '.join(problems[:5])}", flush=True)
        faults += life.faults
    print(f"{args.lives} lives, {failed} failed; faults: {dict(faults)}")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
