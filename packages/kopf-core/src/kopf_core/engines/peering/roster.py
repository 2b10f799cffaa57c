"""The roster: which operators are alive, by the changes of their records, not by their clocks.

A peer is alive for its lifetime after its record was last seen changed, by our monotonic clock. It
is dead only if the record is read after that, and is still the same. While nothing can be read (the
network is down, this process is suspended), other operators can live on unnoticed.
"""

import datetime
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kopf_core.engines.peering.peers import Peer

PLAUSIBLE_SKEW = 600.0
"""How much (in seconds) the clocks of other operators can differ from ours.

Only records that are older than that belong to dead operators from the first sight.
"""


@dataclass(slots=True)
class _Sighting:
    peer: Peer
    since: float
    """When this state was first seen: monotonic."""

    is_dead: bool = False


class Roster:
    """The peers of one operator in one peering object. It has no clocks: the time is given."""

    def __init__(self) -> None:
        self._sightings: dict[str, _Sighting] = {}

    @property
    def alive(self) -> Collection[Peer]:
        return [seen.peer for seen in self._sightings.values() if not seen.is_dead]

    @property
    def dead(self) -> Collection[Peer]:
        return [seen.peer for seen in self._sightings.values() if seen.is_dead]

    def has_silent(self, now: float) -> bool:
        """Whether a peer was silent for so long that the records must be read again."""
        return any(
            not seen.is_dead and now >= seen.since + seen.peer.lifetime
            for seen in self._sightings.values()
        )

    def see(self, peers: Mapping[str, Peer], *, now: float, today: datetime.datetime) -> None:
        """Take the records. They come in order, but can be late."""
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
        """Take the time of the last read: peers that are still silent then are dead."""
        for seen in self._sightings.values():
            seen.is_dead |= requested_at >= seen.since + seen.peer.lifetime


def _is_ancient(peer: Peer, today: datetime.datetime) -> bool:
    if peer.lastseen is None:
        return False
    return (today - peer.lastseen).total_seconds() > peer.lifetime + PLAUSIBLE_SKEW
