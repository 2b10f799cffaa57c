"""One life by a plan: a cluster, operators, other people, faults; then peace, and the judgement."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from e2e.simulation.clusters import CLUSTERS, Cluster, is_write
from e2e.simulation.logs import Log
from e2e.simulation.oracles import SETTLED, TOUCHED, Evidence, Memory, judge
from e2e.simulation.people import People
from e2e.simulation.plans import Event, Plan
from e2e.simulation.programs import Notebook, Program, make_options, put_settings
from kopf_core.reactor.life.operator import Operator
from kopf_core.reactor.object import reconciliation
from kopf_core.reactor.object.deciding import Rules
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.streams.work import LAST_MOMENT
from kopf_kits.simulation import Process, Standstill, World, live

SETTLING = 400.0
"""How long (in virtual seconds) the world may take to settle after the last fault."""

UNREACHABLE = frozenset({"drop", "drop-late", "fail", "absent", "lose-reply", "cut-reply"})
"""The faults by which the API can be out of reach for the time of an exit, which is bounded."""

EXITS = frozenset({"restart", "abort", "pause", "pause-exit"})
"""The faults in which the API answers as usual."""

LOST = "is lost: this operator does nothing now"
"""What an operator says when it loses its lease."""

STARTING = 10.0
"""How long (in virtual seconds) it can take until a new process has its first list."""

QUIET = 65.0
"""How long (in virtual seconds) nothing may be written until the world counts as settled.

It is longer than the longest delay before a retry, and than a suspension with what follows it.
"""

RARE = {"kopf_core.reactor.life.watchdog:PERIOD": 100.0}
"""The constants of what works all the time, but finds nothing: here, nobody can block the loop."""

PEACE = (25.0, 25.0, 25.0, 75.0)
"""How long (in virtual seconds) nothing may be written in the settled world: one of these."""


@dataclass
class Result:
    """What has come of one life."""

    plan: Plan
    problems: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    steps: int = 0
    sweep: int = 0
    """How many steps the first operator made, in all its runs, until the world was settled."""

    crashes: int = 0
    faults: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    """What has happened, and how many times: faults, actions of people, calls of handlers."""


class Life:
    """The course of one life."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan.seed, shuffled=plan.shuffled)
        make = CLUSTERS[plan.cluster]
        self.cluster: Cluster = make(self.world, has_status=plan.has_status)
        self.notebook = Notebook(self.world.loop.time, self._find_leader, self.cluster.exists)
        self.result = Result(plan)
        self.operators: dict[int, Process] = {}
        self.runs: dict[int, list[Process]] = {}
        self.kills = 0
        self.pauses: list[tuple[float, float]] = []
        self.decisions: Counter[str] = Counter()
        """Which rows of the table of decisions were reached, and in which states of objects."""

        self.log = Log(self.world)
        self._values = random.Random(f"{plan.seed}:values")
        self._calm_since = self._changed_at = self._started_at = 0.0
        self._is_peace = False
        self.people = People(self.cluster, self.world.tell, self.world.loop.time)

    def run(self) -> Result:
        result, world = self.result, self.world
        try:
            with self.log, _constants(RARE | self.plan.constants), _decisions(self.decisions):
                live(world, self._live())
        except Standstill as e:
            result.problems.append(f"O4: {e}")
        result.story = world.story
        result.steps = world.steps
        result.crashes = self.kills
        result.faults = len(self.plan.faults) + world.loop.network.breaks
        result.reached = self._count()
        result.requests = [f"{e.method} {e.path} {e.status}" for e in self.cluster.requests]
        return result

    def _count(self) -> Counter[str]:
        reached = Counter({f"people: {what}": n for what, n in self.people.done.items()})
        reached.update(f"fault: {event.what}" for event in self.plan.faults)
        reached.update(f"constant: {name}" for name in self.plan.constants)
        reached += self.decisions
        reached["fault: weather"] = self.world.loop.network.breaks
        for note in self.notebook.notes:
            reached[f"call: {note.handler} {note.reason} {note.point} {note.outcome}"] += 1
        return +reached

    async def _live(self) -> None:
        for name, value in self.plan.weather.items():
            setattr(self.world.weather, name, value)
        async with self.cluster:
            for event in self.plan.objects:
                if event.at == 0:
                    await self.people.act(event)
            keepers = [
                asyncio.ensure_future(
                    self._keep_running(index, self.plan.crash_at if not index else None)
                )
                for index in range(self.plan.replicas)
            ]
            late = [event for event in self.plan.objects if event.at > 0]
            tasks = [asyncio.ensure_future(self._go_wrong())]
            tasks += [asyncio.ensure_future(self._act([*late, *self.plan.actions]))]
            await asyncio.gather(*tasks)
            self.world.weather.calm_down()
            self.cluster.recover()
            self.world.tell("peace")
            self._calm_down()
            await self.people.leave()
            quiet = await self._settle()
            problems = judge(await self._collect(quiet), SETTLED)
            await self._touch()
            quiet = await self._settle()
            self.result.sweep = sum(one.incarnation.steps for one in self.runs[0])
            self._calm_since = self.world.loop.time()
            for process in self.processes:
                process.incarnation.crash_at = None
            await asyncio.sleep(self._values.choice(PEACE))
            problems += judge(await self._collect(quiet))
            if not self._has("travel"):
                problems += await self.people.check()
            self.result.problems = [*dict.fromkeys(problems)]
            for keeper in keepers:
                keeper.cancel()
            await self._stop()

    # The operators, and who starts them again.

    async def _keep_running(self, index: int, crash_at: int | None) -> None:
        """Be the cluster that starts a replica again whenever it has exited or crashed."""
        while True:
            process = self._start(crash_at)
            self.operators[index] = process
            self.runs.setdefault(index, []).append(process)
            await process.wait()
            self.kills += process.incarnation.is_dead
            await asyncio.sleep(self._values.random() * 2)
            self._changed_at = self.world.loop.time()
            crash_at = None if crash_at is None else crash_at - process.incarnation.steps

    def _start(self, crash_at: int | None) -> Process:
        program = Program(self.plan.features, self.notebook, self._values)
        values = dict(self.plan.settings)
        if self.plan.replicas > 1:
            values |= {"leasing.name": "sim", "leasing.namespace": "default"}
        if self._is_peace:
            values |= self.plan.calm
        self._started_at = self.world.loop.time()
        self.cluster.read_by_quorum()
        make = make_options(program, self.cluster.url, values)
        return self.world.operate(make, crash_at=crash_at, inline=self.plan.inline)

    def _find_leader(self) -> str:
        """The name of the operator that holds the lease; empty if nobody does."""
        for process in self.world.processes if (holder := self.cluster.holder) else ():
            if process.operator is not None and process.operator.leadership.identity == holder:
                return process.incarnation.name
        return holder

    def _pick(self, event: Event) -> Process:
        return self.operators[int(event.name or 0) % self.plan.replicas]

    async def _stop(self) -> None:
        for process in self.processes:
            await process.stop()
        self.world.tell("the operators are stopped")

    def _calm_down(self) -> None:
        """From now on, the operators do less of what they do all the time."""
        self._is_peace = True
        for process in self.processes:
            if process.operator is not None:
                put_settings(process.operator.essentials.settings, self.plan.calm)

    # Other people.

    @property
    def processes(self) -> list[Process]:
        return list(self.operators.values())

    async def _act(self, events: list[Event]) -> None:
        for event in sorted(events, key=lambda event: event.at):
            await asyncio.sleep(max(0.0, event.at - self.world.loop.time()))
            await self.people.act(event)

    # Faults.

    async def _go_wrong(self) -> None:
        for event in self.plan.faults:
            await asyncio.sleep(max(0.0, event.at - self.world.loop.time()))
            self.world.tell(f"fault: {event.what} {event.number} {event.seconds:.3f}")
            own = getattr(self, f"_fault_{event.what.replace('-', '_')}", None)
            await (self.cluster.go_wrong if own is None else own)(event)

    async def _fault_crash(self, event: Event) -> None:
        incarnation = self._pick(event).incarnation
        incarnation.crash_at = incarnation.steps + self._values.choice([1, 5, 20, 100])

    async def _fault_stale_lists(self, event: Event) -> None:
        """Lists are from the past, but not the first ones of a new process: it could not know."""
        if self.world.loop.time() > self._started_at + STARTING:
            await self.cluster.go_wrong(event)

    async def _fault_restart(self, event: Event) -> None:
        await self._pick(event).stop()

    async def _fault_abort(self, event: Event) -> None:
        """Two signals, one soon after the other."""
        process = self._pick(event)
        if (operator := process.operator) is not None:
            process.incarnation.start(_call(operator.stop))
            await asyncio.sleep(event.seconds)
            process.incarnation.start(_call(operator.abort))

    async def _fault_suspend(self, event: Event) -> None:
        self._pick(event).suspend(event.seconds * (2 if self.plan.replicas > 1 else 1))

    async def _fault_pause(self, event: Event) -> None:
        process, is_cold = self._pick(event), event.number > 1
        if (operator := process.operator) is not None:
            shut = asyncio.Event()
            process.incarnation.start(_pause(operator, shut, event.seconds, is_cold=is_cold))
            until = self.world.loop.time() + event.seconds
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(shut.wait(), event.seconds)
                since = self.world.loop.time() + LAST_MOMENT + self._longest_way
                await asyncio.sleep(until - self.world.loop.time())
                if process.is_alive:
                    self.pauses.append((since, until))

    async def _fault_pause_exit(self, event: Event) -> None:
        """An exit begins in a pause, which is over before the exit is."""
        process = self._pick(event)
        if (operator := process.operator) is not None:
            process.incarnation.start(operator.pause("test"))
            await asyncio.sleep(event.seconds)
            process.incarnation.start(_call(operator.stop))
            await asyncio.sleep(event.seconds / 2)
            process.incarnation.start(_call(partial(operator.resume, "test")))

    async def _fault_clock(self, event: Event) -> None:
        """The wall clock of the process jumps; it is corrected some time later, or never."""
        clock = self._pick(event).clock
        clock.skew += event.seconds * 5 * (1 if event.number > 1 else -1)
        await asyncio.sleep(event.seconds)
        if event.number != 1:
            clock.skew = 0.0

    async def _fault_drop_late(self, event: Event) -> None:
        """The replies of the next requests are lost after they are executed."""
        self.world.loop.network.lose_replies(event.number)

    # The end.

    async def _touch(self) -> None:
        """The operator must be alive: it handles the last changes."""
        for obj in await self.cluster.list("kexes"):
            event = Event(0, "edit", obj["metadata"]["name"], TOUCHED + obj["spec"]["x"])
            await self.people.act(event)

    async def _settle(self) -> bool:
        """Wait until nothing is written, and no operator starts, for a while.

        Get whether it has come to that.
        """
        since = self.world.loop.time()
        until = since + SETTLING
        while (now := self.world.loop.time()) < until:
            left = max(since, self.cluster.last_write, self._changed_at) + QUIET - now
            if left <= 0 and self._is_someone_alive():
                return True
            await asyncio.sleep(max(left, 1.0))
        return False

    async def _collect(self, quiet: bool) -> Evidence:
        entries = self.cluster.requests
        return Evidence(
            features=self.plan.features,
            notes=self.notebook.notes,
            objects=await self.cluster.list("kexes"),
            children=await self.cluster.list("configmaps"),
            requests=[(e.method, e.path, e.time) for e in entries],
            kills=self.kills + self._count_aborts(),
            is_undone=bool(self.people.done["strip"]) or self._has("travel"),
            restores=self.cluster.restores,
            has_stale_lists=self._has("stale-lists"),
            pauses=self.pauses,
            cut=self._orphans if self._is_quick() else [],
            strips=self.people.strips,
            orphans=self._orphans,
            replicas=self.plan.replicas,
            runs=[process.incarnation.name for process in self.processes],
            memories=[
                remember(process.operator, process.incarnation.name)
                for process in self.processes
                if process.operator is not None and process.is_alive
            ],
            is_settled=quiet,
            now=self.world.loop.time(),
            late_writes=[
                f"{e.method} {e.path}"
                for e in entries
                if is_write(e.method, e.path) and e.time > self._calm_since
            ],
            log=self.log.lines,
            complaints=[*self.world.loop.complaints],
        )

    @property
    def _orphans(self) -> dict[str, float]:
        """The objects to which patches came after their senders had cancelled them, since when."""
        moments: dict[str, float] = {}
        for at, data in self.world.loop.network.orphans:
            if match := re.match(rb"(?:PATCH|PUT) \S*/kexes/([^/ ]+)", data):
                moments.setdefault(match[1].decode(), at)
        return moments

    @property
    def _longest_way(self) -> float:
        """How long (in virtual seconds) a request can be on its way."""
        weather = self.plan.weather
        return 1.0 + 4 * (weather.get("lag", 0.0) if weather.get("slow") else 0.0)

    def _is_quick(self) -> bool:
        """Whether each patch is answered in the time that exits leave to it."""
        weather = self.plan.weather
        faults = {event.what for event in self.plan.faults}
        return not (self.kills or weather.get("breaks") or weather.get("slow") or faults - EXITS)

    def _is_someone_alive(self) -> bool:
        return any(process.is_alive for process in self.processes)

    def _count_aborts(self) -> int:
        """After what else something can be repeated: exits that cannot end, backups."""
        faults = {event.what for event in self.plan.faults}
        undone = self.people.done["strip"]
        if self.plan.replicas > 1:  # a lease can be lost between a success and its record
            undone += sum(LOST in line for line in self.log.lines)
        weather = self.plan.weather
        is_slow = weather.get("slow", 0.0) > 0 and weather.get("lag", 0.0) > LAST_MOMENT
        is_reachable = not (weather.get("breaks") or is_slow or faults & UNREACHABLE)
        excused = {"abort", "travel"} if is_reachable else {"abort", "travel", "restart"}
        return undone + sum(event.what in excused for event in self.plan.faults)

    def _has(self, fault: str) -> bool:
        return any(event.what == fault for event in self.plan.faults)


@contextlib.contextmanager
def _constants(values: Mapping[str, float]) -> Iterator[None]:
    """Let the constants of modules be other ones for a while."""
    known = {}
    for path, value in values.items():
        module, _, name = path.partition(":")
        place = importlib.import_module(module)
        known[path] = place, name, getattr(place, name)
        setattr(place, name, value)
    try:
        yield
    finally:
        for place, name, value in known.values():
            setattr(place, name, value)


@contextlib.contextmanager
def _decisions(reached: Counter[str]) -> Iterator[None]:
    """Count the rows of the table of decisions, and the states of objects at the beginning."""
    original = reconciliation.decide

    def decide(turn: Turn, rules: Rules, start: int = 0) -> int:
        number = original(turn, rules, start)
        reached[f"row: {rules.rows[number].name}"] += 1
        if not start:
            reached[f"state: {describe_state(turn)}"] += 1
        return number

    reconciliation.decide = decide  # type: ignore[attr-defined]
    try:
        yield
    finally:
        reconciliation.decide = original  # type: ignore[attr-defined]


def remember(operator: Operator, run: str) -> Memory:
    """What the operator remembers of objects now."""
    intakes = operator.handling.orchestrator.intakes.values()
    index = operator.essentials.indices.get("values", {})
    return Memory(
        run=run,
        known={*operator.essentials.memories},
        waiting={item.key for intake in intakes for item in intake.queue.items},
        index={name: [*values] for name, values in index.items()},
    )


def describe_state(turn: Turn) -> str:
    """What is known of the object, and what has come, in a few words."""
    item, memory = turn.item, turn.memory
    write, owed, holds = memory.write, memory.owed, memory.holds
    facts = {
        memory.cycle.stage.name: True,
        "progress": memory.cycle.has_progress,
        "seen states": memory.cycle.seen is not None,
        "known": write.version is not None,
        "final": write.is_final,
        "awaited": write.awaited is not None,
        "owed": owed.marks is not None,
        "held by a pause": owed.base is not None,
        "refused": bool(owed.carried),
        "throttled": holds.throttling is not None,
        "paused": holds.is_paused,
        "losses": holds.losses > 0,
        "contradicted": item.is_contradicted,
        "events": bool(item.events),
        "deleted": item.is_deleted,
        "wishes": item.has_wishes,
    }
    return ", ".join(name for name, is_so in facts.items() if is_so)


async def _call(fn: Any) -> None:
    fn()


async def _pause(operator: Operator, shut: asyncio.Event, seconds: float, *, is_cold: bool) -> None:
    """Pause the operator for a while, even if its process is suspended meanwhile.

    ``shut`` tells since when its running work may send nothing.
    """
    timeout = operator.essentials.settings.queueing.exit_timeout

    async def pause() -> None:
        began.set()
        await operator.pause("test", is_cold=is_cold)

    async def tell() -> None:
        await asyncio.sleep(timeout)
        shut.set()

    began = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pause())
        await began.wait()
        telling = tasks.create_task(tell())
        await asyncio.sleep(seconds)
        operator.resume("test")
        telling.cancel()
