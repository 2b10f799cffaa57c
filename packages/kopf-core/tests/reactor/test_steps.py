"""Steps of handling cycles: what is remembered of them is the same as what is on the object."""

import copy
import json
import random
from unittest.mock import Mock

import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.configs.diffbase import AnnotationsDiffBaseStorage
from kopf_cogs.configs.progress import AnnotationsProgressStorage
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.errors import PermanentError, TemporaryError
from kopf_core.actions.execution import Execution
from kopf_core.actions.lifecycles import asap
from kopf_core.engines.memories import ObjectMemories
from kopf_core.engines.records.writes import AwaitChange
from kopf_core.intents import decorators as on
from kopf_core.intents.indices import Indices
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.object.reconciliation import Reconciler
from kopf_core.reactor.object.subhandling import execute, run_subhandlers
from kopf_core.reactor.streams.work import Requeue, WorkItem

RESOURCE = Resource("kopf.dev", "v1", "kopfexamples", kind="KopfExample", namespaced=True)
ROUNDS = 60


class World:
    """One object on a server, its operator, and everything that happens to both, by the seed."""

    def __init__(self, seed, settings=None):
        self.random = random.Random(seed)
        self.clock = FakeClock()
        self.settings = settings or OperatorSettings()
        self.journal = []
        self.hits = 0
        self.body = {
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
            "spec": {"n": 0},
        }
        self.registry = OperatorRegistry()
        for name in "abcd":
            self.declare(name)
        self.start()

    def declare(self, name):
        @on.create("kopfexamples", id=name, registry=self.registry)
        @on.update("kopfexamples", id=name, registry=self.registry)
        async def fn(spec, old, new, diff, retry, patch, **_):
            seen = copy.deepcopy([dict(spec), old, new, diff])
            self.journal.append((name, retry, seen))
            self.spoil(old, new)
            if name == "d":
                names = ("x", "y") if spec["n"] % 2 else ("x", "y", "z")
                await execute(fns={sub: self.make_subhandler(sub) for sub in names})
            return self.act(patch)

    def make_subhandler(self, name):
        async def fn(spec, retry, patch, **_):
            self.journal.append((f"d/{name}", retry, dict(spec)))
            return self.act(patch)

        return fn

    def spoil(self, *given):
        """What handlers are given is theirs: they can break it as they like."""
        if self.random.random() < 0.2:
            for essence in given:
                if isinstance(essence, dict):
                    essence.pop("spec", None)

    def act(self, patch):
        match self.random.randrange(12):
            case 0:
                raise TemporaryError("later", delay=self.random.choice([0, 5, None]))
            case 1:
                raise PermanentError("never")
            case 2:
                raise ValueError("strange")
            case 3:
                patch.metadata.labels["own"] = str(self.random.randrange(3))
            case 4:
                return {"result": self.random.randrange(3)}

    def start(self):
        self.memories = ObjectMemories(None)
        execution = Execution(
            settings=self.settings, lifecycle=asap, clock=self.clock, subhandling=run_subhandlers
        )
        self.reconciler = Reconciler(
            client=self,
            resource=RESOURCE,
            handlers=self.registry.get_resource_handlers(RESOURCE),
            execution=execution,
            memories=self.memories,
            indices=Indices([]),
            background=Mock(
                is_running=lambda _: False, is_stopping=lambda _: False, get_finished=lambda _: ()
            ),
        )
        self.item = WorkItem("u")
        self.item.take({"type": None, "object": self.copy()}, keep=False)

    fence = None
    is_fenced = False

    async def patch(self, url, payload, *, content_type):
        assert content_type == "application/merge-patch+json"
        changes = json.loads(json.dumps(payload, default=dict))
        self.journal.append(("PATCH", changes))
        if self.random.random() < 0.1:
            self.edit()  # by somebody else at the same moment
        self.change(changes)
        return self.copy()

    def change(self, changes):
        before = copy.deepcopy(self.body)
        merge(self.body, changes)
        if self.body != before:
            version = int(before["metadata"]["resourceVersion"]) + 1
            self.body["metadata"]["resourceVersion"] = str(version)

    def edit(self):
        value = self.random.randrange(100)
        field = self.random.choice(["spec", "labels", "annotations", "status", "marks"])
        match field:
            case "spec":
                self.change({"spec": {"n": value}})
            case "status":
                self.change({"status": {"s": value}})
            case "marks":
                known = sorted(self.body["metadata"].get("annotations") or ())
                if known:
                    key = self.random.choice(known)
                    self.change({"metadata": {"annotations": {key: None}}})
            case _:
                self.change({"metadata": {field: {"foreign": str(value)}}})

    def copy(self):
        return json.loads(json.dumps(self.body))

    async def run(self, *, forgets):
        for _ in range(ROUNDS):
            memory = self.memories.get("u")
            if memory is not None and memory.write.state is not None:
                self.hits += 1
                if forgets:
                    memory.write = memory.write.unknown()
            result = await self.reconciler.process(self.item)
            self.item.rest = result
            self.journal.append((type(result).__name__,))
            if isinstance(result, Requeue):
                self.clock.advance(max(0.0, result.at - self.clock.monotonic()))
            if self.random.random() < 0.1:
                self.edit()
            if self.random.random() < 0.05:
                self.start()
            elif isinstance(result, AwaitChange) or self.random.random() < 0.3:
                self.item.take({"type": "MODIFIED", "object": self.copy()}, keep=False)
        return self.journal


def merge(target, changes):
    for key, val in changes.items():
        if val is None:
            target.pop(key, None)
        elif isinstance(val, dict):
            merge(target.setdefault(key, {}), val)
        else:
            target[key] = val


@pytest.mark.parametrize("seed", range(40))
async def test_handlers_and_patches_are_the_same_as_if_nothing_was_remembered(seed):
    remembering, forgetting = World(seed), World(seed)
    assert await remembering.run(forgets=False) == await forgetting.run(forgets=True)
    assert remembering.hits > 0


class OwnProgressStorage(AnnotationsProgressStorage):
    """As users make them: it can do anything."""


class OwnDiffBaseStorage(AnnotationsDiffBaseStorage):
    """As users make them: it can do anything."""


@pytest.mark.parametrize(
    "settings",
    [
        {"progress_storage": OwnProgressStorage()},
        {"diffbase_storage": OwnDiffBaseStorage()},
    ],
)
async def test_nothing_is_remembered_if_the_storages_are_of_users(settings):
    own = OperatorSettings()
    for name, storage in settings.items():
        setattr(own.persistence, name, storage)
    world = World(1, own)
    await world.run(forgets=False)
    assert world.hits == 0
