"""Conditions: the standard way of Kubernetes objects to say how they are, in their status.

Every condition has a type (e.g. ``Ready``), a status (true, false, or unknown), a reason for
machines, and a message for people. The time of the last transition moves only with the status.
"""

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.patches import Patch

Condition = Mapping[str, Any]


class Conditions(Mapping[str, Condition]):
    """The conditions of one object: as they are in its status, with the changes of the handlers.

    The changes go to the object with the rest of the patch, if anything has really changed.
    """

    __slots__ = ("_body", "_items", "_now", "_stored")

    def __init__(self, body: Body, *, now: datetime.datetime) -> None:
        self._body = body
        self._now = now
        self._stored: list[dict[str, Any]] = _read(body)
        self._items = {item["type"]: item for item in self._stored}

    def __repr__(self) -> str:
        return repr({type: item.get("status") for type, item in self._items.items()})

    def __getitem__(self, type: str) -> Condition:
        return self._items[type]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

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
        """
        known = self._items.get(type, {})
        item: dict[str, Any] = {
            "type": type,
            "status": _STATUSES.get(status, status),
            "reason": reason or type,
            "message": message or "",
            "lastTransitionTime": known.get("lastTransitionTime"),
        }
        if known.get("status") != item["status"] or not item["lastTransitionTime"]:
            item["lastTransitionTime"] = self._now.strftime("%Y-%m-%dT%H:%M:%SZ")
        generation = self._body.metadata.get("generation")
        if generation is not None:
            item["observedGeneration"] = generation
        self._items[type] = {**known, **item}

    def delete(self, type: str) -> None:
        """Remove the condition, if there is one."""
        self._items.pop(type, None)

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to be sent to the API."""
        return [*self._items.values()] != self._stored

    def store(self, patch: Patch) -> None:
        """Put the conditions into the patch if they have changed. Lists are replaced as a whole."""
        if self.is_changed:
            patch.setdefault("status", {})["conditions"] = [*self._items.values()]


_STATUSES: Mapping[Any, str] = {True: "True", False: "False", None: "Unknown"}


def _read(body: Body) -> list[dict[str, Any]]:
    """What is there already, leaving out what is not understood: anything can be in a status."""
    conditions = body.status.get("conditions")
    if not isinstance(conditions, list):
        return []
    return [
        dict(item)
        for item in conditions
        if isinstance(item, Mapping) and isinstance(item.get("type"), str)
    ]
