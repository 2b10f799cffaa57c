"""Replication: this operator is one of several replicas, each with its part of the objects.

It takes part until everything has ended here: only then, its shards are given away.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from kopf_cogs.configs.settings import LeasingSettings
from kopf_core.engines.leasing.fences import Fence
from kopf_core.engines.sharding.shares import Assigner
from kopf_core.reactor.life.essentials import Essentials
from kopf_core.reactor.life.lease_names import detect_namespace, make_identity

if TYPE_CHECKING:  # its import takes time, and few operators need it
    from kopf_core.engines.sharding.replicas import Replica

logger = logging.getLogger("kopf.sharding")


class Replication:
    """Shares the objects with other replicas by Leases, if the settings name these."""

    def __init__(self, essentials: Essentials) -> None:
        self._essentials = essentials
        self._replica: Replica | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def obstacle(self) -> str:
        """Why this operator was never one of the replicas until now; empty if it was."""
        return "" if self._replica is None else self._replica.obstacle

    def start(self) -> Assigner | None:
        """Begin to take part, if it is needed; get the one who says what is to be handled here."""
        if self._essentials.settings.sharding.name is not None:
            self._begin()
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

    def _begin(self) -> None:
        from kopf_core.engines.sharding.replicas import Replica

        essentials, sharding = self._essentials, self._essentials.settings.sharding
        settings = LeasingSettings(
            name=sharding.name,
            duration=sharding.duration,
            renew_deadline=sharding.renew_deadline,
            retry_period=sharding.retry_period,
        )
        fence = essentials.client.fence = Fence(essentials.options.clock)
        self._replica = Replica(
            essentials.free_client,
            settings,
            identity=make_identity(),
            clock=essentials.options.clock,
            fence=fence,
        )
        taking_part = self._take_part(self._replica, settings)
        self._task = asyncio.create_task(taking_part, name="kopf-replication")

    async def _take_part(self, replica: "Replica", settings: LeasingSettings) -> None:
        essentials, sharding = self._essentials, self._essentials.settings.sharding
        await essentials.vault.wait_for_readiness()
        sharding.namespace = sharding.namespace or await detect_namespace(essentials.client)
        settings.namespace = sharding.namespace
        await replica.run()
