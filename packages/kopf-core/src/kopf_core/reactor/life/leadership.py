"""Leadership: only one of several replicas acts; the others are ready to go on.

A follower is logged in, and watches; its indices and stores are filled. But it handles nothing and
sends nothing. When it becomes the leader, it handles objects at once, with no relisting. When the
lease is lost, the operator forgets the records of all objects, as after a restart: others can have
handled the objects by the time when it leads again.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from kopf_core.engines.activities import ActivityError
from kopf_core.engines.leasing.fences import Fence
from kopf_core.intents.causes import Activity
from kopf_core.reactor.life.essentials import Essentials
from kopf_core.reactor.life.handling import Handling
from kopf_core.reactor.life.lease_names import detect_namespace, make_identity
from kopf_core.reactor.streams.modes import Mode

if TYPE_CHECKING:  # its import takes time, and few operators need it
    from kopf_core.engines.leasing.elector import Elector

logger = logging.getLogger("kopf.leasing")

PAUSE = "lease"
"""The reason of the pause: the lease is not held."""


class Leadership:
    """Takes part in the election, if there is one; pauses and resumes the operator."""

    def __init__(self, essentials: Essentials, handling: Handling) -> None:
        self._essentials = essentials
        self._handling = handling
        self._elector: Elector | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there is an election."""
        return self._essentials.settings.leasing.name is not None

    @property
    def is_leading(self) -> bool:
        """Whether this operator can act: always, if there is no election."""
        return not self.is_needed or (self._elector is not None and self._elector.is_leading)

    @property
    def identity(self) -> str:
        """The name of this operator in the election; empty if there is no election."""
        return "" if self._elector is None else self._elector.identity

    @property
    def holder(self) -> str:
        """The name of the leader, as far as it is known."""
        return "" if self._elector is None else self._elector.holder

    @property
    def obstacle(self) -> str:
        """The reason why this operator could never lead until now; empty if it could."""
        return "" if self._elector is None else self._elector.obstacle

    async def start(self) -> None:
        """Begin as a follower. Call this before anything is handled."""
        if not self.is_needed:
            return
        from kopf_core.engines.leasing.elector import Elector

        essentials, settings = self._essentials, self._essentials.settings.leasing
        fence = essentials.client.fence = Fence(essentials.options.clock)
        self._elector = Elector(
            essentials.free_client,
            settings,
            identity=make_identity(),
            clock=essentials.options.clock,
            fence=fence,
            on_leading=self._lead,
            on_following=self._follow,
        )
        await self._handling.governor.impose(PAUSE, Mode.GATED)
        self._task = asyncio.create_task(self._take_part(self._elector), name="kopf-leadership")

    async def run(self) -> None:
        """Wait for a failure, and raise it. The election goes on until :meth:`stop`."""
        if self._task is None:
            await asyncio.Event().wait()
        else:
            await asyncio.wait([self._task])
            self._task.result()

    async def stop(self) -> None:
        """Leave the election. Release the lease, unless some work still runs here."""
        if self._task is None or self._elector is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        if working := self._essentials.ongoing.describe():
            logger.warning(f"The lease is not released, as this works still: {', '.join(working)}.")
            return
        await self._elector.release(self._essentials.exit.limit)

    async def _take_part(self, elector: "Elector") -> None:
        settings = self._essentials.settings.leasing
        await self._essentials.vault.wait_for_readiness()
        settings.namespace = settings.namespace or await detect_namespace(self._essentials.client)
        who = repr(elector.identity)
        logger.info(f"This operator is {who} in the election by the lease {self._lease}.")
        await elector.run()

    @property
    def _lease(self) -> str:
        settings = self._essentials.settings.leasing
        return f"{settings.namespace}/{settings.name}"

    async def _lead(self) -> None:
        logger.info(f"This operator leads now: it holds the lease {self._lease}.")
        await self._run(Activity.LEADING)
        self._handling.governor.lift(PAUSE)

    async def _follow(self) -> None:
        logger.warning(f"The lease {self._lease} is lost: this operator does nothing now.")
        await self._handling.governor.impose(PAUSE, Mode.CUT)
        self._essentials.memories.restart(self._handling.background.restart())
        self._handling.orchestrator.forget_plans()
        self._handling.governor.demand(PAUSE, Mode.GATED)  # a follower has streams again
        try:
            await self._run(Activity.FOLLOWING)
        except ActivityError as e:
            logger.error(f"{e}")

    async def _run(self, activity: Activity) -> None:
        handlers = self._essentials.registry.get_activity_handlers(activity)
        if handlers:
            await self._essentials.activities.run(activity, handlers)
