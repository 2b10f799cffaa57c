"""Conditions: the standard way of Kubernetes objects to say how they are, in their status.

Every condition has a type (e.g. ``Ready``), a status (true, false, or unknown), a reason for
machines, and a message for people. The time of the last transition moves only with the status.
"""

import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kopf_cogs.aiokits.surroundings import get_clock
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.conditions import PlannedConditions, index_conditions, is_seen
from kopf_cogs.structs.dicts import is_mapping
from kopf_cogs.structs.patches import Patch

Condition = Mapping[str, Any]
"""One condition: its ``type``, ``status``, ``reason``, ``message``, and times."""


class Conditions(Mapping[str, Condition]):
    """The conditions of one object: as they are in its status, with the changes of the handlers.

    The changes go to the patch of the handlers at once, if anything has really changed.
    Changes of other conditions by other controllers are not lost.

    ``is_counted`` tells that each change of the status is counted as a generation of the object,
    as it is with no subresource for it. Then, this is not a reason to change the status again.
    """

    __slots__ = ("_body", "_is_counted", "_now", "_patch")

    def __init__(
        self,
        body: Body,
        patch: Patch,
        *,
        is_counted: bool = False,
        now: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        self._is_counted = is_counted
        self._body = body
        self._patch = patch
        self._now = now or get_clock().now

    def __repr__(self) -> str:
        return repr({type: item.get("status") for type, item in self._items.items()})

    def __getitem__(self, type: str) -> Condition:
        return self._items[type]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, type: object) -> bool:
        return type in self._items  # quicker than a failing look-up: most conditions are absent

    def is_true(self, type: str) -> bool:
        """Whether there is such a condition, and it is true."""
        return self._items.get(type, {}).get("status") == "True"

    def set(
        self,
        type: str,
        status: bool | str | None,
        *,
        reason: str | None = None,
        message: str | None = None,
    ) -> None:
        """Set the condition: its status is true, false, or unknown (``None``).

        Without a reason, the reason is the type: API servers require some. Without a message,
        it is empty. The observed generation is that of the object as the handler sees it.

        Raises :class:`ValueError` for other statuses: there are only three in Kubernetes.
        """
        if status not in _STATUSES:
            raise ValueError(f"Conditions are True, False, or None (unknown); not {status!r}.")
        items = self._items
        known = items.get(type, {})
        item: dict[str, Any] = {
            "type": type,
            "status": _STATUSES[status],
            "reason": reason or type,
            "message": message or "",
            "lastTransitionTime": known.get("lastTransitionTime"),
        }
        stored = index_conditions(self._stored).get(type, {})
        if stored.get("status") == item["status"] and stored.get("lastTransitionTime"):
            item["lastTransitionTime"] = stored["lastTransitionTime"]
        elif known.get("status") != item["status"] or not item["lastTransitionTime"]:
            item["lastTransitionTime"] = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        generation = self._body.metadata.get("generation")
        if generation is not None:
            item["observedGeneration"] = generation
        item = {**known, **item}
        if self._is_counted and is_seen(self._body) and _differ_in_generations(item, stored):
            item = stored
        self._store(items | {type: item})

    def delete(self, type: str) -> None:
        """Remove the condition, if there is one."""
        self._store({name: item for name, item in self._items.items() if name != type})

    @property
    def _items(self) -> dict[str, dict[str, Any]]:
        status = self._patch.get("status")
        if not is_mapping(status) or "conditions" not in status:
            return index_conditions(self._stored)
        planned = status["conditions"]
        if isinstance(planned, PlannedConditions):  # their base can be an older state of the object
            planned = planned.rebase(self._stored)
        return index_conditions(planned)

    @property
    def _stored(self) -> Any:
        return self._body.status.get("conditions")

    def _store(self, items: Mapping[str, Condition]) -> None:
        """Plan the change of the list, which is always replaced as a whole; or plan no change."""
        if items != index_conditions(self._stored):
            planned = PlannedConditions(items.values(), base=self._stored)
            self._patch.setdefault("status", {})["conditions"] = planned
        elif "conditions" in (self._patch.get("status") or {}):
            del self._patch["status"]["conditions"]
            if not self._patch["status"]:
                del self._patch["status"]


def _differ_in_generations(one: Condition, other: Condition) -> bool:
    """Whether the conditions differ in their observed generations only."""
    return {**one, "observedGeneration": None} == {**other, "observedGeneration": None}


_STATUSES: Mapping[Any, str] = {
    **{True: "True", False: "False", None: "Unknown"},
    **{name: name for name in ("True", "False", "Unknown")},
}
