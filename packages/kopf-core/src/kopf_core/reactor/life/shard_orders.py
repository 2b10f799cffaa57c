"""Sharding: this process handles only its part of the objects; other processes handle the rest.

The assigner gives orders, which say which shards this process has.

* In a lost shard, the process begins nothing. When nothing works there anymore, the process
  confirms the order. Then, the next owner can begin. Later orders prolong nothing: only shards that
  come back are not left anymore.
* The objects of a gained shard are listed again, as after a restart. The states that the streams
  have brought before can be older than the work of the previous owner.
* The streams request only the objects of our shards, if no part of the operator needs others.
  Servers that cannot select by shards ignore that, so each object is checked here anyway.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Set

from kopf_cogs.structs.keys import ObjectKey, object_key
from kopf_core.actions.context import Invocation
from kopf_core.engines.sharding.hashing import find_shard
from kopf_core.engines.sharding.shares import LAPSE, Assigner, Order, Share
from kopf_core.reactor.life.essentials import Essentials
from kopf_core.reactor.life.exiting import POLLING
from kopf_core.reactor.life.handling import Handling
from kopf_core.reactor.streams.modes import Mode

logger = logging.getLogger("kopf.sharding")

PAUSE = "shards"
"""The reason of the pause: the shards of this process are not known yet."""


class Sharding:
    """Follows the orders of the assigner, if there is one."""

    def __init__(self, essentials: Essentials, handling: Handling) -> None:
        self._essentials = essentials
        self._handling = handling
        self._memories = essentials.memories
        self._settings = essentials.settings
        self._assigner: Assigner | None = None
        self._leaving: dict[Set[int], asyncio.Task[None]] = {}
        """The lost shards in which something can still work, by the orders that took them away."""

        self._confirming: asyncio.Task[None] | None = None

    async def start(self, assigner: Assigner | None) -> None:
        """Pause until the first order. Call this before anything is handled."""
        self._assigner = assigner
        if assigner is not None:
            if self._essentials.share is None:
                self._essentials.share = Share()
            await self._handling.governor.impose(PAUSE, Mode.COLD)

    async def run(self) -> None:
        """Follow the orders for as long as the operator runs."""
        assigner, share = self._assigner, self._essentials.share
        if assigner is None or share is None:
            await asyncio.Event().wait()
            return
        try:
            while True:
                await self._follow(assigner, share)
        finally:
            await self._stop_leaving(self._leaving)

    async def _follow(self, assigner: Assigner, share: Share) -> None:
        """Wait for the next order, and begin to follow it, even if the previous one is not done."""
        order = await assigner.wait()
        if order == LAPSE:
            await self._stop_leaving(self._leaving)
            await self._stop_at_once(share)
            assigner.confirm(order.round)
            return
        gained, lost = order.shards - share.shards, frozenset(share.shards) - order.shards
        level = logging.INFO if gained or lost else logging.DEBUG
        logger.log(level, f"Shards of this process: {len(order.shards)}; {len(gained)} are new.")
        again = [shards for shards in self._leaving if shards & gained]
        await self._stop_leaving(again)
        share.shards = order.shards
        if gained:
            self._begin(gained)
        self._handling.governor.lift(PAUSE)
        if lost := lost.union(*again) - gained:
            self._leaving[lost] = asyncio.create_task(self._leave(lost), name="kopf-leaving-shards")
        confirming = self._confirm(assigner, share, order)
        self._confirming = asyncio.create_task(confirming, name="kopf-confirming-shards")

    async def _stop_at_once(self, share: Share) -> None:
        """Forget everything, as after a restart: others can have handled the objects by then."""
        share.lapse()
        await self._handling.governor.impose(PAUSE, Mode.CUT)
        self._memories.restart(self._handling.background.restart())
        self._handling.orchestrator.forget_plans()

    def _begin(self, gained: Set[int]) -> None:
        """Handle the objects of more shards, as after a restart.

        The records of these objects come from indexing, so they are forgotten. But if something
        works on an object, its shard was lost and regained before it was left. So no other process
        has had it, and its record is kept.
        """
        background, orchestrator = self._handling.background, self._handling.orchestrator
        for key in [key for key in self._memories if find_shard(key) in gained]:
            if not orchestrator.is_busy(key) and not background.is_running(key):
                self._memories.forget(key)
        orchestrator.renew()

    async def _stop_leaving(self, shards: Collection[Set[int]]) -> None:
        """Stop leaving these, and confirm nothing. Raises the error with which it has failed."""
        tasks = [self._leaving.pop(some) for some in [*shards]]
        tasks += [self._confirming] if self._confirming is not None else []
        self._confirming = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def _leave(self, shards: Set[int]) -> None:
        """Let the work in these shards end, and forget their objects."""
        await self.let_go(lambda key: find_shard(key) not in shards)

    async def _confirm(self, assigner: Assigner, share: Share, order: Order) -> None:
        """Confirm the order when nothing works in any of the lost shards."""
        if self._leaving:
            await asyncio.wait(self._leaving.values())
            for task in self._leaving.values():
                task.result()
            self._leaving.clear()
        self._handling.orchestrator.narrow(share.has)
        assigner.confirm(order.round)

    async def _wait_for_calls(self, is_ours: Callable[[ObjectKey], bool]) -> None:
        """Wait for the calls that have outlived their turns: the exit gives threads up."""
        ongoing = self._essentials.ongoing
        calls = [call for call in ongoing if (key := _find_key(call)) and not is_ours(key)]
        while any(call in ongoing for call in calls):  # noqa: ASYNC110  # threads set no events
            await asyncio.sleep(POLLING)

    async def let_go(self, is_ours: Callable[[ObjectKey], bool]) -> None:
        """Let the work on the objects of other processes end, and forget these objects."""
        background, orchestrator = self._handling.background, self._handling.orchestrator
        timeout = self._settings.queueing.exit_timeout
        await asyncio.gather(orchestrator.leave(is_ours), background.leave(is_ours, timeout))
        await background.leave(is_ours, timeout)  # the last turns could start something
        await self._wait_for_calls(is_ours)
        for key in [key for key in self._memories if not is_ours(key)]:
            background.forget(key)
            orchestrator.forget(key)
            self._memories.forget(key)


def _find_key(call: Invocation) -> ObjectKey | None:
    """The object for which a function is called, if it is called for an object of a resource."""
    body, resource = getattr(call.cause, "body", None), getattr(call.cause, "resource", None)
    return None if body is None or resource is None else object_key(resource, body)
