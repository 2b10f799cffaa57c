"""Plans of lives: everything that will happen, decided in advance by a seed.

A plan is made of lists of small things, so a failed life can be shrunk by taking them away.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

FEATURES = (
    "sync",
    "retried",
    "hopeless",
    "parent",
    "patching",
    "stamping",
    "field",
    "resumed",
    "deleted",
    "event",
    "index",
    "daemon",
    "sleeper",
    "lingerer",
    "timer",
    "reconciler",
)

ACTIONS = (
    *["edit"] * 6,
    *["label"] * 2,
    *["status"] * 2,
    *["delete"] * 2,
    *["recreate"] * 2,
    *["edit-child"] * 2,
    "annotate",
    "guard",
    "guarded-delete",
    "unguard",
    "hold",
    "unhold",
    "strip",
    "delete-child",
)
"""What other people do with the objects; the frequent things are there several times."""

CONSTANTS = {
    "kopf_cogs.clients.listing:DEFAULT_CHUNK_SIZE": 1,
    "kopf_cogs.clients.listing:_CAREFUL_CHUNK_SIZE": 1,
    "kopf_cogs.clients.patching:MAX_ATTEMPTS": 2,
    "kopf_cogs.clients.reflector:_SILENCE_LIMIT": 2,
    "kopf_cogs.clients.slots:USUAL": 1,
    "kopf_core.engines.background.starting:PORTION": 1,
    "kopf_core.engines.background.starting:SHARE": 0,
    "kopf_core.engines.desired.pass_places:CROWD_LIMIT": 1,
    "kopf_core.reactor.streams.intake:INDEXING_PORTION": 1,
    "kopf_core.reactor.streams.places:HEADROOM": 1,
    "kopf_core.reactor.streams.places:LISTED_SHARE": 2,
    "kopf_core.reactor.streams.sharing:SHARED_LIMIT": 1,
    "kopf_core.reactor.streams.stores:REMEMBERED_DELETIONS": 1,
    "kopf_core.reactor.object.takeovers:MANY": 1,
    "kopf_cogs.clients.reflector:LONG_LIST": 0,
    "kopf_core.reactor.streams.queueing:BURST": 1,
    "kopf_core.reactor.streams.queueing:PORTION": 1,
}
"""How small the constants of modules can be: what happens to thousands, happens to a few then."""

FAULTS = (
    "crash",
    "restart",
    "suspend",
    "cut-watches",
    "compact",
    "hold-watches",
    "fail",
    "drop",
    "drop-late",
    "pause",
    "abort",
    "lose-lease",
    "slow-lease",
    "absent",
    "clock",
)
"""What goes wrong, apart from the weather in the network."""

FAKED = ("lose-reply", "cut-reply", "twice", "lag", "stale-lists", "travel", "repeat")
"""What goes wrong with the fake only, in addition to that."""

LOOKING = frozenset({"event", "index"})
"""The features by which operators leave no marks on objects."""

PASSING = LOOKING | {"reconciler"}
"""The features of operators that only make passes."""

UNFAKED = frozenset({"reconciler"})
"""What the fake is not able to serve: there is no server-side apply."""


@dataclass(frozen=True)
class Event:
    """One thing that happens at some moment (in virtual seconds)."""

    at: float
    what: str
    name: str = ""
    number: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        details = f" {self.name}" if self.name else ""
        return f"{self.at:.3f} {self.what}{details} ({self.number}, {self.seconds:.3f} s)"


@dataclass(frozen=True)
class Plan:
    """One life: who is there, what they do, and what goes wrong."""

    seed: str
    features: tuple[str, ...]
    objects: tuple[Event, ...]
    actions: tuple[Event, ...]
    faults: tuple[Event, ...]
    weather: dict[str, float] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    calm: dict[str, Any] = field(default_factory=dict)
    """The settings since the last fault: with them, less happens in the quiet world."""

    shuffled: bool = False
    cluster: str = "sandbox"
    has_status: bool = True
    """Whether the status of objects is a subresource."""

    inline: bool = True
    """Whether sync handlers are called by the event loop, instead of threads with a baton."""

    constants: dict[str, int] = field(default_factory=dict)
    replicas: int = 1
    """How many operators run at once; with a lease if there are several."""

    crash_at: int | None = None
    """The step of the first operator at which it crashes: in some lives, and in all sweeps.

    Its steps are counted in all its runs: it can crash after it has been started again.
    """

    def __str__(self) -> str:
        lines = [
            f"features: {', '.join(self.features)}; replicas: {self.replicas}",
            f"weather: {self.weather}; settings: {self.settings}; "
            f"calm: {self.calm}; shuffled: {self.shuffled}",
            f"cluster: {self.cluster}; has status: {self.has_status}; inline: {self.inline}; "
            f"constants: {self.constants}; crash at: {self.crash_at}",
        ]
        lines += [f"object {event}" for event in self.objects]
        lines += [f"action {event}" for event in self.actions]
        lines += [f"fault {event}" for event in self.faults]
        return "\n".join(lines)

    def without(self, part: str, index: int) -> Plan:
        """The same life without one of the things in it."""
        items = getattr(self, part)
        return dataclasses.replace(self, **{part: (*items[:index], *items[index + 1 :])})


def make_plan(seed: str, cluster: str | None = None) -> Plan:
    """Decide on everything by the seed; but the cluster can be given."""
    chance = random.Random(f"{seed}:plan")
    span = chance.choice([2.0, 5.0, 20.0])
    names = [f"obj{number}" for number in range(chance.choice([1, 1, 2, 3, 5]))]
    drawn = chance.choice(["sandbox", "sandbox", "sandbox", "fake"])
    cluster = drawn if cluster is None else cluster
    absent = UNFAKED if cluster == "fake" else frozenset()
    is_small_world = chance.random() < 0.3
    plan = Plan(
        seed=seed,
        features=_make_features(seed, chance, absent),
        objects=tuple(Event(_early(chance, span), "create", name) for name in names),
        actions=_make_actions(chance, names, span),
        faults=_make_faults(chance, span, FAULTS + FAKED if cluster == "fake" else FAULTS),
        weather=_make_weather(chance),
        settings=_make_settings(chance, cluster) | _make_timeouts(seed) | _make_budget(seed),
        shuffled=chance.random() < 0.1,
        crash_at=chance.randrange(50, 2000) * 3 // 5 if chance.random() < 0.2 else None,
        replicas=chance.choice([1, 1, 1, 2]),
        cluster=cluster,
        has_status=chance.random() < 0.5,
        inline=chance.random() < 0.85,
        constants={
            name: value
            for name, value in CONSTANTS.items()
            if is_small_world and chance.random() < 0.5
        },
    )
    return dataclasses.replace(plan, calm=_make_calm(seed, plan.settings))


def _make_features(seed: str, chance: random.Random, absent: Collection[str]) -> tuple[str, ...]:
    """In most of the lives, there are handlers of changes; ``first`` is always one of these."""
    features = [name for name in FEATURES if chance.random() < 0.35 and name not in absent]
    program = random.Random(f"{seed}:program").random()  # apart: the rest is the same with it
    if program < 0.05:
        return _choose({*features, "event"} & LOOKING)
    if program < 0.1 and "reconciler" not in absent:
        return _choose({*features, "reconciler"} & PASSING)
    return ("first", *features)


def _choose(names: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in FEATURES if name in names)


def _early(chance: random.Random, span: float) -> float:
    """Some objects are there before the operator."""
    return 0.0 if chance.random() < 0.5 else chance.random() * span / 2


def _make_actions(chance: random.Random, names: list[str], span: float) -> tuple[Event, ...]:
    count = chance.choice([1, 3, 5, 10])
    actions = [
        Event(chance.random() * span, chance.choice(ACTIONS), chance.choice(names), number + 1)
        for number in range(count)
    ]
    if chance.random() < 0.5:  # a burst: changes in the middle of the handling of others
        actions += [
            dataclasses.replace(one, at=one.at + chance.random() * 0.05, what="edit", number=50 + n)
            for n, one in enumerate(actions)
        ]
    return tuple(sorted(actions, key=lambda event: event.at))


def _make_faults(chance: random.Random, span: float, faults: tuple[str, ...]) -> tuple[Event, ...]:
    count = chance.choice([0, 1, 1, 2, 3, 5])
    return tuple(
        sorted(
            (
                Event(
                    chance.random() * span,
                    chance.choice(faults),
                    name=str(chance.randrange(2)),
                    number=chance.choice([1, 1, 2, 5]),
                    seconds=chance.choice([0.01, 0.3, 3.0, 12.0]) * chance.random(),
                )
                for _ in range(count)
            ),
            key=lambda event: event.at,
        )
    )


def _make_weather(chance: random.Random) -> dict[str, float]:
    return {
        "latency": chance.choice([0.0005, 0.002, 0.02]),
        "slow": chance.choice([0.0, 0.1, 0.5]),
        "lag": chance.choice([0.05, 0.3, 2.0]),
        "breaks": chance.choice([0.0, 0.0, 0.0, 0.005, 0.03]),
        "thinking": chance.choice([0.001, 0.1]),
    }


def _make_settings(chance: random.Random, cluster: str) -> dict[str, Any]:
    """Small limits in a share of lives: defects of large numbers are met in small worlds, too."""
    return {
        "queueing.worker_limit": chance.choice([None, None, 1, 2]),
        "watching.server_timeout": chance.choice([None, None, None, 25]),
        "watching.inactivity_timeout": chance.choice([70.0, 70.0, 20.0]),
        "watching.chunk_size": chance.choice([None, 1]),
        "watching.initial_streaming": cluster != "fake" and chance.choice([False, True]),
        "persistence.consistency_timeout": chance.choice([5.0, 0.2]),
        "execution.honor_pauses": True,
    }


def _make_timeouts(seed: str) -> dict[str, Any]:
    """In a share of lives, pauses and exits cut what works at once."""
    chance = random.Random(f"{seed}:timeouts")
    return {"queueing.exit_timeout": 0.05} if chance.random() < 0.3 else {}


def _make_budget(seed: str) -> dict[str, Any]:
    """In some lives, operators must be gentle with the API server."""
    chance = random.Random(f"{seed}:budget")
    return {"networking.qps": 20, "networking.burst": 3} if chance.random() < 0.1 else {}


def _make_calm(seed: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """In most lives, leases are renewed and streams begin more rarely in the quiet world.

    All of it still happens in each quiet time. In a share of lives, it is as often as amid faults.
    """
    if random.Random(f"{seed}:calm").random() < 0.15:
        return {}
    limits = "watching.inactivity_timeout", "watching.server_timeout"
    rare = {name: 40 for name in limits if settings[name] is not None and settings[name] < 40}
    return {"leasing.retry_period": 8.0, **rare}
