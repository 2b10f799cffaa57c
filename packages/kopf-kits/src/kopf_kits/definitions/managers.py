"""``managedFields``: who has set which fields, in which version of the kind.

The server-side apply converts all these entries. It fails for all managers if the version of one
entry is no longer defined.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

Entry = dict[str, Any]


def rename_versions(
    entries: Sequence[Entry], group: str, served: Collection[str], storage: str
) -> list[Entry] | None:
    """Move the entries of versions that are not served to the storage version.

    The managers keep their fields: otherwise, the API server would never remove the fields that
    the managers no longer apply.
    Fields that the storage version does not have do no harm there. If a manager has an entry of
    the storage version already, the fields are joined. ``None`` if nothing changes.
    """
    known = {f"{group}/{version}" for version in served}
    if all(entry.get("apiVersion") in known for entry in entries):
        return None
    renamed: dict[tuple[object, ...], Entry] = {}
    for entry in entries:
        if entry.get("apiVersion") not in known:
            entry = {**entry, "apiVersion": f"{group}/{storage}"}
        key = tuple(
            entry.get(part) for part in ("manager", "operation", "subresource", "apiVersion")
        )
        twin = renamed.get(key)
        if twin is not None:
            fields = _join(twin.get("fieldsV1") or {}, entry.get("fieldsV1") or {})
            entry = {**entry, "fieldsV1": fields}
        renamed[key] = entry
    return list(renamed.values())


def _join(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """All the fields of both trees."""
    return {**one, **{key: _join(one.get(key) or {}, sub) for key, sub in other.items()}}
