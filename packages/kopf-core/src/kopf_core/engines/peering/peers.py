"""Records of peers: what operators write of themselves into the peering objects, and read there.

The format is shared with the previous generation; unknown fields are let pass.
"""

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Peer:
    """One operator, or one person who has frozen the operators, by the record of it."""

    identity: str
    priority: int
    lifetime: float
    """For how long (in seconds) it is considered alive after its record has changed."""

    lastseen: datetime.datetime | None
    """When it was alive, by its own clock."""

    message: str | None = None
    """Why the operators are frozen, if it is a person and has said it."""

    def __str__(self) -> str:
        remark = f": {self.message}" if self.message else ""
        return f"{self.identity} (priority {self.priority}{remark})"


@dataclass(frozen=True, slots=True)
class Records:
    """Everything that is written in one peering object."""

    peers: Mapping[str, Peer]
    junk: frozenset[str]
    """The keys of what cannot be understood."""


def parse_records(status: object) -> Records:
    """Read the status of a peering object, whatever there is."""
    if not isinstance(status, Mapping):
        return Records({}, frozenset())
    found = {key: parse_peer(key, value) for key, value in status.items() if value is not None}
    peers = {key: peer for key, peer in found.items() if peer is not None}
    return Records(peers, frozenset(found.keys() - peers.keys()))


def parse_peer(identity: str, value: object) -> Peer | None:
    """Read one record; nothing if it makes no sense, and then it must not stop anybody."""
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
    """The moment in UTC. Those who write it with no timezone mean UTC."""
    if value is None:
        return None
    moment = datetime.datetime.fromisoformat(str(value))
    if moment.tzinfo is None:
        return moment.replace(tzinfo=datetime.UTC)
    return moment.astimezone(datetime.UTC)
