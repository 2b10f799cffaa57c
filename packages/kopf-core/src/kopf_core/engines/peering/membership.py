"""Membership in one peering: the known facts of it, and whether this operator may work.

Each operator writes its own record first, and then looks at the other records. So, of any two
operators, at least one sees the other. This module has no I/O, and the time is given.
"""

import datetime
import enum
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from kopf_core.engines.peering.peers import Peer, Records
from kopf_core.engines.peering.roster import Roster

LEAVING = 100
"""How many operators that have left are remembered."""


class Standing(enum.Enum):
    """The standing of the operator among its peers."""

    UNKNOWN = enum.auto()
    """The peering object was not read yet, so nothing is known."""

    ABSENT = enum.auto()
    """The peering object is absent."""

    JOINING = enum.auto()
    """Our own record is absent; or other operators have had no time to notice it and to finish."""

    SUCCEEDING = enum.auto()
    """The operators of higher ranks have left, but have had no time to finish their work."""

    LEADING = enum.auto()
    """No other operator has the same or a higher priority."""

    OUTRANKED = enum.auto()
    """Other operators have higher priorities."""

    TIED = enum.auto()
    """Other operators have the same priority, and none has a higher one: none of them works."""

    LOST = enum.auto()
    """Our own record was not refreshed in time: other operators can take this one for dead."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The standing, and the operators that have caused it."""

    standing: Standing
    rivals: Collection[Peer] = ()

    @property
    def is_lost(self) -> bool:
        """Whether other operators can have started already."""
        return self.standing is Standing.LOST

    def is_against(self, *, is_mandatory: bool, is_held: bool) -> bool:
        """Whether this peering requires that the operator handles nothing."""
        match self.standing:
            case Standing.LEADING:
                return False
            case Standing.ABSENT:
                return is_mandatory
            case Standing.UNKNOWN:  # new namespaces must not stop the work in others
                return is_mandatory or is_held
        return True


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment by two clocks."""

    monotonic: float
    wall: datetime.datetime

    def is_past(self, limit: "Moment") -> bool:
        """Whether the moment has passed by any of the clocks."""
        return self.monotonic >= limit.monotonic or self.wall >= limit.wall


NEVER = Moment(math.inf, datetime.datetime.max.replace(tzinfo=datetime.UTC))


def find_least(limits: Iterable[Moment | None]) -> Moment:
    """The moment until which all these limits last, by both clocks; never if there are none."""
    known = [limit for limit in limits if limit is not None]
    return Moment(
        min((limit.monotonic for limit in known), default=NEVER.monotonic),
        min((limit.wall for limit in known), default=NEVER.wall),
    )


@dataclass(slots=True)
class Membership:
    """The facts that one operator knows of one peering object. See also :class:`Standing`.

    ``handover`` is how long (in seconds) the working operators let their handlers finish when
    paused.
    """

    identity: str
    handover: float = 0.0
    roster: Roster = field(default_factory=Roster)
    is_present: bool | None = None
    _confirmed: Moment | None = None
    """The time of the last successful request that has refreshed our record."""

    _leaving: list[tuple[Peer, float]] = field(default_factory=list)
    """The operators that have removed their records, and the times: some do so before they finish.
    """

    _joined: float | None = None
    """Since when our record is there without interruptions."""

    def see(self, records: Records, now: Moment) -> None:
        """The peering object is there, with these records."""
        self.is_present = True
        others = {key: peer for key, peer in records.peers.items() if key != self.identity}
        leaving = [peer for peer in self.roster.alive if peer.identity not in others]
        self._leaving = [*self._leaving, *((peer, now.monotonic) for peer in leaving)][-LEAVING:]
        self.roster.see(others, now=now.monotonic, today=now.wall)
        if self.identity not in records.peers:
            self._forget_itself()  # others have removed it, and can take this operator for dead

    def see_absence(self) -> None:
        """The peering object is absent, or it is another one already."""
        self.is_present = False
        self.roster = Roster()
        self._forget_itself()

    def confirm(self, records: Records, requested: Moment, now: Moment) -> None:
        """Our own record was written; the reply has shown the other records."""
        self.see(records, now)
        if self.identity in records.peers:
            self.roster.bury(requested.monotonic)
            self._confirmed = requested
            if self._joined is None:
                self._joined = now.monotonic

    def is_restless(self, now: Moment) -> bool:
        """Whether the records must be written and read at once, ahead of the schedule."""
        if not self.is_present:
            return False
        return self._confirmed is None or self.roster.has_silent(now.monotonic)

    def judge(self, priority: int, lifetime: float, now: Moment) -> Verdict:
        """Judge the standing of the operator now, with its priority and lifetime (in seconds)."""
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
        """Until when others surely take this operator for alive; ``None`` if they do not know of
        it.

        They judge by any of these clocks. The monotonic one can stand still in a suspended VM.
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
"""The share of the lifetime after which a silent operator stops, before others start.

It is a bit less than the whole, as others notice the silence at its end.
"""
