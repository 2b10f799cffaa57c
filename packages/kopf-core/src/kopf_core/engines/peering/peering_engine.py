"""All peerings of one operator: it works while none of them is against that."""

import asyncio
import logging
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Protocol

from kopf_cogs.aiokits.clocks import TimeLimit
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.resources import Resource
from kopf_core.engines.peering.peering_objects import PeeringObject, select_resource

if TYPE_CHECKING:  # the import takes time, and most clusters have no peerings
    from kopf_core.engines.peering.member import Member
    from kopf_core.engines.peering.membership import Moment
    from kopf_core.engines.peering.reports import Report

logger = logging.getLogger("kopf._core.engines.peering")

HANDOVER_RESERVE = 1.0
"""How long (in seconds) it can take other operators to notice that they must give way."""


class Brakes(Protocol):
    """The brakes of the operator. They act at once: nothing is awaited."""

    def hold(self, *, at_once: bool) -> None:
        """Handle nothing; and with ``at_once``, cancel the running work right now."""

    def release(self) -> None:
        """Handle everything, beginning with the missed changes."""


class PeeringEngine:
    """Follows the kinds and namespaces of the cluster, and takes part in each of the peerings.

    The operator is on hold until it is known that no peering is against its work.
    """

    def __init__(
        self,
        *,
        client: Client,
        settings: OperatorSettings,
        identity: str,
        brakes: Brakes,
    ) -> None:
        self._client = client
        self._settings = settings
        self._identity = identity
        self._brakes = brakes
        self._members: dict[PeeringObject, Member] = {}
        self._tasks: dict[PeeringObject, asyncio.Task[None]] = {}
        self._departing: set[asyncio.Task[None]] = set()
        self._resources: Collection[Resource] | None = None
        self._namespaces: Collection[str | None] | None = None
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_started = False
        self._is_held = False
        self._limit: Moment | None = None
        self._told: list[Report] = []
        self._ending: str | None = None
        """The message at the end of the pause, if its reasons were logged."""

    def start(self) -> bool:
        """Hold the operator until its peers are known; a standalone operator is not held."""
        if self._settings.peering.standalone:
            return False
        self._is_started = self._is_held = True
        self._brakes.hold(at_once=False)
        return True

    async def run(self) -> None:
        """Take part in the peerings for as long as the operator runs; raise if that is
        impossible.
        """
        await self._failure

    def observe_resources(self, resources: Collection[Resource]) -> None:
        """Take all kinds in the cluster now."""
        self._resources = resources
        self._adjust()

    def observe_namespaces(self, namespaces: Collection[str | None]) -> None:
        """Take all namespaces served now; ``None`` stands for the whole cluster."""
        self._namespaces = namespaces
        self._adjust()

    def is_sure(self) -> bool:
        """Whether no other operators can have taken this one for dead and have started.

        This is asked before each call of a handler, also in threads. So the members are asked only
        if a limit can have passed. The limits never become shorter.
        """
        if not self._members:
            return True
        from kopf_core.engines.peering.membership import Moment, find_least

        now = Moment(self._client.clock.monotonic(), self._client.clock.now())
        limit = self._limit
        if limit is None or now.is_past(limit):
            limit = self._limit = find_least(member.limit for member in [*self._members.values()])
        return not now.is_past(limit)

    async def leave(self, limit: TimeLimit) -> None:
        """Stop, and remove our records, after all work has ended."""
        self._is_started = False
        members, self._members = self._members, {}
        for place in members:
            self._dismiss(place)
        if self._departing:
            await asyncio.wait(self._departing)
        await asyncio.gather(*(member.leave(limit) for member in members.values()))

    # Where to take part.

    def _adjust(self) -> None:
        if not self._is_started or self._resources is None or self._namespaces is None:
            return
        wanted = list(self._get_places())
        for place in [place for place in self._members if place not in wanted]:
            del self._members[place]
            self._dismiss(place)
        for place in wanted:
            if place not in self._members:
                self._join(place)
        self._review()

    def _get_places(self) -> Iterator[PeeringObject]:
        assert self._resources is not None
        assert self._namespaces is not None
        settings = self._settings.peering
        resource = select_resource(self._resources, clusterwide=settings.clusterwide)
        if resource is None:
            return
        for namespace in [None] if settings.clusterwide else self._namespaces:
            if settings.clusterwide or namespace is not None:
                yield PeeringObject(resource, namespace, settings.name)

    def _join(self, place: PeeringObject) -> None:
        from kopf_core.engines.peering.member import Member
        from kopf_core.engines.peering.membership import Membership

        handover = self._settings.queueing.exit_timeout + HANDOVER_RESERVE
        member = self._members[place] = Member(
            client=self._client,
            place=place,
            settings=self._settings,
            membership=Membership(self._identity, handover=handover),
            on_verdict=self._review,
        )
        task = asyncio.create_task(member.run(), name=f"kopf-peering-{place}")
        task.add_done_callback(self._check)
        self._tasks[place] = task

    def _dismiss(self, place: PeeringObject) -> None:
        task = self._tasks.pop(place)
        self._departing.add(task)
        task.add_done_callback(self._departing.discard)
        task.cancel()

    def _check(self, task: asyncio.Task[None]) -> None:
        """Fail with the error of a peering task: without peering, the operator must not go on."""
        if not task.cancelled() and not self._failure.done():
            exc = task.exception()
            if exc is not None:
                self._failure.set_exception(exc)

    # Whether to work.

    def _review(self) -> None:
        if not self._is_started:
            return
        self._limit = None
        objections = [member for member in self._members.values() if self._is_against(member)]
        if objections or self._is_missing():
            self._explain(objections)
            if not self._is_held:
                self._is_held = True
                self._brakes.hold(at_once=any(member.verdict.is_lost for member in objections))
        elif self._is_held:
            self._is_held = False
            if self._ending is not None:
                logger.info(f"Resuming operations after the pause: {self._ending}.")
            self._told, self._ending = [], None
            self._brakes.release()

    def _explain(self, objections: Collection["Member"]) -> None:
        """Log why nothing is handled, unless it was logged already."""
        from kopf_core.engines.peering.reports import make_report, report_absent_kind

        reports = [make_report(member.place, member.verdict) for member in objections]
        if not objections:
            reports = [report_absent_kind(self._settings.peering)]
        told, self._told = self._told, [report for report in reports if report is not None]
        for report in self._told:
            self._ending = report.ending
            if report not in told:
                logger.log(report.level, report.text)

    def _is_missing(self) -> bool:
        """Whether the peering is mandatory, but the cluster has no kind for it."""
        return self._settings.peering.mandatory and not self._members

    def _is_against(self, member: "Member") -> bool:
        is_mandatory = self._settings.peering.mandatory
        return member.verdict.is_against(is_mandatory=is_mandatory, is_held=self._is_held)
