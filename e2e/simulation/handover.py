"""A model of the hand-over of shards: all that can happen to three replicas, in all orders.

The assignments are made and read by the functions of the operator itself. Around them, there are
replicas and a store as the API is: it takes a change only if nobody else has changed the same
meanwhile. Requests and replies are on their way for any time, or are lost. Replicas crash, are
suspended, or are cut off from the store. Every replica can be the coordinator at any time, also
several at once: the election makes that rare, but nothing depends on it.

A replica acts while it is sure that the others consider it alive: by its own clock. It is
considered dead only after that: at any time then, or never. When it is sure no more, it begins
another life, which is another member.

For each state that is reached, this is checked:

* no shard has two owners: two replicas that work in it, and are sure that they may;
* no shard is left alone for ever: if nothing more goes wrong, each of them gets its only owner,
  and the load is even, in a bounded number of steps.

Usage: ``python -m e2e.simulation.handover [--budget crash=1,pause=1,...] [--started ab]``.
"""

from __future__ import annotations

import argparse
import collections
import functools
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from e2e.simulation.model import parse_budget
from kopf_core.engines.sharding.assignments import Assignment, Shard, advance

NAMES = ("a", "b", "c")
SHARDS = 4
BOUND = 60
"""In how many rounds of everything a state must come to rest."""

BUDGET = {"crash": 1, "lost": 1}
"""How many times each of the faults happens, at most."""

EMPTY: frozenset[int] = frozenset()


class Message(NamedTuple):
    """What a replica has sent to be stored, and it is not there yet."""

    life: int
    round: int


NOBODY = Message(0, 0)


class Replica(NamedTuple):
    """One replica, and what is on its way to it and from it."""

    name: str
    is_up: bool = False
    is_paused: bool = False
    is_sure: bool = False
    """Whether it may act, by its own clock."""

    life: int = 0
    view: Assignment | None = None
    working: frozenset[int] = EMPTY
    """In which shards something works: its share, or more while it drains."""

    reply: Assignment | None = None
    """The assignment that is on its way to it."""

    confirmation: Message | None = None
    change: Assignment | None = None
    """The assignment that is on its way to the store: it replaces the one of the round before."""

    @property
    def member(self) -> str:
        return f"{self.name}{self.life}"

    @property
    def share(self) -> frozenset[int]:
        return EMPTY if self.view is None else self.view.get_share(self.member)

    @property
    def can_work(self) -> bool:
        return self.is_up and not self.is_paused and self.is_sure


class World(NamedTuple):
    """One state of everything."""

    replicas: tuple[Replica, ...]
    budget: tuple[tuple[str, int], ...]
    assignment: Assignment = Assignment((Shard(),) * SHARDS)
    stored: tuple[Message, ...] = (NOBODY,) * len(NAMES)
    """The memberships: the life of each replica, and which round it has confirmed."""

    def change(self, replica: Replica) -> World:
        replicas = (replica if one.name == replica.name else one for one in self.replicas)
        return self._replace(replicas=tuple(replicas))

    def store(self, replica: Replica, message: Message) -> World:
        place = NAMES.index(replica.name)
        return self._replace(stored=(*self.stored[:place], message, *self.stored[place + 1 :]))

    def spend(self, fault: str) -> World:
        budget = tuple((name, count - (name == fault)) for name, count in self.budget)
        return self._replace(budget=budget)

    def can(self, fault: str) -> bool:
        return dict(self.budget).get(fault, 0) > 0

    @property
    def members(self) -> frozenset[str]:
        """Those that are members by what is in the store; they can be dead already."""
        pairs = zip(self.replicas, self.stored, strict=True)
        return frozenset(f"{one.name}{message.life}" for one, message in pairs if message.life)

    def is_awaiting(self, one: Replica) -> bool:
        """Whether the others wait for its confirmation, as it sees that."""
        confirmed = self.stored[NAMES.index(one.name)].round
        return one.view is not None and any(
            shard.owner == one.member and shard.heir is not None and shard.since > confirmed
            for shard in one.view.shards
        )

    @property
    def mortal(self) -> list[Replica]:
        """Those whose membership can be removed: surely, they are not sure of it anymore."""
        return [one for one in self.replicas if one.member in self.members and not one.is_sure]


Step = tuple[str, World]


@functools.cache
def plan(assignment: Assignment, members: frozenset[str], *stored: Message) -> Assignment:
    """What a coordinator makes of what is in the store."""
    pairs = zip(NAMES, stored, strict=True)
    return advance(assignment, members, {f"{name}{one.life}": one.round for name, one in pairs})


def list_steps(world: World) -> Iterator[Step]:
    """Everything that can happen in this state."""
    for replica in world.replicas:
        for kind in (_list_works, _list_arrivals, _list_faults):
            for what, after in kind(world, replica):
                yield f"{replica.name}: {what}", simplify(after)


def simplify(world: World) -> World:
    """Leave out what can have no effect anymore, so that the same states are the same."""
    for one, known in zip(world.replicas, world.stored, strict=True):
        message, change = one.confirmation, one.change
        if message and (message.life != known.life or message.round <= known.round):
            world = world.change(one := one._replace(confirmation=None))
        if change and change.round != world.assignment.round + 1:
            world = world.change(one := one._replace(change=None))
        if not one.is_sure and one.view is not None:
            world = world.change(one._replace(view=None, reply=None, working=EMPTY))
    return world


def _list_works(world: World, one: Replica) -> Iterator[Step]:
    """What the replica does by itself."""
    if not one.is_up or (one.is_up and not one.is_paused and not one.is_sure):
        born = Replica(one.name, True, is_sure=True, life=one.life + 1)
        born = born._replace(confirmation=one.confirmation, change=one.change)
        yield "begins a life", world.change(born).store(born, Message(born.life, 0))
    if not one.can_work:
        return
    if one.reply is None and one.view != world.assignment:
        yield "asks", world.change(one._replace(reply=world.assignment))
    if one.working - one.share:
        yield "drains", world.change(one._replace(working=one.working & one.share))
    elif one.view is not None and one.confirmation is None and world.is_awaiting(one):
        sent = Message(one.life, one.view.round)
        yield "confirms", world.change(one._replace(confirmation=sent))
    for dead in world.mortal:
        yield f"buries {dead.name}", world.store(dead, NOBODY)
    planned = plan(world.assignment, world.members, *world.stored)
    if one.change is None and planned != world.assignment:
        yield "plans", world.change(one._replace(change=planned))


def _list_arrivals(world: World, one: Replica) -> Iterator[Step]:
    """What was on its way to or from the replica, and is there now."""
    if one.reply is not None and one.can_work:
        view = one.reply
        got = one._replace(view=view, reply=None, working=one.working | view.get_share(one.member))
        yield "sees", world.change(got)
    if one.confirmation is not None:
        known = world.stored[NAMES.index(one.name)]
        after = world.change(one._replace(confirmation=None))
        is_fit = known.life == one.confirmation.life and known.round < one.confirmation.round
        yield "has confirmed", after.store(one, one.confirmation) if is_fit else after
    if one.change is not None:
        after = world.change(one._replace(change=None))
        is_fit = one.change.round == world.assignment.round + 1
        yield "has planned", after._replace(assignment=one.change) if is_fit else after


def _list_faults(world: World, one: Replica) -> Iterator[Step]:
    """What goes wrong, and what ends that."""
    if one.is_paused:
        yield "goes on", world.change(one._replace(is_paused=False))
        if one.is_sure:
            yield "is paused for long", world.change(one._replace(is_sure=False))
    if one.is_up and world.can("crash"):
        dead = one._replace(is_up=False, is_paused=False, is_sure=False, working=EMPTY, view=None)
        yield "crashes", world.change(dead._replace(reply=None)).spend("crash")
    if one.can_work and world.can("pause"):
        yield "is paused", world.change(one._replace(is_paused=True)).spend("pause")
    if one.can_work and world.can("cut"):
        yield "is cut off", world.change(one._replace(is_sure=False)).spend("cut")
    if world.can("lost"):
        for what in ("reply", "confirmation", "change"):
            if getattr(one, what) is not None:
                yield f"{what} is lost", world.change(one._replace(**{what: None})).spend("lost")


def find_conflicts(world: World) -> list[str]:
    """The shards that have two owners now."""
    acting = [one for one in world.replicas if one.is_up and one.is_sure]
    return [
        f"{first.name} and {second.name} work in {sorted(first.working & second.working)}"
        for first, second in combinations(acting, 2)
        if first.working & second.working
    ]


def start(world: World, name: str) -> World:
    """Start the replica, and let everything come to rest."""
    world = next(_list_works(world, world.replicas[NAMES.index(name)]))[1]
    while (after := settle(world)) != world:
        world = after
    return world


def settle(world: World) -> World:
    """Let each replica do one thing of what it can, with no faults. Those that are down stay so."""
    for place in range(len(NAMES)):
        one = world.replicas[place]
        if one.is_paused:
            one = one._replace(is_paused=False)
            world = world.change(one)
        steps = [*_list_arrivals(world, one), *(_list_works(world, one) if one.is_up else ())]
        world = steps[0][1] if steps else world
    return world


def _judge(world: World) -> list[str]:
    living = [one for one in world.replicas if one.is_up]
    if not living:
        return []
    working = sorted(shard for one in living for shard in one.working)
    loads = [len(one.working) for one in living]
    if working != [*range(SHARDS)]:
        return [f"these shards are worked in: {working}"]
    return [f"the load is uneven: {loads}"] if max(loads) - min(loads) > 1 else []


class Exploration:
    """The search through all states, the nearest ones first."""

    def __init__(self, budget: dict[str, int], limit: int, started: str = "") -> None:
        first = World(tuple(map(Replica, NAMES)), tuple(sorted(budget.items())))
        for name in started:
            first = start(first, name)
        self.limit = limit
        self.origins: dict[World, tuple[World | None, str]] = {first: (None, f"{started} work")}
        """How each state was reached for the first time: from which one, and by what."""

        self.steps = 0
        self.problems: list[tuple[World, list[str]]] = []
        self._line = collections.deque([first])
        self._rests: dict[World, list[str]] = {}

    @property
    def is_complete(self) -> bool:
        return not self._line

    def run(self) -> None:
        while self._line and len(self.origins) < self.limit and len(self.problems) < 5:
            world = self._line.popleft()
            for what, after in list_steps(world):
                self.steps += 1
                if after not in self.origins:
                    self.origins[after] = world, what
                    self._line.append(after)
                    if problems := find_conflicts(after) or self.find_orphans(after):
                        self.problems.append((after, problems))

    def find_orphans(self, world: World) -> list[str]:
        """What is wrong with the state to which it comes if nothing more goes wrong."""
        path = [world._replace(budget=())]
        while path[-1] not in self._rests and len(path) < BOUND:
            after = settle(path[-1])
            if after == path[-1]:
                self._rests[after] = _judge(after)
            path.append(after)
        problems = self._rests.get(path[-1], [f"it does not come to rest in {BOUND} rounds"])
        self._rests |= dict.fromkeys(path, problems)
        return problems

    def tell(self, world: World) -> list[str]:
        """What has led to the state, from the beginning."""
        story: list[str] = []
        origin: World | None = world
        while origin is not None:
            origin, what = self.origins[origin]
            story.append(what)
        return story[::-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--budget", type=parse_budget, default=BUDGET)
    parser.add_argument("--limit", type=int, default=1_000_000)
    parser.add_argument("--started", default="ab", help="Who works in the beginning.")
    args = parser.parse_args()
    exploration = Exploration(args.budget, args.limit, args.started)
    exploration.run()
    kind = "all" if exploration.is_complete else "the first"
    print(f"{len(exploration.origins)} states ({kind}), {exploration.steps} steps.")
    for world, problems in exploration.problems:
        print(f"- {'; '.join(problems)}: {' > '.join(exploration.tell(world))}")
    return int(bool(exploration.problems))


if __name__ == "__main__":
    raise SystemExit(main())
