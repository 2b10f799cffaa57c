"""Fights: other managers or servers change the applied objects back."""

from typing import Any

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.structs.dicts import FieldPath

FIGHTS_LIMIT = 5
"""How many times in a row other clients can change an object back before that is a fight."""

FIGHT_DELAY = 60.0
"""How rarely (in seconds) to make passes during a fight; and how long to remember it."""

_NOTHING: frozenset[FieldPath] = frozenset()


class Fights:
    """Counts how many times in a row objects were changed back; remembers which fields are not
    stored.
    """

    __slots__ = ("_clock", "_counts", "_unkept")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[Any, tuple[int, float]] = {}
        self._unkept: dict[Any, tuple[str, frozenset[FieldPath]]] = {}

    def __bool__(self) -> bool:
        return bool(self._counts or self._unkept)

    def count(self, identity: Any) -> bool:
        """Count one more time; return whether a fight begins now."""
        now = self._clock.monotonic()
        count, latest = self._counts.get(identity, (0, now))
        count = count + 1 if now - latest <= 2 * FIGHT_DELAY else 1
        self._counts[identity] = count, now
        return count == FIGHTS_LIMIT

    def forget(self, identity: Any) -> None:
        self._counts.pop(identity, None)

    @property
    def is_on(self) -> bool:
        """Whether there is a fight for any of the objects now."""
        now = self._clock.monotonic()
        return any(
            count >= FIGHTS_LIMIT and now - latest <= FIGHT_DELAY
            for count, latest in self._counts.values()
        )

    def get_unkept(self, identity: Any, digest: str) -> frozenset[FieldPath]:
        """The fields that the server did not store when exactly this wish was applied."""
        known, fields = self._unkept.get(identity, ("", _NOTHING))
        return fields if known == digest else _NOTHING

    def keep_unkept(self, identity: Any, digest: str, fields: frozenset[FieldPath]) -> bool:
        """Remember such fields; return whether they are news."""
        is_news = bool(fields) and self.get_unkept(identity, digest) != fields
        if fields:
            self._unkept[identity] = digest, fields
        else:
            self._unkept.pop(identity, None)
        return is_news
