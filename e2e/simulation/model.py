"""A model of one object: all that can happen to it, in all orders, within small budgets.

The decisions and the record are those of the operator itself: turns are made by its reconciler.
Only the world around them is abstract: a server with one object, a stream that lags, a queue that
gives turns. From every state, everything that can happen there is tried; states that are the same
for the operator are visited once.

For each state that is reached, this is checked:

* it ends: if nothing more happens, it comes to rest in a bounded number of steps;
* nothing is lost: at rest, the handlers have seen the newest state, and nothing of ours is left
  on the object but the last handled state; deleted objects are gone;
* nothing is done twice: a handler does not succeed twice for the same state, unless the process
  was killed, or its marks were removed, before that was recorded.

Usage: ``python -m e2e.simulation.model [--budget edit=2,crash=1,...] [--limit STATES]``.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import copy
import json
import logging
from collections.abc import Iterator
from typing import Any, ClassVar

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.clients.errors import (
    APIConnectionError,
    APINotFoundError,
    APIUnprocessableError,
)
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.errors import TemporaryError
from kopf_core.actions.execution import Execution
from kopf_core.actions.lifecycles import asap
from kopf_core.engines.background import BackgroundEngine
from kopf_core.engines.memories import ObjectMemories
from kopf_core.engines.records.writes import AwaitChange
from kopf_core.intents import decorators as on
from kopf_core.intents.indices import Indices
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.object.reconciliation import Reconciler
from kopf_core.reactor.object.subhandling import run_subhandlers
from kopf_core.reactor.streams.queueing import WorkQueue
from kopf_core.reactor.streams.work import DONE, Requeue, WorkItem
from kopf_kits.sandbox.base.statuses import StatusError
from kopf_kits.sandbox.fields.patches import apply_json_patch

RESOURCE = Resource("kopf.dev", "v1", "kopfexamples", kind="KopfExample", namespaced=True)
UID = "u"
NAMES = ("a", "b")
BOUND = 60
"""In how many steps a state must come to rest when nothing more happens."""

BUDGET = {"edit": 2, "delete": 1, "crash": 1, "lost": 1, "refused": 1, "fail": 1, "relist": 1}
"""How many times each of the unusual things happens in a life, at most."""

SMALL = {"edit": 1, "delete": 1, "crash": 1, "lost": 1}


class Crash(BaseException):
    """The process is killed at this moment."""


class World:
    """One state of everything: the object on the server, the stream, and the operator."""

    def __init__(self, budget: dict[str, int]) -> None:
        self.budget = dict(budget)
        self.version = 1
        self.time = 0.0
        metadata = {"name": "x", "namespace": "ns", "uid": UID, "resourceVersion": "1"}
        self.body: Any = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample"}
        self.body |= {"metadata": metadata, "spec": {"n": 0}}
        self.stream: list[Any] = [{"type": "ADDED", "object": copy.deepcopy(self.body)}]
        self.memories = ObjectMemories(None)
        self.item: WorkItem | None = None
        self.seen: dict[str, int | str] = {}
        """What each of the handlers has succeeded for the last time."""

        self.excuses: set[str] = set()
        """The handlers whose success could be unrecorded: they may repeat it."""

        self.problems: list[str] = []

    # What others do.

    def change(self, body: Any) -> None:
        """The object has changed on the server: it gets a version, and comes in the stream."""
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        meta = body["metadata"]
        is_gone = bool(meta.get("deletionTimestamp")) and not meta.get("finalizers")
        self.body = None if is_gone else body
        kind = "DELETED" if is_gone else "MODIFIED"
        self.stream.append({"type": kind, "object": copy.deepcopy(body)})

    def edit(self) -> None:
        body = copy.deepcopy(self.body)
        body["spec"]["n"] += 1
        self.change(body)

    def delete(self) -> None:
        body = copy.deepcopy(self.body)
        body["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        self.change(body)

    def crash(self) -> None:
        """Everything in the memory is lost; the new process lists the object."""
        self.memories = ObjectMemories(None)
        self.item = None
        self.excuses = {*NAMES}
        self.relist()

    def relist(self) -> None:
        """The stream is broken: what it has not brought is replaced by a list."""
        known = self.item is not None or UID in self.memories
        self.stream = []
        if self.body is not None:
            self.stream = [{"type": None, "object": copy.deepcopy(self.body)}]
        elif known:  # the reflector reports those that have vanished
            latest = None if self.item is None else self.item.newest
            body = latest or {"metadata": {"name": "x", "namespace": "ns", "uid": UID}}
            self.stream = [{"type": "DELETED", "object": copy.deepcopy(body)}]

    def deliver(self, operator: Operator) -> None:
        """The stream brings its next event to the queue."""
        event = self.stream.pop(0)
        operator.put(self, event)

    @property
    def wake_at(self) -> float | None:
        """When the object is processed even if nothing happens."""
        match None if self.item is None else self.item.rest:
            case AwaitChange(_, until):
                return until
            case Requeue(at):
                return at
        return None


class Operator:
    """The reconciler of the operator; it is the same for all states, and remembers nothing."""

    current: ClassVar[World]

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.settings = OperatorSettings()
        self.settings.posting.enabled = False
        self.settings.queueing.error_delays = [1.0]
        registry = OperatorRegistry()
        for name in NAMES:
            fn = self._make_handler(name)
            for declare in (on.create, on.update, on.resume, on.delete):
                declare("kopfexamples", id=name, registry=registry)(fn)
        execution = Execution(
            settings=self.settings, lifecycle=asap, clock=self.clock, subhandling=run_subhandlers
        )
        client: Any = self
        indices = Indices([])
        self.background = BackgroundEngine(
            client=client,
            settings=self.settings,
            indices=indices,
            execution=execution,
            wake=lambda _: None,
        )
        self.reconciler = Reconciler(
            client=client,
            resource=RESOURCE,
            handlers=registry.get_resource_handlers(RESOURCE),
            execution=execution,
            memories=ObjectMemories(None),
            indices=indices,
            background=self.background,
        )
        self.queue = WorkQueue(self.reconciler.process, clock=self.clock, keeps_events=False)
        self.variant = ""

    fence = None
    is_fenced = False

    def _make_handler(self, name: str) -> Any:
        async def fn(reason: str, spec: Any, **_: Any) -> None:
            world = self.current
            state = "deleted" if reason == "delete" else spec["n"]
            if self.variant == "fail":
                self.variant = ""
                raise TemporaryError("later", delay=1)
            is_new = reason in ("create", "update", "delete")
            if is_new and world.seen.get(name) == state and name not in world.excuses:
                world.problems.append(f"{name} has succeeded twice for {state}")
            world.seen[name] = state
            world.excuses.discard(name)

        return fn

    async def patch(self, url: str, payload: Any, *, content_type: str) -> Any:
        """As a client of the API does it, with what can go wrong."""
        world, variant = self.current, self.variant
        if variant == "edit":
            self.variant = ""
            if world.body is not None:
                world.edit()
        if variant == "refused":
            self.variant = ""
            raise APIConnectionError("it was not sent")
        if variant == "crash before":
            raise Crash
        if world.body is None:
            raise APINotFoundError(_gone(), status=404)
        changes = json.loads(json.dumps(payload, default=dict))
        after = copy.deepcopy(world.body)
        if isinstance(changes, list):
            try:
                after = apply_json_patch(after, changes)
            except StatusError as e:
                raise APIUnprocessableError({"message": str(e)}, status=422) from None
        else:
            _merge(after, changes)
        if after != world.body:
            world.change(after)
        if variant == "crash after":
            raise Crash
        if variant == "lost":
            self.variant = ""
            raise APIConnectionError("the reply was lost")
        return copy.deepcopy(after)

    async def get(self, url: str) -> Any:
        if self.current.body is None:
            raise APINotFoundError(_gone(), status=404)
        return copy.deepcopy(self.current.body)

    # The queue, as far as it decides when there is a turn.

    def put(self, world: World, event: Any) -> None:
        self._enter(world)
        item = world.item
        if item is None:
            item = world.item = WorkItem(UID, is_listed=event["type"] is None)
        elif self.reconciler.echoes.absorb(item, event):
            world.item = None
            return
        item.take(event, keep=False)

    def is_ready(self, world: World) -> bool:
        """Whether there is a turn for the object now."""
        item = world.item
        if item is None:
            return False
        if world.wake_at is not None and world.wake_at <= world.time:
            return True
        return item.generation != item.seen_generation and self.queue._is_due(item)

    async def turn(self, world: World, variant: str = "") -> None:
        self._enter(world)
        item = world.item
        assert item is not None
        self.variant = variant
        if world.wake_at is not None and world.wake_at <= world.time:
            item.rest = DONE  # as the timer of the queue does
        item.seen_generation = item.generation
        try:
            item.rest = await self.reconciler.process(item)
        except Crash:
            world.crash()
            return
        self.variant = ""
        if item.rest is DONE and item.generation == item.seen_generation:
            world.item = None

    def _enter(self, world: World) -> None:
        """Work in that world since now."""
        type(self).current = world
        self.clock.advance(world.time - self.clock.monotonic())
        self.reconciler._memories = self.reconciler.echoes._memories = world.memories


def _gone() -> dict[str, Any]:
    details = {"name": "x", "group": "kopf.dev", "kind": "kopfexamples", "uid": UID}
    message = 'kopfexamples.kopf.dev "x" not found'
    return {"kind": "Status", "reason": "NotFound", "message": message, "details": details}


def _merge(target: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


TURNS = {
    "": None,
    "fail": "fail",
    "lost": "lost",
    "refused": "refused",
    "edit": "edit",
    "crash before": "crash",
    "crash after": "crash",
}
"""How a turn can go, and whose budget it takes."""


def list_happenings(world: World, operator: Operator) -> Iterator[str]:
    """Everything that can happen in this state."""
    budget, is_there = world.budget, world.body is not None
    is_leaving = is_there and "deletionTimestamp" in world.body["metadata"]
    if is_there and budget.get("edit"):
        yield "edit"
    if is_there and not is_leaving and budget.get("delete"):
        yield "delete"
    if budget.get("crash"):
        yield "crash"
    if budget.get("relist"):
        yield "relist"
    if world.stream:
        yield "deliver"
    if operator.is_ready(world):
        for variant, taken in TURNS.items():
            if taken is None or budget.get(taken):
                yield f"turn {variant}".strip()
    elif world.wake_at is not None:
        yield "time"


async def apply(world: World, operator: Operator, happening: str) -> None:
    """Let it happen."""
    verb, _, variant = happening.partition(" ")
    taken = TURNS[variant] if verb == "turn" else verb
    if taken in world.budget:
        world.budget[taken] -= 1
    match verb:
        case "edit" | "delete" | "crash" | "relist":
            getattr(world, verb)()
        case "deliver":
            world.deliver(operator)
        case "time":
            world.time = world.wake_at or world.time
        case "turn":
            if "crash" in variant or variant in ("lost", "refused"):
                world.excuses |= {*NAMES} if "crash" in variant else set()
            await operator.turn(world, variant)


def identify(world: World) -> str:
    """What tells the states apart: everything that the operator or the world can depend on."""
    memory = world.memories.get(UID)
    parts: list[Any] = [world.body, world.stream, world.time, world.budget, world.seen]
    parts.append(sorted(world.excuses))
    if memory is not None:
        state = memory.write.state
        owed = memory.owed
        parts.append([repr(memory.write._replace(state=None)), state is None])
        parts.append([repr(memory.cycle), repr(memory.holds), memory.is_listed, memory.idle])
        parts.append([owed.marks and dict(owed.marks), owed.patch and dict(owed.patch)])
        parts.append([repr(owed.carried), owed.conflicts, repr(owed.base)])
    item = world.item
    if item is not None:
        parts.append([repr(item.rest), list(item.events), item.latest, item.type])
        parts.append([item.generation - item.seen_generation, item.is_contradicted, item.is_listed])
    return json.dumps(parts, default=dict, sort_keys=True)


async def find_rest(world: World, operator: Operator) -> list[str]:
    """What is wrong with the state to which it comes if nothing more happens."""
    world = copy.deepcopy(world)
    for _ in range(BOUND):
        if operator.is_ready(world):
            await operator.turn(world)
        elif world.stream:
            world.deliver(operator)
        elif world.wake_at is not None:
            world.time = world.wake_at
        else:
            return [*world.problems, *_judge(world)]
    return [f"it does not come to rest in {BOUND} steps"]


def _judge(world: World) -> list[str]:
    if world.body is None:
        return []
    meta, spec, found = world.body["metadata"], world.body["spec"], []
    if meta.get("deletionTimestamp"):
        return ["the deleted object is still there"]
    annotations = meta.get("annotations", {})
    handled = json.loads(annotations.get("kopf.zalando.org/last-handled-configuration", "{}"))
    if handled.get("spec") != spec:
        found.append(f"the last handled state is {handled.get('spec')}, and not {spec}")
    found += [f"{key} is left" for key in annotations if not key.endswith("-configuration")]
    found += [
        f"{name} has not seen {spec['n']}" for name in NAMES if world.seen.get(name) != spec["n"]
    ]
    return found


class Exploration:
    """The search through all states, the nearest ones first."""

    def __init__(self, budget: dict[str, int], limit: int) -> None:
        self.budget, self.limit = budget, limit
        self.states: dict[str, tuple[str | None, str]] = {}
        """How each of them was reached for the first time: from which one, and by what."""

        self.steps = 0
        self.problems: list[tuple[str, list[str]]] = []

    async def run(self) -> None:
        operator, first = Operator(), World(self.budget)
        line = collections.deque([first])
        self.states[identify(first)] = None, "the object is created"
        while line and len(self.states) < self.limit and len(self.problems) < 5:
            world = line.popleft()
            origin = identify(world)
            for happening in [*list_happenings(world, operator)]:
                branch = copy.deepcopy(world)
                await apply(branch, operator, happening)
                self.steps += 1
                known = identify(branch)
                if known not in self.states:
                    self.states[known] = origin, happening
                    line.append(branch)
                    if problems := await find_rest(branch, operator):
                        self.problems.append((known, problems))
        self.is_complete = not line

    def tell(self, known: str) -> list[str]:
        """What has led to the state, from the beginning."""
        story: list[str] = []
        origin: str | None = known
        while origin is not None:
            origin, happening = self.states[origin]
            story.append(happening)
        return story[::-1]


def parse_budget(text: str) -> dict[str, int]:
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name: int(count) for name, _, count in pairs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--budget", type=parse_budget, default=BUDGET)
    parser.add_argument("--limit", type=int, default=1_000_000)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    exploration = Exploration(args.budget, args.limit)
    asyncio.run(exploration.run())
    kind = "all" if exploration.is_complete else "the first"
    print(f"{len(exploration.states)} states ({kind}), {exploration.steps} steps.")
    for known, problems in exploration.problems:
        print(f"- {'; '.join(problems)}: {' > '.join(exploration.tell(known))}")
    return int(bool(exploration.problems))


if __name__ == "__main__":
    raise SystemExit(main())
