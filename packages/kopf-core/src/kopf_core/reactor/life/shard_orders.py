"""Sharding: this process handles only its part of the objects; other processes handle the rest.

Whoever coordinates says by orders which shards are ours. What is not ours anymore, is left at once:
nothing begins there. When nothing works there either, the order is confirmed, so that others can
begin. What is ours since now, is listed anew, as after a restart: so nothing is acted upon by what
the streams have brought before, when its previous owner was at work.
"""

import asyncio
import logging
from collections.abc import Set

from kopf_core.engines.sharding.hashing import find_shard
from kopf_core.engines.sharding.shares import Assigner, Order, Share
from kopf_core.reactor.life.essentials import Essentials
from kopf_core.reactor.life.handling import Handling
from kopf_core.reactor.streams.modes import Mode

logger = logging.getLogger("kopf.sharding")

PAUSE = "shards"
"""Why nothing is handled: it is not known yet what is ours."""


class Sharding:
    """Follows the orders of the assigner, if there is one."""

    def __init__(self, essentials: Essentials, handling: Handling) -> None:
        self._handling = handling
        self._memories = essentials.memories
        self._settings = essentials.settings
        self._assigner = essentials.options.assigner
        self._share = essentials.share
        self._leaving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin with nothing; to be called before anything is handled."""
        if self._assigner is not None:
            await self._handling.governor.impose(PAUSE, Mode.COLD)

    async def run(self) -> None:
        """Follow the orders for as long as the operator runs."""
        if self._assigner is None or self._share is None:
            await asyncio.Event().wait()
            return
        try:
            while True:
                await self._follow(self._assigner, self._share)
        finally:
            await self._stop_leaving()

    async def _follow(self, assigner: Assigner, share: Share) -> None:
        """Wait for the next order, and begin to follow it, though the latest one goes on."""
        order = await assigner.wait()
        await self._stop_leaving()
        gained = order.shards - share.shards
        logger.debug(f"Order {order.round}: {len(order.shards)} shards, {len(gained)} are new.")
        share.shards = order.shards
        if gained:
            self._begin(gained)
        self._handling.governor.lift(PAUSE)
        leaving = self._leave(assigner, share, order)
        self._leaving = asyncio.create_task(leaving, name="kopf-leaving-shards")

    def _begin(self, gained: Set[int]) -> None:
        """Handle the objects of more shards, as after a restart.

        Their records are those of indexing. Or else, the shard was taken away and given back while
        something works there: then, nobody else has had it meanwhile.
        """
        background, orchestrator = self._handling.background, self._handling.orchestrator
        for key in [key for key in self._memories if find_shard(key) in gained]:
            if not orchestrator.is_busy(key) and not background.is_running(key):
                self._memories.forget(key)
        orchestrator.renew()

    async def _stop_leaving(self) -> None:
        """The next order says anew what is to be left. Raises the errors of the latest one."""
        leaving, self._leaving = self._leaving, None
        if leaving is not None:
            leaving.cancel()
            await asyncio.wait([leaving])
            if not leaving.cancelled():
                leaving.result()

    async def _leave(self, assigner: Assigner, share: Share, order: Order) -> None:
        """Let everything end in the shards of others, forget their objects, and say so."""
        background, orchestrator = self._handling.background, self._handling.orchestrator
        timeout = self._settings.queueing.exit_timeout
        await asyncio.gather(orchestrator.leave(share.has), background.leave(share.has, timeout))
        await background.leave(share.has, timeout)  # the last turns could start something
        for key in [key for key in self._memories if not share.has(key)]:
            background.forget(key)
            orchestrator.forget(key)
            self._memories.forget(key)
        assigner.confirm(order.round)
