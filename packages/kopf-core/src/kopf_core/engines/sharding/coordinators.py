"""The coordinator of replicas: keeps the assignment of shards in their common Lease.

Each replica takes part in the election by the common Lease, and so it reads the assignment there.
The replica that holds the Lease writes the assignment with its renewals.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Mapping, Set
from typing import Any

from kopf_cogs.aiokits.clocks import Clock, TimeLimit
from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.rights import hint_at_role
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import LeasingSettings
from kopf_core.engines.leasing.elector import Elector
from kopf_core.engines.leasing.fences import Fence
from kopf_core.engines.leasing.lease_records import as_mapping
from kopf_core.engines.sharding.assignment_records import format_assignment, parse_assignment
from kopf_core.engines.sharding.assignments import Assignment, advance
from kopf_core.engines.sharding.roll import MEMBERS, Attendance, Roll

logger = logging.getLogger("kopf.sharding")

ASSIGNMENT = "kopf.dev/assignment"
"""The annotation of the common Lease."""

CALLING_TIMEOUT = 2.0
"""How long (in seconds) the exiting coordinator looks for the members that get its shards."""


class Coordinator:
    """Takes part in the election, and assigns the shards to the members while it is elected.

    ``on_assigned`` is called with the assignment when it is read or written, changed or not.
    """

    def __init__(
        self,
        client: Client,
        settings: LeasingSettings,
        *,
        identity: str,
        clock: Clock,
        on_assigned: Callable[[Assignment | None], None],
    ) -> None:
        self._assignment: Assignment | None = None
        self._settings = settings
        self._clock = clock
        self._on_assigned = on_assigned
        self._roll = Roll(client, settings, clock)
        self._attendance: Attendance | None = None
        self._news = asyncio.Event()
        """Something has come that the next assignment can depend on."""

        self._complaint = ""
        self._dead: Set[str] = frozenset()
        """The members of the assignment that are known to be dead."""

        self.elector = Elector(
            client,
            settings,
            identity=identity,
            clock=clock,
            fence=Fence(clock),
            on_leading=self._coordinate,
            on_following=self._forget,
            cargo=self,
        )

    def load(self, metadata: Mapping[str, Any]) -> None:
        known, self._assignment = self._assignment, _parse(metadata)
        if _get_round(self._assignment) < _get_round(known):
            self._attendance = None  # since the look, members could have begun to follow it
        self._roll.expect(_list_members(self._assignment))
        self._on_assigned(self._assignment)

    def stow(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        labels = {**as_mapping(metadata.get("labels")), MEMBERS: self._settings.name}
        assignment = self._plan(_parse(metadata))
        if assignment is None:
            return {**metadata, "labels": labels}
        own = {ASSIGNMENT: format_assignment(assignment)}
        annotations = {**as_mapping(metadata.get("annotations")), **own}
        return {**metadata, "labels": labels, "annotations": annotations}

    async def look(self) -> str:
        """Look at all Leases; return the version since which to watch their changes."""
        self.elector.hasten()
        return (await self._roll.call()).version

    def announce(self, lease: Mapping[str, Any]) -> None:
        """Notice that a stream has brought this state of the common Lease, or of a member's Lease.

        So all replicas know since when each of them is silent, also the next coordinator.
        """
        if self._roll.announce(lease):
            self._news.set()
        if lease["metadata"]["name"] != self._settings.name or self.elector.is_leading:
            return
        if self.elector.announce(lease) and _parse(lease["metadata"]) != self._assignment:
            self.elector.hasten()

    async def release(self, limit: TimeLimit) -> None:
        """Let another replica coordinate. Before that, look which members can get our shards.

        Call this only after the elector has ended.
        """
        if self._attendance is not None:
            with contextlib.suppress(APIError, TimeoutError):
                async with limit(CALLING_TIMEOUT):
                    self._attendance = await self._roll.call()
        await self.elector.release(limit)

    def _plan(self, known: Assignment | None) -> Assignment | None:
        """The next assignment; the same one if nothing must change, or if too little is known.

        If a user has removed the assignment or restored an old one, the real owners are unknown.
        Then, the members of another assignment stop, and become other members. Only then, there
        is a new assignment. Its first round is the time, so that no older assignment seems newer.
        """
        if self._attendance is None or not self._attendance.is_about(_list_members(known)):
            return known
        living = self._attendance.living
        if any(confirmed > _get_round(known) for confirmed in living.values()):
            return known
        base = known or Assignment(round=int(self._clock.now().timestamp()))
        return advance(base, living.keys(), living)

    async def _coordinate(self) -> None:
        """Look at the members regularly, at once on news, and when a member is surely dead."""
        while True:
            left = math.inf
            self._news.clear()
            try:
                async with asyncio.timeout(self._settings.renew_deadline):
                    self._attendance = await self._roll.call()
                    if self._plan(self._assignment) != self._assignment:
                        self.elector.hasten()
                    self._tell_of_dead(self._attendance.dead & _list_members(self._assignment))
                    await self._roll.bury(self._attendance.dead - _list_members(self._assignment))
                self._complaint = ""
                left = self._roll.get_left(self._attendance.living)
            except (APIError, TimeoutError) as e:
                self._complain(f"{e}{hint_at_role(e)}" or "there is no reply in time")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, self._settings.retry_period)):
                    await self._news.wait()

    def _tell_of_dead(self, names: Set[str]) -> None:
        """Log each death once."""
        for name in names - self._dead:
            lease = f"{self._settings.name}-{name}"
            logger.info(f"The replica with the lease {lease} is gone: others get its shards.")
        self._dead = names

    async def _forget(self) -> None:
        self._attendance = None

    def _complain(self, reason: str) -> None:
        """Log the problem, but only once while it lasts."""
        level = logging.DEBUG if reason == self._complaint else logging.WARNING
        logger.log(level, f"Kopf cannot tell which replicas are alive: {reason}")
        self._complaint = reason


def _list_members(assignment: Assignment | None) -> set[str]:
    """List the members that have any shard, or are going to have it."""
    shards = () if assignment is None else assignment.shards
    return {name for shard in shards for name in (shard.owner, shard.heir) if name is not None}


def _get_round(assignment: Assignment | None) -> int:
    return 0 if assignment is None else assignment.round


def _parse(metadata: Mapping[str, Any]) -> Assignment | None:
    return parse_assignment(as_mapping(metadata.get("annotations")).get(ASSIGNMENT))
