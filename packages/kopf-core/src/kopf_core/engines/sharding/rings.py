"""Rings: this process is one of the shards of a ``ControllerRing``.

Its sharder (the project is kubernetes-controller-sharding) assigns each object to a shard, by a
label with the name of the shard. The sharder knows the shards by their Leases:

* While the Lease is held, the shard works on the objects with its name.
* If the shard must give an object away, the sharder adds one more label: the drain. The shard stops
  its work on the object, and removes both labels. Then, the sharder assigns the object again.
* If the Lease is released, or the sharder has taken it, the sharder assigns all objects again.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kopf_cogs.aiokits.clocks import Clock, TimeLimit
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import LeasingSettings
from kopf_cogs.structs.bodies import RawBody, RawEvent
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.parts import KnownKey, Part
from kopf_cogs.structs.resources import Resource
from kopf_core.engines.leasing.elector import Elector
from kopf_core.engines.leasing.fences import Fence
from kopf_core.engines.sharding.shares import LAPSE, Order, Share

logger = logging.getLogger("kopf.sharding")

PREFIX = "alpha.sharding.timebertt.dev"
"""The prefix of the labels of the sharder."""

WHOLE = frozenset({0})
"""A process is one shard of the ring: it has this shard, or nothing."""


class Taker(Protocol):
    """The part that takes the events of an object."""

    def resume(self, key: ObjectKey, event: RawEvent) -> None:
        """Take the latest event of an object that was being left, as if it came now."""


@dataclass(slots=True, eq=False)
class Leaving:
    """One object that the shard gives away."""

    resource: Resource
    body: RawBody
    is_drained: bool
    """Whether the sharder waits until nothing works on the object here."""

    latest: dict[Taker, RawEvent] = field(default_factory=dict)
    """The latest events since then, by their takers."""


class RingShare(Share):
    """The objects that the ring has given to this process."""

    def __init__(self, ring: str, name: str) -> None:
        super().__init__()
        self.name = name
        """The name of this shard."""

        self._shard_label = f"shard.{PREFIX}/{ring}"
        self._drain_label = f"drain.{PREFIX}/{ring}"
        self.labels = self._shard_label, self._drain_label
        """The labels of the sharder on the objects."""

        self.foreign: set[ObjectKey] = set()
        """The objects in our streams that are not ours, or not anymore."""

        self.leaving: dict[ObjectKey, Leaving] = {}
        """The foreign objects on which something can still work here."""

        self.left = asyncio.Queue[tuple[ObjectKey, Leaving]]()
        """The same objects, until a task waits for the end of that work."""

    @property
    def part(self) -> Part:
        return Part(labels=f"{self._shard_label}={self.name}")

    def has(self, key: KnownKey | ObjectKey) -> bool:
        return bool(self.shards) and key not in self.foreign

    def lapse(self) -> None:
        super().lapse()
        self.foreign.clear()
        self.leaving.clear()

    def leave(self, key: ObjectKey, leaving: Leaving) -> None:
        """Begin nothing for the object from now on, and let it be given away."""
        self.foreign.add(key)
        self.leaving[key] = leaving
        self.left.put_nowait((key, leaving))

    def is_assigned(self, body: RawBody) -> bool:
        """Whether the object is assigned to this shard, even if the shard must give it away."""
        return _get_labels(body).get(self._shard_label) == self.name

    def is_drained(self, body: RawBody) -> bool:
        """Whether the object is assigned to this shard, but the shard must give it away."""
        return self.is_assigned(body) and self._drain_label in _get_labels(body)

    def make_release(self, body: RawBody) -> list[dict[str, Any]]:
        """Make the JSON patch with which the shard gives the object away.

        It does nothing if the sharder has changed its mind, or if this is another object.
        """
        assigned, drained = (f"/metadata/labels/{one.replace('/', '~1')}" for one in self.labels)
        return [
            {"op": "test", "path": "/metadata/uid", "value": body["metadata"].get("uid")},
            {"op": "test", "path": assigned, "value": self.name},
            {"op": "remove", "path": assigned},
            {"op": "remove", "path": drained},
        ]


class RingMember:
    """The assigner of a process that is a shard of the ring: by its Lease, it has all or nothing.

    The client must not have the fence. ``settings`` has the name of the Lease, which is also the
    name of the shard.
    """

    def __init__(
        self, client: Client, settings: LeasingSettings, *, ring: str, clock: Clock, fence: Fence
    ) -> None:
        name = settings.name or ""
        self.share = RingShare(ring, name)
        self._ring = ring
        self._orders = asyncio.Queue[Order]()
        self._stopped = asyncio.Event()
        self._elector = Elector(
            client,
            settings,
            identity=name,
            clock=clock,
            fence=fence,
            on_leading=self._begin,
            on_following=self._lapse,
            cargo=_RingLabel(ring),
        )

    @property
    def obstacle(self) -> str:
        """Why it has never been a shard; empty if it has."""
        return self._elector.obstacle

    async def wait(self) -> Order:
        return await self._orders.get()

    def confirm(self, round: int) -> None:
        if round == LAPSE.round:
            self._stopped.set()

    async def run(self) -> None:
        """Be a shard for as long as the operator runs."""
        await self._elector.run()

    async def release(self, limit: TimeLimit) -> None:
        """Give all objects away, as nothing works anymore. Call this only after :meth:`run`."""
        await self._elector.release(limit)

    async def _begin(self) -> None:
        logger.info(f"This operator is the shard {self.share.name!r} of the ring {self._ring!r}.")
        self._orders.put_nowait(Order(1, WHOLE))

    async def _lapse(self) -> None:
        logger.warning(f"The lease {self.share.name} is lost: this operator stops all its work.")
        self._stopped.clear()
        self._orders.put_nowait(LAPSE)
        await self._stopped.wait()


class _RingLabel:
    """The label by which the sharder finds the Lease."""

    def __init__(self, ring: str) -> None:
        self._ring = ring

    def load(self, metadata: Mapping[str, Any]) -> None:
        """Nothing is read: only the holder matters."""

    def stow(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        labels = {**(metadata.get("labels") or {}), f"{PREFIX}/controllerring": self._ring}
        return {**metadata, "labels": labels}


def _get_labels(body: RawBody) -> Mapping[str, str]:
    return body["metadata"].get("labels") or {}
