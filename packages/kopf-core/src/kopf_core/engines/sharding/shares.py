"""Shares: the shards of one process, as its parts see them."""

from collections.abc import Callable, Set
from functools import lru_cache
from typing import NamedTuple, Protocol

from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.parts import KnownKey, Part
from kopf_core.actions.happenings import Happening
from kopf_core.engines.sharding.hashing import find_shard, format_selector

REMEMBERED = 10_000
"""For how many objects Kopf remembers the shards. It asks for each object several times, and the
hash takes as long as the parsing of the object."""


class Order(NamedTuple):
    """The shards that a process has since some round."""

    round: int
    """The round of the assignment, to confirm when nothing works in other shards anymore."""

    shards: frozenset[int]


LAPSE = Order(-1, frozenset())
"""This process is not sure of its shards anymore, so it must stop at once. When it has stopped, it
confirms that, and waits for other orders."""


class Assigner(Protocol):
    """The part that knows which shards this process has."""

    async def wait(self) -> Order:
        """Wait for the next order. Orders that are replaced by newer ones can be skipped."""

    def confirm(self, round: int) -> None:
        """Tell that the order of this round is followed, so others can begin in other shards."""


class Supervision(Assigner, Protocol):
    """The supervisor of several processes, as one of these processes sees it."""

    is_first: bool
    """Whether this process has the parts that are needed once: webhooks, conversions, and sources
    of external happenings. They do not depend on shards."""

    async def hear(self, accept: Callable[[Happening], None]) -> None:
        """Let the operator accept the happenings that other processes tell from now on."""

    def tell(self, happening: Happening) -> None:
        """Tell all other processes of the happening: each of them has objects of its own."""

    async def outlive(self) -> None:
        """Wait for the end of all processes that need the webhooks of this process."""


class Share:
    """The shards in which this process may begin to handle objects. There are none at first."""

    def __init__(self) -> None:
        self.shards: Set[int] = frozenset()
        self._find_shard = lru_cache(REMEMBERED)(find_shard)

    @property
    def part(self) -> Part:
        """The objects in these shards, as servers can select them."""
        return Part(shards=format_selector(self.shards), has=self.has)

    def has(self, key: KnownKey | ObjectKey) -> bool:
        return self._find_shard(key) in self.shards

    def lapse(self) -> None:
        """Give up all shards, as other processes can have them."""
        self.shards = frozenset()
