"""Places: how many objects one reconciler can work on at the same time."""

from collections.abc import Callable
from typing import Any

from kopf_cogs.structs.keys import ObjectKey


class Places:
    """The places of one reconciler, and the line of objects for them.

    Those who wait hold nothing, least of all the workers: they are told when there is a place.
    They are in the line until they take it, or do not need it anymore; then the next one is told.
    """

    __slots__ = ("_left", "_line", "_tell")

    def __init__(self, limit: int, tell: Callable[[ObjectKey], Any]) -> None:
        self._left = limit
        self._line: dict[ObjectKey, None] = {}
        self._tell = tell

    def take(self, key: ObjectKey) -> bool:
        """Take a place for the object; or put it in the line if there is none."""
        if self._left <= 0:
            self._line[key] = None
            return False
        self._left -= 1
        self.leave(key)
        return True

    def free(self) -> None:
        """Give a place back."""
        self._left += 1
        self._call_next()

    def leave(self, key: ObjectKey) -> None:
        """Wait no more, e.g. as the object is gone."""
        if key in self._line:
            del self._line[key]
            self._call_next()

    def _call_next(self) -> None:
        if self._left > 0 and self._line:
            self._tell(next(iter(self._line)))
