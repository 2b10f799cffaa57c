"""Replication: this operator is one of several replicas, each with its part of the objects.

It takes part until everything has ended here: only then, its shards are given away.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.configs.settings import LeasingSettings, ShardingSettings
from kopf_core.engines.leasing.fences import Fence
from kopf_core.engines.sharding.shares import Assigner
from kopf_core.reactor.life.essentials import Essentials
from kopf_core.reactor.life.lease_names import detect_namespace, make_identity, make_shard_name

if TYPE_CHECKING:  # its import takes time, and few operators need it
    from kopf_core.engines.sharding.replicas import Replica
    from kopf_core.engines.sharding.rings import RingMember, RingShare

logger = logging.getLogger("kopf.sharding")


def choose_term(settings: LeasingSettings) -> float:
    """Choose for how many seconds the Leases of replicas last: until the middle of the settings.

    The first half of the time between them is for late requests of a replica that stops working.
    The second half is for the other replicas: to notice the silence, and to move the shards.
    """
    return (settings.renew_deadline + settings.duration) / 2


class Replication:
    """Shares the objects with other replicas, if the settings name their Leases or their ring."""

    def __init__(self, essentials: Essentials) -> None:
        self._essentials = essentials
        self._replica: Replica | RingMember | None = None
        self.ring: RingShare | None = None
        """The objects that are ours by a ring, if this operator is a shard of a ring."""

        self._task: asyncio.Task[None] | None = None

    @property
    def obstacle(self) -> str:
        """Why this operator was never one of the replicas until now; empty if it was."""
        return "" if self._replica is None else self._replica.obstacle

    def start(self) -> Assigner | None:
        """Begin to take part, if it is needed; return the assigner of our part of the objects."""
        sharding = self._essentials.settings.sharding
        if sharding.name is not None or sharding.ring is not None:
            self._begin(sharding)
        return self._replica

    async def run(self) -> None:
        """Wait for a failure, and raise it. The replica takes part until :meth:`stop`."""
        if self._task is None:
            await asyncio.Event().wait()
        else:
            await asyncio.wait([self._task])
            self._task.result()

    async def stop(self) -> None:
        """Take no part anymore. Give the shards away, unless some work still runs here."""
        if self._task is None or self._replica is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        if working := self._essentials.ongoing.describe():
            text = f"The shards are not given away, as this works still: {', '.join(working)}."
            logger.warning(text)
            return
        await self._replica.release(self._essentials.exit.limit)

    def _begin(self, sharding: ShardingSettings) -> None:
        settings = LeasingSettings(
            name=sharding.name,
            duration=sharding.duration,
            renew_deadline=sharding.renew_deadline,
            retry_period=sharding.retry_period,
        )
        clock = self._essentials.options.clock
        fence = self._essentials.client.fence = Fence(clock)
        make = self._make_replica if sharding.ring is None else self._join_ring
        self._replica = make(settings, clock, fence)
        taking_part = self._take_part(self._replica, settings)
        self._task = asyncio.create_task(taking_part, name="kopf-replication")

    def _make_replica(self, settings: LeasingSettings, clock: Clock, fence: Fence) -> "Replica":
        from kopf_core.engines.sharding.replicas import Replica

        client, identity = self._essentials.free_client, make_identity()
        settings.duration = choose_term(settings)
        return Replica(client, settings, identity=identity, clock=clock, fence=fence)

    def _join_ring(self, settings: LeasingSettings, clock: Clock, fence: Fence) -> "RingMember":
        from kopf_core.engines.sharding.rings import RingMember

        essentials, ring = self._essentials, self._essentials.settings.sharding.ring or ""
        settings.name = make_shard_name()
        client = essentials.free_client
        member = RingMember(client, settings, ring=ring, clock=clock, fence=fence)
        essentials.share = self.ring = member.share
        # The labels of the sharder are not changes of the objects.
        storage = essentials.settings.persistence.diffbase_storage
        labels = [("metadata", "labels", label) for label in member.share.labels]
        storage.ignored_fields = [*dict.fromkeys([*storage.ignored_fields, *labels])]
        return member

    async def _take_part(self, replica: "Replica | RingMember", settings: LeasingSettings) -> None:
        essentials, sharding = self._essentials, self._essentials.settings.sharding
        await essentials.vault.wait_for_readiness()
        sharding.namespace = sharding.namespace or await detect_namespace(essentials.client)
        settings.namespace = sharding.namespace
        await replica.run()
