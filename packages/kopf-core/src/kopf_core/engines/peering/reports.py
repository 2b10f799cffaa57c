"""Reports: messages on why the operator handles nothing."""

import logging
from collections.abc import Collection
from typing import NamedTuple

from kopf_cogs.configs.settings import PeeringSettings
from kopf_core.engines.peering.membership import Standing, Verdict
from kopf_core.engines.peering.peering_objects import PeeringObject
from kopf_core.engines.peering.peers import Peer

SHOWN_PEERS = 5
"""How many of the peers are named: there can be thousands."""

_APPEARED = "the peering exists"


class Report(NamedTuple):
    """One line of logs."""

    level: int
    text: str
    ending: str = "there are no rivals anymore"
    """The message when the matter is over."""


def make_report(place: PeeringObject, verdict: Verdict) -> Report | None:
    """Explain the state of this peering; return nothing if it lasts for a moment only."""
    peers = _join(verdict.rivals)
    match verdict.standing:
        case Standing.OUTRANKED:
            return Report(logging.INFO, f"Pausing operations in favour of {peers}.")
        case Standing.TIED:
            return Report(
                logging.WARNING,
                f"Possibly conflicting operators with the same priority: {peers}. "
                f"Pausing all of them, including this one, so nothing is handled. "
                f"Stop the others, give them different priorities (--priority), or let them "
                f"elect a leader (--lease).",
            )
        case Standing.JOINING if verdict.rivals:
            return Report(
                logging.INFO,
                f"Waiting until the peers with lower priorities finish their work: {peers}.",
            )
        case Standing.SUCCEEDING:
            return Report(
                logging.INFO,
                f"No longer paused by {peers}. "
                f"Resuming soon: the other operators may still be finishing their work.",
            )
        case Standing.LOST:
            return Report(
                logging.WARNING,
                f"Pausing operations: the record in the peering {place} was not renewed in time, "
                f"so other operators may have started.",
                "the record in the peering is renewed",
            )
        case Standing.ABSENT:
            return Report(
                logging.WARNING,
                f"Pausing operations until the peering {place} exists, as it is mandatory. "
                f"Create it: {place.resource.kind} of {place.resource.api_version}.",
                _APPEARED,
            )
    return None


def report_absent_kind(settings: PeeringSettings) -> Report:
    """Explain that the cluster has no such kind, or there are no namespaces to be served."""
    kind = "ClusterKopfPeering" if settings.clusterwide else "KopfPeering"
    return Report(
        logging.WARNING,
        f"Pausing operations until the peering {settings.name!r} exists, as it is mandatory: "
        f"there is no {kind} in the cluster, or nowhere to look for it. Create its definition.",
        _APPEARED,
    )


def _join(peers: Collection[Peer]) -> str:
    ordered = sorted(peers, key=lambda peer: (-peer.priority, peer.identity))
    names = ", ".join(str(peer) for peer in ordered[:SHOWN_PEERS])
    more = len(ordered) - SHOWN_PEERS
    return f"{names}, and {more} more" if more > 0 else names
