"""Repeated creations: was it our own earlier request that has created what exists already?

When the reply is lost, nobody can say for sure. But it is known who made the object, and when;
and if it is not what was wanted, it is of somebody else in any case.
"""

import datetime
from collections.abc import Mapping
from typing import Any

CLOCK_SKEW = datetime.timedelta(minutes=1)
"""By how much the clock of the server can be behind ours."""

UNKEPT = {"managedFields", "status", "stringData"}
"""What is never stored as it was sent."""


def is_created(
    live: Mapping[str, Any],
    wanted: Mapping[str, Any],
    *,
    manager: str,
    since: datetime.datetime,
) -> bool:
    """Whether the object is as it was wanted, and was made by this manager since that time."""
    metadata = live.get("metadata") or {}
    entries = metadata.get("managedFields") or ()
    is_ours = any(e.get("manager") == manager and e.get("operation") == "Update" for e in entries)
    created = metadata.get("creationTimestamp")
    if not is_ours or not isinstance(created, str):
        return False
    is_new = datetime.datetime.fromisoformat(created) >= since - CLOCK_SKEW
    return is_new and _has(live, wanted)


def _has(live: Any, wanted: Any) -> bool:
    """Whether everything that was wanted is there; more can be added by the server."""
    if isinstance(wanted, Mapping):
        items = [(key, value) for key, value in wanted.items() if key not in UNKEPT]
        return isinstance(live, Mapping) and all(
            value is None or _has(live.get(key), value) for key, value in items
        )
    if isinstance(wanted, list | tuple):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(_has, live, wanted))
    return bool(live == wanted)
