"""Lives of replicas that share the objects by shards, while everything changes and goes wrong.

A life is made of one seed: when replicas crash, are suspended, exit, or lose their requests, and
when people delete Leases. The objects change all the time. In the end, there is peace.

For each life, this is checked:

* no two replicas work on one object at once, and no two have one shard at once;
* nobody works without being sure of it;
* each shard has a replica soon after the last fault: when a replica is found dead, at most;
* every change is handled, and the load is even, soon after that.

People delete one Lease at a time. If they delete the Lease of a suspended replica and the common
one, there is no trace of that replica, and the others do not wait for it.

Usage: ``python -m e2e.simulation.shards [--lives 100] [--seconds 600] [--first 0]``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import logging
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import kopf
from e2e.simulation.clusters import GROUP, REFUSALS, SandboxCluster
from e2e.simulation.programs import make_options
from kopf_core.engines.sharding.hashing import SHARDS
from kopf_core.intents.registries import OperatorRegistry
from kopf_kits.simulation import Process, Standstill, World, incarnation_var, live

OBJECTS = 12
FAULTS = ("crash", "crash", "suspend", "suspend", "restart", "relay", "drop", "refuse", "delete")
DURATION, DEADLINE, PERIOD = 15.0, 10.0, 2.0
PEACE = DURATION + 6 * PERIOD
"""How long (in virtual seconds) it may take until all is in order after the last fault.

It is the time until a replica is found dead, and until the shards have moved.
"""

ORPHANED = DURATION
"""How long a shard may have no replica after the last fault, when all replicas run again.

A replica is found dead 13 seconds after others have noticed its last renewal. If their streams were
broken, they open them again at most a second and a half after the fault.
"""

ADOPTED = DURATION + 5 * PERIOD
"""In how many seconds after the last fault all shards have their replicas at once, even if some
replicas come only then.
"""

LENGTHS = (0.5, 0.5, 3.0)
"""How long (in virtual seconds) the handlers take, at most: sometimes, longer than an exit."""

CALM = 4.0
"""How much rarer the objects change in peace, when they only show who handles them."""

SAMPLED = 0.1
"""How often the owners of the shards are looked at."""


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
        self._deleted = -DURATION
        self.orphaned = 0.0
        """For how long a shard has had no replica after the last fault, at most."""
        self._replicas: dict[int, Process] = {}
        self._places = range(replicas)
        self._pace = 1.0
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
            looking = asyncio.ensure_future(self._look())
            for _ in range(self._chance.randint(1, 5)):
                await asyncio.sleep(self._chance.random() * self._chance.choice([1, 5, 30]))
                await self._go_wrong(self._chance.choice(FAULTS))
            self.cluster.recover()
            self.world.tell("peace")
            self._pace = CALM
            await asyncio.sleep(max(0.0, self._resumed - self.world.loop.time()))
            last = self.world.loop.time()
            await self._gather(last + PEACE)
            await self._adopt(last, self.world.loop.time() + PEACE)
            changing.cancel()
            looking.cancel()
            await asyncio.wait([changing, looking])
            await asyncio.sleep(PERIOD + 3 * max(LENGTHS))
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
            await asyncio.sleep(self._chance.random() * self._pace)

    async def _look(self) -> None:
        """Look all the time that no two replicas have one shard."""
        while True:
            await asyncio.sleep(SAMPLED)
            shares = [get_share(process) for process in self._find_acting()]
            if len(set().union(*shares)) < sum(map(len, shares)):
                owned = Counter(chain(*shares))
                doubly = [shard for shard, count in owned.items() if count > 1]
                self.problems.append(f"{self.world.loop.time():.3f}: two have shards {doubly}")

    async def _gather(self, until: float) -> None:
        """Wait until all replicas run. Each that comes can become the coordinator."""
        while len([*self._find_working()]) < len(self._places):
            if self.world.loop.time() > until:
                self.problems.append("Some replicas do not run in peace")
                return
            await asyncio.sleep(SAMPLED)

    async def _adopt(self, last: float, until: float) -> None:
        """In peace, look for how long any shard has no replica, one after another."""
        adopted = until
        since = dict.fromkeys(range(SHARDS), self.world.loop.time())
        while (now := self.world.loop.time()) < until:
            for process in self._find_acting():
                since.update(dict.fromkeys([*get_share(process), *get_left_shards(process)], now))
            if all(held == now for held in since.values()):
                adopted = min(adopted, now)
            self.orphaned = max(self.orphaned, now - min(since.values()))
            await asyncio.sleep(SAMPLED)
        if adopted - last > ADOPTED:
            self.problems.append(f"Shards have no replica {adopted - last:.1f} s after the fault")
        if self.orphaned > ORPHANED:
            self.problems.append(f"A shard has had no replica for {self.orphaned:.1f} s in peace")

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
            case "relay":  # one comes back, and gets a part, while another one exits
                process.crash()
                await asyncio.sleep(self._chance.random() * 3)
                if others := [one for one in alive if one is not process and one.is_alive]:
                    await self._chance.choice(others).stop()
            case "drop":
                self.world.loop.network.lose_replies(self._chance.randint(1, 10))
            case "refuse":
                faults = self.cluster._sandbox.faults
                with faults.fail(503, path="*/leases*", method=None):
                    await asyncio.sleep(self._chance.random() * 40)
            case "delete":
                leases = [one["metadata"]["name"] for one in await self.cluster.list("leases")]
                now = self.world.loop.time()
                if leases and now >= self._deleted + DURATION:
                    self._deleted = now
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
        loads = [len(get_share(process)) for process in self._find_working()]
        if len(loads) != len(self._places) or sum(loads) != SHARDS or max(loads) - min(loads) > 1:
            self.problems.append(f"The load is uneven: {loads}")

    def _find_acting(self) -> Iterator[Any]:
        """Those who can begin or send anything now."""
        for process in self._find_working():
            fence = process.operator.essentials.client.fence
            if not process.incarnation.is_suspended and fence is not None and fence.is_open:
                yield process

    def _find_working(self) -> Iterator[Any]:
        for process in self._replicas.values():
            if process.is_alive and process.operator is not None:
                yield process


def get_share(process: Any) -> Collection[int]:
    """The shards of the replica."""
    share = process.operator.essentials.share
    return () if share is None else share.shards


def get_left_shards(process: Any) -> Iterator[int]:
    """The shards that the replica gives away, while something still works there."""
    return chain(*process.operator._sharding._leaving)


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
                await asyncio.sleep(random.random() * random.choice(LENGTHS))

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


class Lived(NamedTuple):
    """What has come of one life."""

    seed: str
    problems: list[str]
    faults: Counter[str]
    orphaned: float


def prepare() -> None:
    """Keep the imported modules out of the collections of garbage."""
    live_by_seed("warm-up")
    gc.collect()
    gc.freeze()


def live_by_seed(seed: str) -> Lived:
    logging.disable()  # the faults are expected, and there are thousands of them
    life = Life(seed)
    return Lived(seed, life.run(), life.faults, life.orphaned)


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of strings have the order of their hashes
        command = [sys.executable, "-m", "e2e.simulation.shards", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lives", type=int, default=100, help="how many, at most")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long, at most")
    parser.add_argument("--first", type=int, default=0, help="the number of the first life")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    args = parser.parse_args()
    seeds = (f"shards-{number}" for number in range(args.first, args.first + args.lives))
    faults: Counter[str] = Counter()
    failed, orphaned, until = 0, list[float](), time.monotonic() + args.seconds
    with multiprocessing.get_context("fork").Pool(args.processes, prepare) as pool:
        for lived in pool.imap(live_by_seed, seeds):
            faults += lived.faults
            orphaned.append(lived.orphaned)
            if lived.problems:
                failed += 1
                print(f"- {lived.seed}: {'; '.join(lived.problems[:5])}", flush=True)
            if time.monotonic() > until:
                break
    print(f"{len(orphaned)} lives of replicas, {failed} failed; faults: {dict(faults)}")
    late = sum(seconds > DURATION + 2 * SAMPLED for seconds in orphaned)
    print(
        f"The longest time of a shard without a replica after the last fault: {max(orphaned):.1f} s"
    )
    print(f"It was longer than the duration of the lease ({DURATION:g} s) in {late} of these lives")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
