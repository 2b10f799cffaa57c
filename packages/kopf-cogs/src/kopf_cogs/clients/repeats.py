"""Repeated creations: was it our own earlier request that has created what exists already?

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
"""What is never stored as it was sent."""


def is_created(
    live: Mapping[str, Any],
    wanted: Mapping[str, Any],
    *,
    manager: str,
    since: datetime.datetime,
) -> bool:
    """Whether the object is as it was wanted, and was made by this manager since that time.

    Those with nothing in them are of no manager. Those which are being deleted are of the past.
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
    """Whether everything that was wanted is there; more can be added by the server and webhooks.

    What is empty is not stored at all, or gets a default instead.
    """
    # It takes time to be imported, and replies are seldom lost.
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
    """Whether they differ in line breaks only: base64 is stored without them."""
    return isinstance(wanted, str) and bool(live == "".join(wanted.splitlines()))
