"""The changes of an object that matter for idling: all, except for the framework's own marks."""

import json
from collections.abc import Mapping
from typing import Any, cast

from kopf_cogs.configs.settings import PersistenceSettings
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.dicts import is_mapping, json_copy
from kopf_cogs.structs.patches import Patch


def is_changed(old: Body, new: Body, persistence: PersistenceSettings) -> bool:
    """Whether the object was really changed: its content, status, labels, or annotations.

    The finalizers, the system metadata, and the marks of the framework do not count. Otherwise, the
    operator would disturb its own idling timers.
    """
    for key in old.keys() | new.keys():
        if (
            key != "metadata"
            and old.get(key) != new.get(key)
            and (key != "status" or _get_status(old, persistence) != _get_status(new, persistence))
        ):
            return True
    old_meta, new_meta = old.metadata, new.metadata
    if dict(old_meta.labels) != dict(new_meta.labels):
        return True
    return dict(old_meta.annotations) != dict(new_meta.annotations) and _get_annotations(
        old, persistence
    ) != _get_annotations(new, persistence)


def _get_status(body: Body, persistence: PersistenceSettings) -> Any:
    status = {key: json_copy(val) for key, val in body.status.items() if key != "kopf"}
    essence: Any = persistence.progress_storage.clear(essence=cast("Any", {"status": status}))
    return essence.get("status") or None


def _get_annotations(body: Body, persistence: PersistenceSettings) -> Any:
    system = {key: body.get(key) for key in ("apiVersion", "kind", "metadata")}
    essence: Any = persistence.diffbase_storage.build(body=Body(system))
    essence = persistence.progress_storage.clear(essence=essence)
    return essence.get("metadata", {}).get("annotations") or None


def changes(patch: Patch, body: Mapping[str, Any]) -> bool:
    """Whether the patch changes the object; if in doubt, it does."""
    return bool(patch.fns) or _differ(patch, body)


def _differ(wanted: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    for key, value in wanted.items():
        if is_mapping(value):
            if not is_mapping(known.get(key)) or _differ(value, known[key]):
                return True
        elif not _is_same(value, known.get(key)):
            return True
    return False


def _is_same(one: Any, other: Any) -> bool:
    """Whether the values are the same in JSON: in Python, ``True`` and 1 are equal."""
    try:
        return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    except (TypeError, ValueError):
        return False
