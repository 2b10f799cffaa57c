"""The programs of simulated operators: handlers of all kinds, which note what they do."""

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import kopf
from kopf_cogs.aiokits.surroundings import get_threads
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.life.operator import OperatorOptions
from kopf_kits.simulation import incarnation_var

KEXES = ("sim.kopf.dev", "v1", "kexes")
X = ("spec", "x")
DELAYS = (1, 1, 2, 3, 5, 8)
"""The growing delays (in seconds) after failed turns: the world may be quiet for longer."""

FINALIZING = frozenset({"deleted", "daemon", "sleeper", "lingerer", "timer"})
"""The features for which objects get the finalizer."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a handler did: it has begun, or it has ended with some outcome."""

    at: float
    run: str
    point: str
    handler: str
    reason: str
    uid: str
    name: str
    version: str
    diff: str
    x: Any
    outcome: str = ""
    holder: str = ""
    """Who held the lease at that moment."""

    old: Any = None
    """What the value was before the change, by the diff; ``None`` if it was not changed."""

    labels: str = ""
    is_gone: bool = False
    """Whether the object was not there anymore."""


@dataclass
class Notebook:
    """The notes of all handlers of all operators of one life."""

    clock: Callable[[], float]
    find_holder: Callable[[], str]
    exists: Callable[[str], bool]
    notes: list[Note] = field(default_factory=list)

    def note(self, point: str, handler: str, facts: Mapping[str, Any], outcome: str = "") -> None:
        incarnation = incarnation_var.get()
        meta = facts["meta"]
        self.notes.append(
            Note(
                at=self.clock(),
                run=incarnation.name if incarnation is not None else "",
                point=point,
                handler=handler,
                reason=str(facts.get("reason") or ""),
                uid=str(meta.get("uid")),
                name=str(meta.get("name")),
                version=str(meta.get("resourceVersion")),
                diff=str(facts.get("diff", "")) if str(facts.get("reason")) == "update" else "",
                x=(facts.get("spec") or {}).get("x"),
                outcome=outcome,
                holder=self.find_holder(),
                old=next((op.old for op in facts.get("diff") or () if op.field == X), None),
                labels=str(dict(meta.get("labels") or {})),
                is_gone=point in ("begin", "end") and not self.exists(str(meta.get("uid"))),
            )
        )


class Program:
    """Makes the handlers of one operator into a registry of its own."""

    def __init__(self, features: Collection[str], notebook: Notebook, chance: random.Random):
        self.features = features
        self.registry = OperatorRegistry()
        self._notebook = notebook
        self._chance = chance
        self._on: dict[str, Any] = {"registry": self.registry}
        for name in features:
            getattr(self, f"_{name}")()

    def _noted(self, fn: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Note when it begins and how it ends; async ones take a while."""
        notebook, chance = self._notebook, self._chance

        async def noted(**kwargs: Any) -> Any:
            notebook.note("begin", name, kwargs)
            if chance.random() < 0.5:
                await asyncio.sleep(chance.random() * chance.choice([0.01, 0.5]))
            try:
                result = fn(**kwargs)
            except kopf.PermanentError:
                notebook.note("end", name, kwargs, "failure")
                raise
            except Exception:
                notebook.note("end", name, kwargs, "retry")
                raise
            notebook.note("end", name, kwargs, "success")
            return result

        return noted

    def _both(self, name: str, fn: Callable[..., Any]) -> None:
        noted = self._noted(fn, name)
        kopf.on.create(*KEXES, id=name, **self._on)(noted)
        kopf.on.update(*KEXES, id=name, **self._on)(noted)

    def _first(self) -> None:
        self._both("first", lambda **_: None)

    def _sync(self) -> None:
        def sync(**kwargs: Any) -> None:
            self._notebook.note("begin", "sync", kwargs)
            with contextlib.suppress(RuntimeError):  # those called inline cannot wait
                get_threads().wait(threading.Event(), self._chance.choice([0.0, 0.01, 0.5]))
            self._notebook.note("end", "sync", kwargs, "success")

        kopf.on.create(*KEXES, id="sync", **self._on)(sync)
        kopf.on.update(*KEXES, id="sync", **self._on)(sync)

    def _plodder(self) -> None:
        """It works longer than exits and pauses wait, and nobody can cancel it."""

        def plodder(**kwargs: Any) -> None:
            self._notebook.note("begin", "plodder", kwargs)
            get_threads().wait(threading.Event(), 3)
            self._notebook.note("end", "plodder", kwargs, "success")

        kopf.on.create(*KEXES, id="plodder", **self._on)(plodder)

    def _retried(self) -> None:
        self._both("retried", _retry_once)

    def _hopeless(self) -> None:
        kopf.on.create(*KEXES, id="hopeless", **self._on)(self._noted(_fail, "hopeless"))

    def _parent(self) -> None:
        async def parent(**_: Any) -> None:
            kopf.subhandler(id="x")(self._noted(_retry_once, "parent/x"))
            kopf.subhandler(id="y")(self._noted(lambda **_: "done", "parent/y"))

        kopf.on.create(*KEXES, id="parent", **self._on)(parent)
        kopf.on.update(*KEXES, id="parent", **self._on)(parent)

    def _patching(self) -> None:
        def patching(patch: kopf.Patch, spec: Any, **_: Any) -> Any:
            patch.status["seen"] = spec["x"]
            return {"x": spec["x"]}

        self._both("patching", patching)

    def _stamping(self) -> None:
        """It changes what is handled."""

        def stamping(patch: kopf.Patch, spec: Any, **_: Any) -> None:
            patch.spec["y"] = spec["x"]

        self._both("stamping", stamping)

    def _field(self) -> None:
        noted = self._noted(lambda **_: None, "field")
        kopf.on.field(*KEXES, field="spec.x", id="field", **self._on)(noted)

    def _resumed(self) -> None:
        noted = self._noted(lambda **_: None, "resumed")
        kopf.on.resume(*KEXES, id="resumed", **self._on)(noted)

    def _deleted(self) -> None:
        kopf.on.delete(*KEXES, id="deleted", **self._on)(self._noted(_retry_once, "deleted"))

    def _event(self) -> None:
        def event(type: str, **kwargs: Any) -> None:
            self._notebook.note("event", "event", kwargs, str(type))

        kopf.on.event(*KEXES, id="event", **self._on)(event)

    def _index(self) -> None:
        async def index(name: str, spec: Any, **_: Any) -> Any:
            return {name: spec["x"]}

        kopf.index(*KEXES, id="values", **self._on)(index)

    def _daemon(self) -> None:
        async def daemon(stopped: Any, **kwargs: Any) -> None:
            self._notebook.note("begin", "daemon", kwargs)
            try:
                await stopped.wait()
            finally:
                self._notebook.note("end", "daemon", kwargs, "success")

        kopf.daemon(*KEXES, id="daemon", **self._on)(daemon)

    def _sleeper(self) -> None:
        def sleeper(stopped: Any, **kwargs: Any) -> None:
            self._notebook.note("begin", "sleeper", kwargs)
            try:
                while not stopped.wait(7):
                    pass
            finally:
                self._notebook.note("end", "sleeper", kwargs, "success")

        kopf.daemon(*KEXES, id="sleeper", **self._on)(sleeper)

    def _lingerer(self) -> None:
        """It takes a while to exit."""

        async def lingerer(stopped: Any, **kwargs: Any) -> None:
            self._notebook.note("begin", "lingerer", kwargs)
            try:
                await stopped.wait()
                await asyncio.sleep(self._chance.random() * 5)
            finally:
                self._notebook.note("end", "lingerer", kwargs, "success")

        kopf.daemon(*KEXES, id="lingerer", cancellation_backoff=10, **self._on)(lingerer)

    def _timer(self) -> None:
        def timer(**kwargs: Any) -> None:
            self._notebook.note("tick", "timer", kwargs)

        kopf.timer(*KEXES, id="timer", interval=20, **self._on)(timer)

    def _reconciler(self) -> None:
        def reconciler(spec: Any, name: str, patch: kopf.Patch, **kwargs: Any) -> Any:
            self._notebook.note("pass", "reconciler", {**kwargs, "spec": spec})
            patch.status["children"] = 1 + spec["x"] % 3
            for number in range(1 + spec["x"] % 3):
                yield {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": f"{name}-{number}"},
                    "data": {"x": str(spec["x"])},
                }

        options = {"owns": ["configmaps"], "id": "reconciler", "backoff": 3, **self._on}
        kopf.reconcile(*KEXES, **options)(reconciler)


def _retry_once(retry: int, **_: Any) -> None:
    if not retry:
        raise kopf.TemporaryError("not yet", delay=0.05)


def _fail(**_: Any) -> None:
    raise kopf.PermanentError("never")


def put_settings(settings: kopf.OperatorSettings, values: Mapping[str, Any]) -> None:
    """Change the settings by their paths, such as ``leasing.name``."""
    for path, value in values.items():
        group, _, name = path.partition(".")
        setattr(getattr(settings, group), name, value)


def make_options(program: Program, url: str, values: Mapping[str, Any]) -> Callable[..., Any]:
    """How to run the program against the API at that address."""

    def make(**kwargs: Any) -> OperatorOptions:
        async def login(**_: Any) -> kopf.ConnectionInfo:
            return kopf.ConnectionInfo(server=url)

        registry = program.registry
        kopf.on.login(registry=registry)(login)
        settings = kopf.OperatorSettings()
        settings.name = "sim.kopf.dev"
        settings.posting.enabled = False
        settings.peering.standalone = True
        settings.queueing.error_delays = DELAYS
        put_settings(settings, values)
        return OperatorOptions(registry=registry, settings=settings, clusterwide=True, **kwargs)

    return make
