"""What operators leave on the objects, as it is described in the documentation of the format."""

from __future__ import annotations

import json
from typing import Any

PREFIX = "kopf.zalando.org/"
LAST_HANDLED = f"{PREFIX}last-handled-configuration"
FINALIZER = f"{PREFIX}KopfFinalizerMarker"


def get_handled(obj: dict[str, Any]) -> dict[str, Any] | None:
    """The last handled state, if there is any."""
    text = (obj["metadata"].get("annotations") or {}).get(LAST_HANDLED)
    handled: dict[str, Any] | None = None if text is None else json.loads(text)
    return handled


def get_progress(obj: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The progress of the handlers that are not over, by their ids."""
    found = {}
    for key, text in (obj["metadata"].get("annotations") or {}).items():
        if key.startswith(PREFIX) and key != LAST_HANDLED:
            try:
                record = json.loads(text)
            except ValueError:
                continue
            if isinstance(record, dict) and "started" in record:
                found[key.removeprefix(PREFIX)] = record
    return found


def is_handled(obj: dict[str, Any]) -> bool:
    """Whether the state of the object is handled, and nothing is in progress."""
    handled = get_handled(obj)
    if handled is None or get_progress(obj) or "deletionTimestamp" in obj["metadata"]:
        return False
    labels = obj["metadata"].get("labels") or {}
    return (handled.get("spec") or {}) == (obj.get("spec") or {}) and (
        (handled.get("metadata") or {}).get("labels") or {}
    ) == labels


def has_finalizer(obj: dict[str, Any]) -> bool:
    return FINALIZER in (obj["metadata"].get("finalizers") or ())


def strip(obj: dict[str, Any]) -> dict[str, Any]:
    """The object without its identity, versions, and times: to compare the ends of two runs."""
    metadata = {
        key: value
        for key, value in obj["metadata"].items()
        if key in ("labels", "finalizers", "annotations")
    }
    return {**obj, "metadata": metadata}
