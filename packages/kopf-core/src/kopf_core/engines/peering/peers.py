"""The records of peers: each operator writes its own record into the peering objects.

The format is shared with the previous generation. Unknown fields are ignored.
"""

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Peer:
    """One operator, or one person who has frozen the operators, by its record."""

    identity: str
    priority: int
    lifetime: float
    """How long (in seconds) other operators take it for alive after its record has changed."""

    lastseen: datetime.datetime | None
    """The time of its last sign of life, by its own clock."""

    message: str | None = None
    """The reason why the operators are frozen, if a person has given it."""

    def __str__(self) -> str:
        remark = f": {self.message}" if self.message else ""
        return f"{self.identity} (priority {self.priority}{remark})"


@dataclass(frozen=True, slots=True)
class Records:
    """All records in one peering object."""

    peers: Mapping[str, Peer]
    junk: frozenset[str]
    """The keys of records that make no sense."""


def parse_records(status: object) -> Records:
    """Parse the status of a peering object, which can contain anything."""
    if not isinstance(status, Mapping):
        return Records({}, frozenset())
    found = {key: parse_peer(key, value) for key, value in status.items() if value is not None}
    peers = {key: peer for key, peer in found.items() if peer is not None}
    return Records(peers, frozenset(found.keys() - peers.keys()))


def parse_peer(identity: str, value: object) -> Peer | None:
    """Parse one record; return nothing if it makes no sense: then it stops no operator."""
    if not isinstance(value, Mapping):
        return None
    try:
        priority = int(value.get("priority") or 0)
        lifetime = float(60 if value.get("lifetime") is None else value["lifetime"])
        lastseen = _parse_time(value.get("lastseen"))
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(lifetime):
        return None
    message = value.get("message")
    return Peer(identity, priority, lifetime, lastseen, str(message) if message else None)


def make_record(peer: Peer) -> dict[str, Any]:
    """Write the record in the format of all operators."""
    lastseen = peer.lastseen and peer.lastseen.isoformat(timespec="microseconds")
    record = {"priority": peer.priority, "lifetime": int(peer.lifetime), "lastseen": lastseen}
    return record | ({"message": peer.message} if peer.message else {})


def _parse_time(value: object) -> datetime.datetime | None:
    """Parse the moment in UTC. A time without a timezone is in UTC."""
    if value is None:
        return None
    moment = datetime.datetime.fromisoformat(str(value))
    if moment.tzinfo is None:
        return moment.replace(tzinfo=datetime.UTC)
    return moment.astimezone(datetime.UTC)
