"""Events are served in two groups from one storage, with other names of the same fields."""

from __future__ import annotations

from typing import Any

_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_RESTORED = {new: old for old, new in _RENAMED.items()}


def event_to_v1(obj: dict[str, Any]) -> dict[str, Any]:
    """From a core ``Event`` to an ``events.k8s.io/v1`` one."""
    return {_RENAMED.get(name, name): value for name, value in obj.items()}


def event_from_v1(obj: dict[str, Any]) -> dict[str, Any]:
    """From an ``events.k8s.io/v1`` event to a core one."""
    return {_RESTORED.get(name, name): value for name, value in obj.items()}
