"""Lists of conditions: many clients write to them at once, and must not erase other conditions.

API servers replace lists as a whole. A client that sends a list made of an older state erases the
conditions that other clients have set since then.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kopf_cogs.structs.dicts import is_mapping


class PlannedConditions(list[Any]):
    """The wanted list of conditions, with the list it is made of, so that it can be made anew."""

    __slots__ = ("base",)

    def __init__(self, items: Iterable[Any] = (), *, base: Any = None) -> None:
        super().__init__(items)
        self.base = base

    def rebase(self, fresh: Any) -> "PlannedConditions":
        """Make the same changes of the same conditions in the current list."""
        if fresh == self.base or fresh == self:  # as in nearly all cases
            return self
        wanted, base, items = (index_conditions(source) for source in (self, self.base, fresh))
        for type in base.keys() - wanted.keys():
            items.pop(type, None)
        items |= {type: item for type, item in wanted.items() if item != base.get(type)}
        return PlannedConditions(items.values(), base=fresh)


def index_conditions(conditions: Any) -> dict[str, dict[str, Any]]:
    """The conditions by their types, without broken items: the list can contain anything."""
    return {
        item["type"]: dict(item)
        for item in (conditions if isinstance(conditions, list) else ())
        if is_mapping(item) and isinstance(item.get("type"), str)
    }


def is_seen(body: Mapping[str, Any]) -> bool:
    """Whether the latest generation of the object is only the change of its status.

    This happens if the status is not a subresource: changes of the status are counted, too, so
    the generation is always one ahead of the observed generation in the status.
    """
    metadata, status = body.get("metadata") or {}, body.get("status") or {}
    items = [status, *index_conditions(status.get("conditions")).values()]
    seen = [item.get("observedGeneration") for item in items]
    newest = max((value for value in seen if isinstance(value, int)), default=None)
    return newest is not None and metadata.get("generation") == newest + 1


def find_planned(patch: Any) -> PlannedConditions | None:
    """The planned conditions of the object that is going to be patched, if there are any."""
    status = patch.get("status")
    conditions = status.get("conditions") if is_mapping(status) else None
    return conditions if isinstance(conditions, PlannedConditions) else None


def rebase_conditions(patch: dict[str, Any], body: Any) -> dict[str, Any]:
    """The same patch for the current object; the very same one if it plans no conditions."""
    planned = find_planned(patch)
    if planned is None or body is None:
        return patch
    status = body.get("status")
    rebased = planned.rebase(status.get("conditions") if is_mapping(status) else None)
    if rebased is planned:
        return patch
    return {**patch, "status": {**patch["status"], "conditions": rebased}}
