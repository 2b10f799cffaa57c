"""Replicas: the shards are assigned to the replicas of an operator by Leases.

Each replica has a Lease of its own: the membership. While it is surely held, the replica can work.
A replica that has lost its membership stops at once, and becomes another member then.
"""

import asyncio
import logging
from dataclasses import replace

from kopf_cogs.aiokits.clocks import Clock, TimeLimit
from kopf_cogs.aiokits.surroundings import get_chance
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import LeasingSettings
from kopf_core.engines.leasing.elector import Elector, LeaseLostError
from kopf_core.engines.leasing.fences import Fence
from kopf_core.engines.sharding.assignments import Assignment
from kopf_core.engines.sharding.coordinators import Coordinator
from kopf_core.engines.sharding.lookouts import Lookout
from kopf_core.engines.sharding.seats import Seat
from kopf_core.engines.sharding.shares import LAPSE, Order

logger = logging.getLogger("kopf.sharding")


class Replica:
    """The assigner of one of several replicas; they all have the same settings.

    The fence is open only while the membership is surely held. The client must not be fenced.
    """

    def __init__(
        self,
        client: Client,
        settings: LeasingSettings,
        *,
        identity: str,
        clock: Clock,
        fence: Fence,
    ) -> None:
        self._client = client
        self._settings = settings
        self._identity = identity
        self._clock = clock
        self._fence = fence
        self._orders = asyncio.Queue[Order]()
        self._stopped = asyncio.Event()
        self._seat: Seat | None = None
        self._elector: Elector | None = None
        self._coordinator = Coordinator(
            client, settings, identity=identity, clock=clock, on_assigned=self._follow
        )
        self._lookout = Lookout(
            client, settings, look=self._coordinator.look, on_state=self._coordinator.announce
        )

    @property
    def obstacle(self) -> str:
        """Why it has no part of the objects: it must join the others, and get its shards."""
        electors = [self._coordinator.elector, *([self._elector] if self._elector else [])]
        if obstacle := next((one.obstacle for one in electors if one.obstacle), ""):
            return obstacle
        has_part = self._seat is not None and self._seat.is_ordered
        return "" if has_part else "its part of the objects is not assigned yet"

    async def wait(self) -> Order:
        return await self._orders.get()

    def confirm(self, round: int) -> None:
        if round == LAPSE.round:
            self._stopped.set()
        elif self._seat is not None:
            self._seat.confirm(round)

    async def run(self) -> None:
        """Be a member for as long as the operator runs, and coordinate if elected."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._coordinator.elector.run())
                group.create_task(self._lookout.run())
                group.create_task(self._live())
        except BaseExceptionGroup as e:
            raise e.exceptions[0] from None

    async def release(self, limit: TimeLimit) -> None:
        """Give all shards away, as nothing works anymore. Call this only after :meth:`run`."""
        if self._elector is not None:
            await self._elector.release(limit)
        await self._coordinator.release(limit)

    async def _live(self) -> None:
        while True:
            await self._be_member(f"{get_chance().getrandbits(40):010x}")
            self._seat = None
            self._stopped.clear()
            self._orders.put_nowait(LAPSE)
            await self._stopped.wait()

    async def _be_member(self, member: str) -> None:
        """Live one life as a member: until the membership lapses."""
        lease = f"{self._settings.name}-{member}"

        async def on_joined() -> None:
            logger.info(f"This operator is a member of the replicas now, by the lease {lease}.")

        async def on_lapsed() -> None:
            logger.warning(f"The lease {lease} is lost: this operator gives all its shards up.")

        self._seat = seat = Seat(
            member,
            self._settings.name or "",
            give=self._orders.put_nowait,
            hasten=lambda: elector.hasten(),
        )
        self._elector = elector = Elector(
            self._client,
            replace(self._settings, name=lease, exit_on_loss=True),
            identity=self._identity,
            clock=self._clock,
            fence=self._fence,
            on_leading=on_joined,
            on_following=on_lapsed,
            cargo=seat,
        )
        await self._hold(elector, seat)

    async def _hold(self, elector: Elector, seat: Seat) -> None:
        """Keep the membership until it lapses, or the assignment contradicts it."""
        holding = asyncio.create_task(elector.run())
        ending = asyncio.create_task(seat.is_over.wait())
        try:
            await asyncio.wait([holding, ending], return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                text = f"By the lease {self._settings.name}, this operator does not have its shards"
                logger.warning(f"{text} anymore: it stops all its work.")
            elif not isinstance(holding.exception(), LeaseLostError):
                holding.result()
        finally:
            holding.cancel()
            ending.cancel()
            self._fence.close()
            await asyncio.wait([holding, ending])

    def _follow(self, assignment: Assignment | None) -> None:
        if self._seat is not None:
            self._seat.follow(assignment)
