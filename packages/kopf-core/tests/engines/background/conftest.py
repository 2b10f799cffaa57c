"""An engine with nothing around it, in a loop where hours pass in no time."""

import asyncio
import copy
from typing import Any

import pytest
from virtual_time import LoopClock

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.memos import Memo
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.effects import Applied, merge_patches
from kopf_core.actions.execution import Execution
from kopf_core.actions.lifecycles import all_at_once
from kopf_core.engines.background import BackgroundEngine, attempts
from kopf_core.engines.memories import ObjectMemories
from kopf_core.intents.causes import SpawningCause
from kopf_core.intents.decorators import daemon, timer


class Yard:
    """One engine, the objects it has seen, and what it has done."""

    def __init__(self, settings: Any, resource: Any, registry: Any) -> None:
        self.settings = settings
        self.resource = resource
        self.registry = registry
        self.clock: Any = LoopClock()
        self.memories = ObjectMemories(Memo())
        self.woken: list[Any] = []
        self.patches: list[Any] = []
        self.conflicts: list[Any] = []
        self.errors: list[Exception] = []
        self.ticks: list[float] = []
        self.latency = 0.0
        self.execution = Execution(settings=settings, lifecycle=all_at_once, clock=self.clock)
        self.engine: BackgroundEngine = None  # type: ignore[assignment]
        self.body: dict[str, Any] = {
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "metadata": {"name": "obj", "namespace": "ns", "uid": "uid1", "resourceVersion": "1"},
            "spec": {"field": "v1"},
        }

    def daemon(self, **kwargs: Any) -> Any:
        return daemon("kopfexamples", registry=self.registry, **{"id": "fn"} | kwargs)

    def timer(self, **kwargs: Any) -> Any:
        return timer("kopfexamples", registry=self.registry, **{"id": "fn"} | kwargs)

    def time(self) -> float:
        return round(asyncio.get_running_loop().time(), 2)

    def tick(self) -> int:
        """Remember the moment; get the number of the tick, from 1."""
        self.ticks.append(self.time())
        return len(self.ticks)

    def see(self, uid: str = "uid1", **changes: Any) -> Any:
        """Let the engine see the object in a new state; the changes are merged into it."""
        if self.engine is None:
            self.engine = BackgroundEngine(
                client=None,
                settings=self.settings,
                indices={},  # type: ignore[arg-type]
                execution=self.execution,
                wake=lambda obj: self.woken.append(obj.key),
            )
        self.body = copy.deepcopy(self.body)
        self.body["metadata"]["uid"] = uid
        for key, val in changes.items():
            self.body.setdefault(key, {}).update(val)
        cause = SpawningCause(
            resource=self.resource,
            body=Body(self.body),
            patch=Patch(),
            settings=self.settings,
            record=self.memories.recall(uid),
            indices={},
        )
        handlers = self.registry.get_resource_handlers(self.resource)
        self.engine.adjust(uid, cause, handlers)
        return uid

    def label(self, value: str | None) -> Any:
        return self.see(metadata={"labels": {} if value is None else {"label": value}})

    def delete(self, uid: str = "uid1") -> None:
        self.engine.stop_deleted(uid, Body(self.body))

    async def apply(self, *, body: Any, marks: Any, patch: Any, **_: Any) -> Applied:
        """In place of the requests to the API: they take time, and can be interrupted."""
        await asyncio.sleep(self.latency)
        merged = merge_patches(marks, marks.results, patch)
        self.patches.append(dict(merged) | ({"fns": merged.fns} if merged.fns else {}))
        if self.errors:
            raise self.errors.pop()
        carried = self.conflicts.pop() if self.conflicts else ()
        return Applied(carried=carried)


@pytest.fixture
def yard(settings: Any, resource: Any, registry: Any, monkeypatch: Any) -> Yard:
    yard = Yard(settings, resource, registry)
    monkeypatch.setattr(attempts, "apply_patches", yard.apply)
    return yard
