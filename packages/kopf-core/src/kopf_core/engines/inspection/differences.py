"""What differs in an object since it was handled for the last time, with no handlers at hand."""

from typing import Any, cast

from kopf_cogs.configs.diffbase import HashingDiffBaseStorage
from kopf_cogs.configs.packing import Digests
from kopf_cogs.configs.settings import PersistenceSettings
from kopf_cogs.structs.bodies import Body, BodyEssence
from kopf_cogs.structs.dicts import FieldPath, ensure, resolve
from kopf_cogs.structs.diffs import EMPTY, Diff, DiffScope, diff

_HASHED = "blake2b:"


def find_differences(
    body: Body, last_handled: BodyEssence | None, persistence: PersistenceSettings
) -> Diff:
    """Compare the object with its last handled state, if it has any.

    It is not known which of the fields of the status are of interest for the handlers. So
    only those are compared that are in the last handled state. It is also not known which values
    are stored as hashes, but it can be seen.
    """
    if last_handled is None:
        return EMPTY
    if isinstance(last_handled, Digests):
        current = _build(body, persistence)
        return _compare(last_handled.reveal(cast("dict[str, Any]", current)), current)
    changes = _compare(last_handled, _build(body, persistence))
    hashed = [item.field for item in changes if str(item.old).startswith(_HASHED)]
    if hashed:
        changes = _compare(last_handled, _build_hashed(body, persistence, hashed))
    return changes


def _compare(last_handled: BodyEssence, current: BodyEssence) -> Diff:
    old, new = cast("dict[str, Any]", dict(last_handled)), cast("dict[str, Any]", dict(current))
    old_status, new_status = old.pop("status", None), new.pop("status", None)
    status = diff({"status": old_status}, {"status": new_status}, scope=DiffScope.LEFT)
    return Diff([*diff(old, new), *(status if old_status is not None else ())])


def _build(body: Body, persistence: PersistenceSettings) -> BodyEssence:
    extra = [("status",)] if "status" in body else []
    essence = persistence.diffbase_storage.build(body=body, extra_fields=extra)
    return persistence.progress_storage.clear(essence=essence)


def _build_hashed(
    body: Body, persistence: PersistenceSettings, fields: list[FieldPath]
) -> BodyEssence:
    essence = cast("dict[str, Any]", _build(body, persistence))
    hashed = HashingDiffBaseStorage(hashed_fields=fields).build(body=body, extra_fields=fields)
    for field in fields:
        value = resolve(hashed, field, None)
        if value is not None:
            ensure(essence, field, value)
    return cast("BodyEssence", essence)
