"""The world of the model: a server with one object, a stream that lags, a queue that gives turns.

Only that is abstract. The decisions and the record of the object are those of the operator itself:
turns are made by its reconciler. Bodies are never changed in place, so worlds share them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, ClassVar

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.clients.errors import (
    APIConnectionError,
    APINotFoundError,
    APIUnprocessableError,
)
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.dicts import json_copy
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.errors import TemporaryError
from kopf_core.actions.execution import Execution
from kopf_core.actions.lifecycles import asap
from kopf_core.engines.background import BackgroundEngine
from kopf_core.engines.memories import ObjectMemories
from kopf_core.engines.records.owed import NOTHING_OWED
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
        self.stream: list[Any] = [{"type": "ADDED", "object": self.body}]
        self.memories = ObjectMemories(None)
        self.item: WorkItem | None = None
        self.seen: dict[str, int | str] = {}
        """What each of the handlers has succeeded for the last time."""

        self.excuses: set[str] = set()
        """The handlers whose success could be unrecorded: they may repeat it."""

        self.problems: list[str] = []

    def branch(self) -> World:
        """The same state, from which something else can happen."""
        world = copy.copy(self)
        world.budget, world.seen = {**self.budget}, {**self.seen}
        world.stream, world.problems = [*self.stream], [*self.problems]
        world.excuses, world.memories = {*self.excuses}, ObjectMemories(None)
        if (memory := self.memories.get(UID)) is not None:
            world.memories._items[UID] = known = copy.copy(memory)
            if memory.owed is not NOTHING_OWED:  # the next turn adds its own changes to these
                known.owed = copy.deepcopy(memory.owed)
        if self.item is not None:
            world.item = copy.copy(self.item)
            world.item.events = self.item.events.copy()
        return world

    # What others do.

    def change(self, body: Any) -> None:
        """The object has changed on the server: it gets a version, and comes in the stream."""
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        meta = body["metadata"]
        is_gone = bool(meta.get("deletionTimestamp")) and not meta.get("finalizers")
        self.body = None if is_gone else body
        kind = "DELETED" if is_gone else "MODIFIED"
        self.stream.append({"type": kind, "object": body})

    def edit(self) -> None:
        body = json_copy(self.body)
        body["spec"]["n"] += 1
        self.change(body)

    def delete(self) -> None:
        body = json_copy(self.body)
        body["metadata"]["deletionTimestamp"] = "2019-01-01T00:00:00Z"
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
            self.stream = [{"type": None, "object": self.body}]
        elif known:  # the reflector reports those that have vanished
            latest = None if self.item is None else self.item.newest
            body = latest or {"metadata": {"name": "x", "namespace": "ns", "uid": UID}}
            self.stream = [{"type": "DELETED", "object": body}]

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
        after = json_copy(world.body)
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
        return after

    async def get(self, url: str) -> Any:
        if self.current.body is None:
            raise APINotFoundError(_gone(), status=404)
        return self.current.body

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


def find_calm(world: World, operator: Operator) -> str | None:
    """What happens next if nothing unusual does; ``None`` at rest."""
    if operator.is_ready(world):
        return "turn"
    if world.stream:
        return "deliver"
    return None if world.wake_at is None else "time"


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


def judge(world: World) -> list[str]:
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
