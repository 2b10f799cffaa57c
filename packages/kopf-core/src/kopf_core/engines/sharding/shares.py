"""Shares: the shards of one process, as its parts see them."""

from collections.abc import Set
from typing import NamedTuple, Protocol

from kopf_cogs.structs.keys import ObjectKey
from kopf_core.engines.sharding.hashing import find_shard


class Order(NamedTuple):
    """What a process is told to work on."""

    round: int
    """Of the assignment. It is to be confirmed when nothing works in other shards anymore."""

    shards: frozenset[int]


class Assigner(Protocol):
    """Whoever says which shards this process has."""

    async def wait(self) -> Order:
        """Wait for the next order; those that are replaced by newer ones can be skipped."""

    def confirm(self, round: int) -> None:
        """The order of that round is followed: others can begin in the other shards."""


class Share:
    """Which objects this process may begin anything for; none of them in the beginning."""

    def __init__(self) -> None:
        self.shards: Set[int] = frozenset()

    def has(self, key: ObjectKey) -> bool:
        return find_shard(key) in self.shards
