"""Membership in one peering: what is known of it, and whether this operator may work.

Everybody writes its own record first, and looks at others after that: of any two operators,
at least one sees the other. There is no I/O here, and the time is given.
"""

import datetime
import enum
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from kopf_core.engines.peering.peers import Peer, Records
from kopf_core.engines.peering.roster import Roster

LEAVING = 100
"""How many of those who have left are remembered."""


class Standing(enum.Enum):
    """Where the operator stands among its peers."""

    UNKNOWN = enum.auto()
    """The peering object was not read yet, so nothing is known."""

    ABSENT = enum.auto()
    """There is no peering object."""

    JOINING = enum.auto()
    """Our own record is not there yet; or others have had no time to notice it and to finish."""

    SUCCEEDING = enum.auto()
    """Those who were above have left, and have had no time to finish what they do."""

    LEADING = enum.auto()
    """There is nobody with the same or higher priority."""

    OUTRANKED = enum.auto()
    """There are those with higher priorities."""

    TIED = enum.auto()
    """There are those with the same priority, and nobody above: nobody works."""

    LOST = enum.auto()
    """Our own record was not refreshed in time: others can think that we are dead."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The standing, and because of whom."""

    standing: Standing
    rivals: Collection[Peer] = ()

    @property
    def is_lost(self) -> bool:
        """Whether others can have started already."""
        return self.standing is Standing.LOST

    def is_against(self, *, is_mandatory: bool, is_held: bool) -> bool:
        """Whether the operator must handle nothing, as far as this peering is concerned."""
        match self.standing:
            case Standing.LEADING:
                return False
            case Standing.ABSENT:
                return is_mandatory
            case Standing.UNKNOWN:  # new namespaces must not stop everything that works already
                return is_mandatory or is_held
        return True


@dataclass(frozen=True, slots=True)
class Moment:
    """Two kinds of time, as of one moment."""

    monotonic: float
    wall: datetime.datetime

    def is_past(self, limit: "Moment") -> bool:
        """Whether it is so by any of the clocks."""
        return self.monotonic >= limit.monotonic or self.wall >= limit.wall


NEVER = Moment(math.inf, datetime.datetime.max.replace(tzinfo=datetime.UTC))


def find_least(limits: Iterable[Moment | None]) -> Moment:
    """Until when none of these limits is over, by both clocks; never if there are none."""
    known = [limit for limit in limits if limit is not None]
    return Moment(
        min((limit.monotonic for limit in known), default=NEVER.monotonic),
        min((limit.wall for limit in known), default=NEVER.wall),
    )


@dataclass(slots=True)
class Membership:
    """What is known of one peering object, by one operator. See also :class:`Standing`.

    ``handover`` is how long (in seconds) those who work give to their handlers when paused.
    """

    identity: str
    handover: float = 0.0
    roster: Roster = field(default_factory=Roster)
    is_present: bool | None = None
    _confirmed: Moment | None = None
    """When the last of the successful requests to refresh our record was sent."""

    _leaving: list[tuple[Peer, float]] = field(default_factory=list)
    """Those who have removed their records, and when: some do it a bit before they finish."""

    _joined: float | None = None
    """Since when our record is there with no interruptions."""

    def see(self, records: Records, now: Moment) -> None:
        """The peering object is there, with these records."""
        self.is_present = True
        others = {key: peer for key, peer in records.peers.items() if key != self.identity}
        leaving = [peer for peer in self.roster.alive if peer.identity not in others]
        self._leaving = [*self._leaving, *((peer, now.monotonic) for peer in leaving)][-LEAVING:]
        self.roster.see(others, now=now.monotonic, today=now.wall)
        if self.identity not in records.peers:
            self._forget_itself()  # somebody has removed it, and can think that we are dead

    def see_absence(self) -> None:
        """There is no peering object, or it is another one already."""
        self.is_present = False
        self.roster = Roster()
        self._forget_itself()

    def confirm(self, records: Records, requested: Moment, now: Moment) -> None:
        """Our own record was written; the others are what they were right after that."""
        self.see(records, now)
        if self.identity in records.peers:
            self.roster.bury(requested.monotonic)
            self._confirmed = requested
            if self._joined is None:
                self._joined = now.monotonic

    def is_restless(self, now: Moment) -> bool:
        """Whether it is time to write and read the records again, not waiting for the schedule."""
        if not self.is_present:
            return False
        return self._confirmed is None or self.roster.has_silent(now.monotonic)

    def judge(self, priority: int, lifetime: float, now: Moment) -> Verdict:
        """Say where the operator stands now, with its priority and lifetime (in seconds)."""
        if not self.is_present:
            return Verdict(Standing.UNKNOWN if self.is_present is None else Standing.ABSENT)
        if self._is_lost(lifetime, now):
            self._joined = None
            return Verdict(Standing.LOST)
        higher = [peer for peer in self.roster.alive if peer.priority > priority]
        if higher:
            return Verdict(Standing.OUTRANKED, higher)
        equals = [peer for peer in self.roster.alive if peer.priority == priority]
        if equals:
            return Verdict(Standing.TIED, equals)
        if self._joined is None or self._confirmed is None:
            return Verdict(Standing.JOINING)
        if self.roster.alive and now.monotonic < self._joined + self.handover:
            return Verdict(Standing.JOINING, self.roster.alive)
        since = now.monotonic - self.handover
        leaving = [p for p, left in self._leaving if left > since and p.priority >= priority]
        if leaving:
            return Verdict(Standing.SUCCEEDING, leaving)
        return Verdict(Standing.LEADING)

    def get_limit(self, lifetime: float) -> Moment | None:
        """Until when others surely take us for alive; ``None`` if they do not know of us.

        They judge us by any of these clocks. The monotonic one can stand in a suspended VM.
        """
        if self._confirmed is None:
            return None
        span = lifetime * LOSS_SHARE
        wall = self._confirmed.wall + datetime.timedelta(seconds=span)
        return Moment(self._confirmed.monotonic + span, wall)

    def _is_lost(self, lifetime: float, now: Moment) -> bool:
        limit = self.get_limit(lifetime)
        return limit is not None and now.is_past(limit)

    def _forget_itself(self) -> None:
        self._confirmed = self._joined = None


LOSS_SHARE = 0.9
"""After which share of the lifetime with no signs of life an operator stops, before others start.

It is a bit earlier than the others notice it.
"""
