"""The reference time: how far our clock is behind, so that other operators do not take us for dead.

Operators of the previous generation compare ``lastseen`` with their own clocks. If our clock is
late, they take this operator for dead. So it never writes an earlier time than other operators and
the API server do.
"""

import datetime
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kopf_core.engines.peering.peers import Peer

TOLERANCE = 2.0
"""Differences up to this (in seconds) are delays, not clocks."""

LIMIT = 3600.0
"""Bigger differences (in seconds) are mistakes, and are not followed."""

_FORMAT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def measure_lead(
    peers: Iterable[Peer], body: Mapping[str, Any], today: datetime.datetime
) -> datetime.timedelta:
    """Measure by how much to shift our time: never back."""
    moments = [peer.lastseen for peer in peers if peer.lastseen is not None]
    moments += _get_server_times(body)
    leads = [(moment - today).total_seconds() for moment in moments]
    lead = max((lead for lead in leads if TOLERANCE < lead <= LIMIT), default=0.0)
    return datetime.timedelta(seconds=lead)


def _get_server_times(body: Mapping[str, Any]) -> list[datetime.datetime]:
    """Collect the times of changes of the object, by the clock of the API server."""
    fields = (body.get("metadata") or {}).get("managedFields") or ()
    times = (_parse(entry.get("time")) for entry in fields if isinstance(entry, Mapping))
    return [time for time in times if time is not None]


def _parse(time: object) -> datetime.datetime | None:
    if not isinstance(time, str) or _FORMAT.fullmatch(time) is None:
        return None
    try:
        return datetime.datetime.fromisoformat(time)
    except ValueError:  # e.g. of a leap second
        return None
