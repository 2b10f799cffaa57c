"""Assignments: which member has which shard, and how a shard changes hands.

The coordinator makes the next assignment of the current one. The members follow it.
A shard goes from one living member to another in three steps:

1. The assignment names the heir. Since then, the owner begins nothing in this shard. It waits
   until nothing works there anymore, and confirms the round of that assignment.
2. The assignment names the heir as the owner, and has no heir anymore.
3. The new owner sees that, and begins.

The shards of a member that is surely dead go to others at once, by the steps 2 and 3.

A member is one life of a process: if the process is not sure that it is considered alive,
it is another member from then on. So a dead member remains dead.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kopf_core.engines.sharding.hashing import SHARDS


class Shard(NamedTuple):
    """The holders of one shard."""

    owner: str | None = None
    """The member that works on its objects. If there is an heir, it only ends its work there."""

    heir: str | None = None
    """The member that gets the shard when the owner has confirmed."""

    since: int = 0
    """The round in which the owner was asked to give the shard away."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The holders of all shards."""

    shards: tuple[Shard, ...] = (Shard(),) * SHARDS
    round: int = 0
    """How many times it was changed."""

    def get_share(self, member: str) -> frozenset[int]:
        """The shards in which the member may begin anything."""
        return frozenset(
            number
            for number, shard in enumerate(self.shards)
            if shard.owner == member and shard.heir is None
        )

    def names(self, member: str) -> bool:
        """Whether the member has any shard, or is going to have it."""
        return any(member in (shard.owner, shard.heir) for shard in self.shards)


def advance(
    assignment: Assignment, members: Collection[str], confirmed: Mapping[str, int]
) -> Assignment:
    """The next assignment for these living members; the same one if there is nothing to change.

    ``confirmed`` has the latest round that each of them has confirmed. Call this again when
    members come or die, and when they confirm.
    """
    round = assignment.round + 1
    shards = tuple(_hand_over(shard, confirmed) for shard in assignment.shards)
    pairs = zip(shards, _plan(shards, members), strict=True)
    revised = tuple(_ask(shard, wanted, members, round) for shard, wanted in pairs)
    return assignment if revised == assignment.shards else Assignment(revised, round)


def _hand_over(shard: Shard, confirmed: Mapping[str, int]) -> Shard:
    """Make the heir the owner if the previous owner has nothing at work there."""
    if shard.heir is None or shard.owner is None or confirmed.get(shard.owner, -1) < shard.since:
        return shard
    return Shard(shard.heir)


def _ask(shard: Shard, wanted: str | None, members: Collection[str], round: int) -> Shard:
    """Give the shard to its planned member; if it has a living owner, ask that owner first."""
    if wanted == shard.owner or shard.owner not in members:
        return Shard(wanted)
    return Shard(shard.owner, wanted, shard.since if shard.heir is not None else round)


def _plan(shards: Collection[Shard], members: Collection[str]) -> list[str | None]:
    """Choose a member for each of the shards; ``None`` if there are no members."""
    plan = [_find_holder(shard, members) for shard in shards]
    held = {member: plan.count(member) for member in members}
    owned = {member: sum(shard.owner == member for shard in shards) for member in members}
    least, rest = divmod(len(plan), max(1, len(members)))
    ranking = sorted(members, key=lambda one: (-held[one], -owned[one], one))
    lacks = {member: least + (place < rest) - held[member] for place, member in enumerate(ranking)}
    for number, shard in sorted(enumerate(shards), key=lambda pair: pair[1].owner == plan[pair[0]]):
        holder = plan[number]  # the shards that it does not own yet are taken away first
        if holder is not None and lacks[holder] < 0:
            lacks[holder] += 1
            plan[number] = None
        if plan[number] is None and shard.owner is not None and lacks.get(shard.owner, 0) > 0:
            lacks[shard.owner] -= 1
            plan[number] = shard.owner
    takers = [member for member in ranking for _ in range(lacks[member])]
    free = [number for number, holder in enumerate(plan) if holder is None]
    for number, taker in zip(free, takers, strict=False):
        plan[number] = taker
    return plan


def _find_holder(shard: Shard, members: Collection[str]) -> str | None:
    """Find the living member that has the shard, or is going to have it."""
    return next((one for one in (shard.heir, shard.owner) if one in members), None)
