"""Repeated creations: has our own earlier request created the existing object?

When the reply is lost, there is no certain answer. But the object says which client has made it,
and when. If the object differs from the wanted one, another client has made it.
"""

import datetime
from collections.abc import Mapping
from typing import Any

from kopf_cogs.structs.dicts import FieldPath

CLOCK_SKEW = datetime.timedelta(minutes=1)
"""By how much the clock of the server can be behind ours."""

UNKEPT = {"managedFields", "status", "stringData"}
"""The fields that are never stored as they were sent."""


def is_created(
    live: Mapping[str, Any],
    wanted: Mapping[str, Any],
    *,
    manager: str,
    since: datetime.datetime,
) -> bool:
    """Whether the object is as it was wanted, and was made by this manager since that time.

    An empty object has no manager, so any manager passes. An object under deletion is an old one.
    """
    metadata = live.get("metadata") or {}
    if metadata.get("deletionTimestamp"):
        return False
    entries = metadata.get("managedFields") or ()
    is_ours = any(e.get("manager") == manager and e.get("operation") == "Update" for e in entries)
    created = metadata.get("creationTimestamp")
    if (entries and not is_ours) or not isinstance(created, str):
        return False
    is_new = datetime.datetime.fromisoformat(created) >= since - CLOCK_SKEW
    return is_new and _has(live, wanted)


def _has(live: Any, wanted: Any, path: FieldPath = ()) -> bool:
    """Whether all wanted values are there; the server and webhooks can add more values.

    An empty value is not stored at all, or gets a default instead.
    """
    # This import takes time, and replies are seldom lost.
    from kopf_cogs.structs.managedfields import covers

    if not wanted:
        return True
    if isinstance(wanted, Mapping):
        items = [(key, value) for key, value in wanted.items() if key not in UNKEPT]
        return isinstance(live, Mapping) and all(
            _has(live.get(key), value, (*path, key)) for key, value in items
        )
    if isinstance(wanted, list | tuple):
        return isinstance(live, list) and all(
            any(_has(one, item, path) for one in live) for item in wanted
        )
    return covers(live, wanted, path) or _is_same_text(live, wanted)


def _is_same_text(live: Any, wanted: Any) -> bool:
    """Whether the texts differ in line breaks only: base64 is stored without line breaks."""
    return isinstance(wanted, str) and bool(live == "".join(wanted.splitlines()))
