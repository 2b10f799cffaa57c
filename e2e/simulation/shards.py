"""Lives of replicas that share the objects by shards, while everything changes and goes wrong.

A life is made of one seed: when replicas crash, are suspended, exit, or lose their requests, and
when people delete Leases. The objects change all the time. In the end, there is peace.

For each life, this is checked:

* no two replicas work on one object at once;
* nobody works without being sure of it;
* every change is handled, and the load is even, soon after the last fault.

Usage: ``python -m e2e.simulation.shards [--lives 100] [--first 0]``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import kopf
from e2e.simulation.clusters import GROUP, REFUSALS, SandboxCluster
from e2e.simulation.programs import make_options
from kopf_core.engines.sharding.hashing import SHARDS
from kopf_core.intents.registries import OperatorRegistry
from kopf_kits.simulation import Process, Standstill, World, incarnation_var, live

OBJECTS = 12
FAULTS = ("crash", "crash", "suspend", "suspend", "restart", "drop", "refuse", "delete")
DURATION, DEADLINE, PERIOD = 15.0, 10.0, 2.0
PEACE = DURATION + 6 * PERIOD
"""How long (in virtual seconds) it may take until all is in order after the last fault.

It is the time until a replica is found dead, and until the shards have moved.
"""


@dataclass
class Call:
    """One call of a handler."""

    who: str
    name: str
    is_going_on: bool = True


@dataclass
class Journal:
    """Who works on what."""

    clock: Callable[[], float]
    calls: list[Call] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def begin(self, who: str, name: str) -> Call:
        for call in self.calls:
            if call.is_going_on and call.name == name and call.who != who:
                self.problems.append(f"{self.clock():.3f}: {who} and {call.who} work on {name}")
        self.calls.append(call := Call(who, name))
        return call

    def excuse(self, who: str) -> None:
        """It is dead, or is suspended: what it was working on is not worked on anymore."""
        for call in self.calls:
            call.is_going_on &= call.who != who


class Life:
    """One life of several replicas."""

    def __init__(self, seed: str, *, replicas: int = 3) -> None:
        self.world = World(seed, shuffled=True)
        self.cluster = SandboxCluster(self.world, has_status=False)
        self.journal = Journal(self.world.loop.time)
        self._chance = random.Random(f"{seed}:plan")
        self._resumed = 0.0
        self._replicas: dict[int, Process] = {}
        self._places = range(replicas)
        self._wanted = {f"obj-{number}": 0 for number in range(OBJECTS)}
        self.problems = self.journal.problems
        self.faults: Counter[str] = Counter()

    def run(self) -> list[str]:
        """Live it; get what was wrong."""
        try:
            live(self.world, self._live())
        except Standstill as e:
            self.problems.append(f"Standstill: {e}")
        return self.problems

    async def _live(self) -> None:
        async with self.cluster:
            for name in self._wanted:
                await self.cluster.create(name, {"n": 0})
            keepers = [asyncio.ensure_future(self._keep(place)) for place in self._places]
            changing = asyncio.ensure_future(self._change())
            for _ in range(self._chance.randint(1, 5)):
                await asyncio.sleep(self._chance.random() * self._chance.choice([1, 5, 30]))
                await self._go_wrong(self._chance.choice(FAULTS))
            self.cluster.recover()
            self.world.tell("peace")
            await asyncio.sleep(max(0.0, self._resumed - self.world.loop.time()) + PEACE)
            changing.cancel()
            await asyncio.wait([changing])
            await asyncio.sleep(PERIOD)
            await self._judge()
            for task in keepers:
                task.cancel()
            for process in self._replicas.values():
                await process.stop()

    async def _keep(self, place: int) -> None:
        """Start the replica again whenever it has exited or crashed."""
        await asyncio.sleep(self._chance.random() * self._chance.choice([0, 1, 10]))
        while True:
            make = make_options(Program(self.journal), self.cluster.url, SETTINGS)
            process = self._replicas[place] = self.world.operate(make)
            await process.wait()
            self.journal.excuse(process.incarnation.name)
            await asyncio.sleep(self._chance.random() * 2)

    async def _change(self) -> None:
        while True:
            name = self._chance.choice([*self._wanted])
            self._wanted[name] += 1
            await self.cluster.patch("kexes", name, {"spec": {"n": self._wanted[name]}})
            await asyncio.sleep(self._chance.random())

    async def _go_wrong(self, what: str) -> None:
        alive = [one for one in self._replicas.values() if one.is_alive]
        if not alive:
            return
        process = self._chance.choice(alive)
        name = process.incarnation.name
        self.faults[what] += 1
        self.world.tell(f"fault: {what} {name}")
        match what:
            case "crash":
                process.crash()
            case "suspend":
                seconds = self._chance.random() * self._chance.choice([1, 10, 60])
                self._resumed = max(self._resumed, self.world.loop.time() + seconds)
                process.suspend(seconds)
                self.journal.excuse(name)
            case "restart":
                await process.stop()
            case "drop":
                self.world.loop.network.lose_replies(self._chance.randint(1, 10))
            case "refuse":
                faults = self.cluster._sandbox.faults
                with faults.fail(503, path="*/leases*", method=None):
                    await asyncio.sleep(self._chance.random() * 40)
            case "delete":
                leases = [one["metadata"]["name"] for one in await self.cluster.list("leases")]
                if leases:
                    name = self._chance.choice(["sim", *leases])
                    self.world.tell(f"deleted: {name}")
                    with contextlib.suppress(*REFUSALS):
                        await self.cluster.delete(name, "leases")

    async def _judge(self) -> None:
        for obj in await self.cluster.list("kexes"):
            name, annotations = obj["metadata"]["name"], obj["metadata"].get("annotations", {})
            handled = json.loads(annotations.get("sim.kopf.dev/last-handled-configuration", "{}"))
            if handled.get("spec") != obj["spec"]:
                self.problems.append(f"{name} is not handled: {handled} instead of {obj['spec']}")
        loads = [len(process.operator.essentials.share.shards) for process in self._find_working()]
        if len(loads) != len(self._places) or sum(loads) != SHARDS or max(loads) - min(loads) > 1:
            self.problems.append(f"The load is uneven: {loads}")

    def _find_working(self) -> Iterator[Any]:
        for process in self._replicas.values():
            if process.is_alive and process.operator is not None:
                yield process


SETTINGS = {
    "sharding.name": "sim",
    "sharding.namespace": "default",
    "sharding.duration": DURATION,
    "sharding.renew_deadline": DEADLINE,
    "sharding.retry_period": PERIOD,
}


class Program:
    """The handlers of one replica."""

    def __init__(self, journal: Journal) -> None:
        self.registry = OperatorRegistry()

        @kopf.on.create(GROUP, "v1", "kexes", registry=self.registry)
        @kopf.on.update(GROUP, "v1", "kexes", registry=self.registry)
        async def fn(name: str, **_: Any) -> None:
            with _noted(journal, name):
                await asyncio.sleep(random.random() * 0.5)

        @kopf.daemon(GROUP, "v1", "kexes", registry=self.registry)
        async def daemon(name: str, **_: Any) -> None:
            with _noted(journal, name):
                await asyncio.Event().wait()


@contextlib.contextmanager
def _noted(journal: Journal, name: str) -> Iterator[None]:
    incarnation = incarnation_var.get()
    assert incarnation is not None
    call = journal.begin(incarnation.name, name)
    try:
        yield
    finally:
        call.is_going_on = False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lives", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    faults: Counter[str] = Counter()
    failed = 0
    for number in range(args.first, args.first + args.lives):
        life = Life(f"shards-{number}")
        if problems := life.run():
            failed += 1
            print(f"- shards-{number}: {'; '.join(problems[:5])}")
        faults += life.faults
    print(f"{args.lives} lives, {failed} failed; faults: {dict(faults)}")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
