"""What is measured: the load, the operator for it, the sizes, and the budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from bench.config import WEBHOOK_PORT

Trigger = Literal[
    "open",
    "burst",
    "paced",
    "create",
    "update",
    "delete",
    "window",
    "review",
    "paced-review",
    "paced-convert",
]


@dataclass(frozen=True, slots=True)
class Step:
    """One command to the load server, and how many calls of handlers a unit it must lead to."""

    trigger: Trigger
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """The ``prepare`` steps are not measured, the ``measured`` ones are, till the CPU goes idle.

    The server holds back its lists until the step ``open``, thus the start of the operator itself
    (imports, login, discovery) is never in the figures.
    """

    name: str
    title: str
    handlers: str
    sizes: tuple[int, ...]
    measured: tuple[Step, ...]
    prepare: tuple[Step, ...] = ()
    unit: str = "object"
    objects: int | None = None  # existing from the beginning; the same as the size by default
    env: Mapping[str, str] = field(default_factory=dict)
    predecessor_sizes: tuple[int, ...] | None = None
    floor: str | None = None  # the mode of the client without a framework
    budget: float | None = None  # microseconds of CPU a unit; percents of a core for windows
    most: float | None = None  # how many times the floor's CPU it may take
    faster: float | None = None  # how many times less CPU than the predecessor it is to take
    tail: tuple[int, float] = (95, 1200)  # a percentile of latencies, and its budget; microseconds
    budget_memory: float | None = None  # kilobytes a unit
    is_ticking: bool = False  # forever, once a second for each object
    extra: bool = False  # only when asked for by name or with --full

    @property
    def is_window(self) -> bool:
        return any(step.trigger == "window" for step in self.measured)

    @property
    def is_latency(self) -> bool:
        return any(step.trigger.startswith("paced") for step in self.measured)

    def sizes_for(self, engine: str) -> tuple[int, ...]:
        if engine == "predecessor" and self.predecessor_sizes is not None:
            return self.predecessor_sizes
        return self.sizes


def change(cause: str, handlers: int, sync: bool) -> Scenario:
    """Change handlers on existing objects; the preparations are to get the objects settled."""
    kind = "sync" if sync else "async"
    main = handlers == 1 and not sync
    steps: dict[str, tuple[tuple[Step, ...], tuple[Step, ...]]] = {
        "create": ((), (Step("open", handlers),)),
        "update": ((Step("open"),), (Step("update", handlers),)),
        "delete": ((Step("open"),), (Step("delete", handlers),)),
    }
    prepare, measured = steps[cause]
    return Scenario(
        name="-".join([cause] + ([str(handlers)] if handlers > 1 else []) + ["sync"] * sync),
        title=f"on.{cause}, {handlers} {kind} handler{'s' if handlers > 1 else ''}",
        handlers="changes.py",
        sizes=(500, 1000, 2000) if main else (1000 if handlers == 1 else 500,),
        prepare=prepare,
        measured=measured,
        env={
            "BENCH_CAUSES": cause,
            "BENCH_HANDLERS": str(handlers),
            "BENCH_SYNC": str(int(sync)),
        },
        floor={"delete": "release"}.get(cause, "patch") if main else None,
        budget=400 if main and cause == "create" else None,
        most={"create": 1.8}.get(cause, 2.0) if main else None,
        faster=5 if cause == "create" and handlers == 5 and not sync else None,
    )


def all_scenarios() -> Iterator[Scenario]:
    yield Scenario("start", "start on existing objects, on.event", "events.py", (1000, 2000, 4000),
                   (Step("open", 1),), floor="events", budget=100, budget_memory=3,
                   most=2.0)  # fmt: skip
    yield Scenario("start-20k", "start on 20,000 objects, on.event", "events.py", (20000,),
                   (Step("open", 1),), floor="events", budget=100, budget_memory=3,
                   extra=True)  # fmt: skip
    yield Scenario("hot", "one hot object, on.event", "events.py", (2500, 5000, 10000),
                   (Step("burst", 1),), (Step("open"),), unit="event", objects=1,
                   floor="events", budget=60, most=3.0)  # fmt: skip
    for handlers in (1, 5):
        for sync in (False, True):
            for cause in ("create", "update", "delete"):
                yield change(cause, handlers, sync)
    yield Scenario("create-5-once", "on.create, 5 async handlers at once, one patch", "changes.py",
                   (500,), (Step("open", 5),),
                   env={"BENCH_CAUSES": "create", "BENCH_HANDLERS": "5",
                        "BENCH_AT_ONCE": "1"})  # fmt: skip
    for posting in ("off", "loggers"):
        yield Scenario(f"create-{posting}", f"on.create, 1 async, posting {posting}", "changes.py",
                       (1000,), (Step("open", 1),),
                       env={"BENCH_CAUSES": "create", "BENCH_POSTING": posting})  # fmt: skip
    yield Scenario("life", "on.create + on.delete, sync, whole life", "changes.py", (1000,),
                   (Step("create", 1), Step("delete", 1)), (Step("open"),), objects=0,
                   env={"BENCH_CAUSES": "create,delete", "BENCH_SYNC": "1"},
                   budget=1300)  # fmt: skip
    yield Scenario("index", "start with an index", "indexing.py", (2000, 8000, 32000),
                   (Step("open", 1),), predecessor_sizes=(500, 1000, 2000),
                   floor="events", budget=200)  # fmt: skip
    yield Scenario("index-50k", "start with an index", "indexing.py", (50000,),
                   (Step("open", 1),), floor="events", budget=200, extra=True,
                   predecessor_sizes=())  # fmt: skip
    yield Scenario("timers", "1,000 timers at 1 s", "timers.py", (1000,),
                   (Step("window"),), (Step("open", 1),), budget=2, is_ticking=True,
                   tail=(99, 20000))  # fmt: skip
    yield Scenario("timers-20k", "20,000 timers at 1 s", "timers.py", (20000,),
                   (Step("window"),), (Step("open", 1),), budget=40, is_ticking=True,
                   tail=(99, 20000), predecessor_sizes=())  # fmt: skip
    yield Scenario("idle-20k", "20,000 idle objects", "events.py", (20000,),
                   (Step("window"),), (Step("open", 1),), budget=0.1,
                   predecessor_sizes=())  # fmt: skip
    yield Scenario("daemons", "start of async daemons", "daemons.py", (500, 1000, 2000),
                   (Step("open", 1),))  # fmt: skip
    yield Scenario("daemons-5k", "start of 5,000 async daemons", "daemons.py", (5000,),
                   (Step("open", 1),), budget_memory=12)  # fmt: skip
    yield Scenario("latency", "event to handler, idle operator", "latency.py", (300,),
                   (Step("paced", 1),), (Step("open"),), unit="event", objects=1,
                   floor="events", budget=700)  # fmt: skip
    port = {"BENCH_PORT": str(WEBHOOK_PORT)}
    yield Scenario("webhook", "reviews for a no-op webhook", "webhook.py", (3000,),
                   (Step("review", 1),), (Step("open"),), unit="review", objects=1,
                   env=port)  # fmt: skip
    yield Scenario("webhook-latency", "review to webhook, idle operator", "webhook.py", (300,),
                   (Step("paced-review", 1),), (Step("open"),), unit="review", objects=1,
                   env=port)  # fmt: skip
    yield Scenario("conversion", "conversions of two steps, ten at once", "conversions.py", (3000,),
                   (Step("paced-convert", 1),), (Step("open"),), unit="review", objects=1,
                   env=port, predecessor_sizes=(), tail=(99, 5000))  # fmt: skip
