"""The roster: who is alive, judged by what was seen of the records, not by the clocks of others.

A peer is alive for its lifetime since its record was last seen changed, by our monotonic clock.
It is only dead when the record is read after that, and is still the same: while nothing could be
read (the network is down, this process is stopped), others could live on unnoticed.
"""

import datetime
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kopf_core.engines.peering.peers import Peer

PLAUSIBLE_SKEW = 600.0
"""How much (in seconds) the clocks of others can differ from ours.

Only those records that are older than that are known as dead from the first sight.
"""


@dataclass(slots=True)
class _Sighting:
    peer: Peer
    since: float
    """When it was first seen as it is now: monotonic."""

    is_dead: bool = False


class Roster:
    """The peers of one operator in one peering object. Knows no clocks: the time is given."""

    def __init__(self) -> None:
        self._sightings: dict[str, _Sighting] = {}

    @property
    def alive(self) -> Collection[Peer]:
        return [seen.peer for seen in self._sightings.values() if not seen.is_dead]

    @property
    def dead(self) -> Collection[Peer]:
        return [seen.peer for seen in self._sightings.values() if seen.is_dead]

    def has_silent(self, now: float) -> bool:
        """Whether somebody was silent for so long that the records are worth to be read again."""
        return any(
            not seen.is_dead and now >= seen.since + seen.peer.lifetime
            for seen in self._sightings.values()
        )

    def see(self, peers: Mapping[str, Peer], *, now: float, today: datetime.datetime) -> None:
        """Learn of the records in their order, though maybe not the newest ones at this moment."""
        for identity in self._sightings.keys() - peers.keys():
            del self._sightings[identity]
        for identity, peer in peers.items():
            seen = self._sightings.get(identity)
            if seen is None:
                is_dead = _is_ancient(peer, today)
                self._sightings[identity] = _Sighting(peer, now, is_dead)
            elif seen.peer != peer:
                self._sightings[identity] = _Sighting(peer, now)

    def bury(self, requested_at: float) -> None:
        """What was seen last is as of that time or later: those still silent then are dead."""
        for seen in self._sightings.values():
            seen.is_dead |= requested_at >= seen.since + seen.peer.lifetime


def _is_ancient(peer: Peer, today: datetime.datetime) -> bool:
    if peer.lastseen is None:
        return False
    return (today - peer.lastseen).total_seconds() > peer.lifetime + PLAUSIBLE_SKEW
