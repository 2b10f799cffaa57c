"""Shares: the shards of one process, as its parts see them."""

from collections.abc import Set
from functools import lru_cache
from typing import NamedTuple, Protocol

from kopf_cogs.structs.keys import ObjectKey
from kopf_core.engines.sharding.hashing import find_shard

REMEMBERED = 1000
"""Of how many objects the shards are remembered: each is asked for several times in a row."""


class Order(NamedTuple):
    """What a process is told to work on."""

    round: int
    """Of the assignment. It is to be confirmed when nothing works in other shards anymore."""

    shards: frozenset[int]


class Assigner(Protocol):
    """Whoever says which shards this process has."""

    serves_webhooks: bool
    """Whether this process serves webhooks and conversions. They do not depend on shards."""

    async def wait(self) -> Order:
        """Wait for the next order; those that are replaced by newer ones can be skipped."""

    def confirm(self, round: int) -> None:
        """The order of that round is followed: others can begin in the other shards."""

    async def outlive(self) -> None:
        """Wait until the processes have ended that need the webhooks of this process."""


class Share:
    """Which objects this process may begin anything for; none of them in the beginning."""

    def __init__(self) -> None:
        self.shards: Set[int] = frozenset()
        self._find_shard = lru_cache(REMEMBERED)(find_shard)

    def has(self, key: ObjectKey) -> bool:
        return self._find_shard(key) in self.shards
