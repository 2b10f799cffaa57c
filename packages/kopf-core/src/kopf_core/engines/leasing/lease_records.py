"""The records of leases: the content of the object, and its meaning for this operator.

The rules are the same as in client-go, so that all tools agree on the leader. The times in the
object are for people only, as the clocks of other machines can be wrong. A holder is alive for as
long as its record keeps changing. This operator measures that by its own monotonic clock.
"""

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_TRANSITIONS = 2**31 - 1
"""The largest number that fits into the object. Other clients can have written any number."""

MAX_DURATION = 2**31 - 1
"""The largest number of seconds that fits into the object."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of a Lease. ``holder`` is empty if it was released."""

    holder: str = ""
    duration: float = 0.0
    """For how many seconds the lease is held without a renewal; zero if the record does not say."""

    transitions: int = 0
    acquired: str | None = None
    renewed: str | None = None

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> "LeaseRecord":
        """Parse the object; unusable fields are as if they were absent."""
        spec = as_mapping(body.get("spec"))
        holder, acquired, renewed = (
            spec.get(name) for name in ("holderIdentity", "acquireTime", "renewTime")
        )
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if not isinstance(duration, int) or not 0 < duration <= MAX_DURATION:
            duration = 0
        return cls(
            holder=holder if isinstance(holder, str) else "",
            duration=float(duration),
            transitions=transitions if isinstance(transitions, int) else 0,
            acquired=acquired if isinstance(acquired, str) else None,
            renewed=renewed if isinstance(renewed, str) else None,
        )

    def as_spec(self) -> dict[str, Any]:
        """The ``spec`` of the object."""
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": max(1, math.ceil(self.duration)),
            "leaseTransitions": self.transitions,
            "acquireTime": self.acquired,
            "renewTime": self.renewed,
        }


@dataclass(slots=True)
class Observation:
    """The known record of the lease, and since when it is known: in seconds, monotonic."""

    record: LeaseRecord | None = None
    since: float = 0.0

    duration: float = 0.0
    """How long (in seconds) a holder can act if its record does not say that."""

    version: int = 0
    """The highest version of the object that was read or announced."""

    announced: LeaseRecord | None = None
    """The record that a stream has brought for that version."""

    def observe(self, record: LeaseRecord, now: float, version: int = 0) -> None:
        """Take the record that was read. If it has changed, its holder is alive.

        If a stream has announced this record, the holder has been silent since then.
        """
        if record not in (self.record, self.announced):
            self.since = now
        self.record, self.version = record, max(self.version, version)

    def announce(self, record: LeaseRecord, now: float, version: int) -> bool:
        """Notice that a stream has brought the record; return whether it is newer than all others.

        The holder was alive then. Nothing else follows, because the stream can be late.
        """
        if version <= self.version:
            return False
        self.announced, self.since, self.version = record, now, version
        return True

    def is_held_by_other(self, identity: str, now: float) -> bool:
        """Whether another operator holds the lease, and is not known to be dead."""
        return self.get_left(identity, now) > 0

    def get_left(self, identity: str, now: float) -> float:
        """For how many seconds another operator holds it without a renewal; zero if none does."""
        record = self.record
        if record is None or not record.holder or record.holder == identity:
            return 0.0
        return max(0.0, self.since + (record.duration or self.duration) - now)


def as_mapping(value: object) -> Mapping[str, Any]:
    """A part of the object as it should be: only a broken proxy sends anything else."""
    return value if isinstance(value, Mapping) else {}


def make_next(
    known: LeaseRecord | None, identity: str, *, duration: float, now: datetime.datetime
) -> LeaseRecord:
    """Make the record with this operator as the holder: a new one, or a renewed one."""
    time = format_time(now)
    if known is not None and known.holder == identity:
        return LeaseRecord(identity, duration, known.transitions, known.acquired or time, time)
    transitions = 0 if known is None else min(known.transitions + 1, MAX_TRANSITIONS)
    return LeaseRecord(identity, duration, transitions, time, time)


def make_released(known: LeaseRecord, *, now: datetime.datetime) -> LeaseRecord:
    """Make the record without a holder, so that other operators need not wait."""
    time = format_time(now)
    return LeaseRecord("", 1.0, known.transitions, time, time)


def format_time(moment: datetime.datetime) -> str:
    """Format the time with microseconds, as Kubernetes does."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
