"""Seen states: the states that finished handlers have seen, while other handlers go on.

They are stored on the object beside the progress, in a form that earlier versions ignore: the
states in their order, each with the handlers that have seen it last. No handlers are named for the
last state: it is the one of all other finished handlers. So the states are written only if a cycle
takes several steps, and are written again only if the object really changes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from kopf_cogs.configs.healing import encode_json
from kopf_cogs.helpers.jsons import loads
from kopf_cogs.structs.bodies import BodyEssence
from kopf_cogs.structs.dicts import json_copy
from kopf_cogs.structs.ids import HandlerId
from kopf_core.engines.records.stages import PackedStates


class SeenState(NamedTuple):
    """One state of the object."""

    essence: BodyEssence
    by: frozenset[HandlerId] = frozenset()
    """The handlers that have seen nothing newer; empty for the last of the states."""


class SeenStates:
    """All states of the object that were seen in the cycle, the earliest first. Immutable.

    Most steps only need to know whether there are any, so the states are unpacked when needed.
    """

    __slots__ = ("_items", "_packed")

    def __init__(self, items: tuple[SeenState, ...] = (), packed: PackedStates | None = None):
        self._items: tuple[SeenState, ...] | None = items if packed is None else None
        self._packed = packed

    def __bool__(self) -> bool:
        return self._items is None or bool(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SeenStates) and self.items == other.items

    def __hash__(self) -> int:
        return hash(self.items)

    @property
    def items(self) -> tuple[SeenState, ...]:
        if self._items is None:
            stored = {} if self._packed is None else loads(self._packed.text)
            self._items = tuple(_iter_items(stored["states"]))
        return self._items

    def find(self, ids: Iterable[HandlerId]) -> int:
        """The position of the earliest state that is the last one seen by any of these handlers."""
        wanted = frozenset(ids)
        for position, item in enumerate(self.items):
            if not wanted.isdisjoint(item.by):
                return position
        return len(self.items) - 1

    def add(self, essence: BodyEssence, finished: Collection[HandlerId]) -> "SeenStates":
        """Add the current state. Handlers that have finished by now have seen only the earlier
        ones.

        The essence is copied: the handlers can modify their arguments.
        """
        if self.items and self.items[-1].essence == essence:
            return self
        known = frozenset().union(*(item.by for item in self.items))
        past = [item._replace(by=item.by & frozenset(finished)) for item in self.items]
        if past:
            past[-1] = past[-1]._replace(by=frozenset(finished) - known)
        current = SeenState(cast("BodyEssence", json_copy(essence)))
        return SeenStates((*(item for item in past if item.by), current))

    def change(self, essence: BodyEssence) -> "SeenStates":
        """Replace the current state by the one after our own change: no handler has missed it."""
        return SeenStates((*self.items[:-1], SeenState(essence)))

    def keep(self, start: int, ids: Collection[HandlerId]) -> "SeenStates":
        """Keep only the states from that position on, and only with these handlers."""
        past = [item._replace(by=item.by & frozenset(ids)) for item in self.items[start:-1]]
        return SeenStates((*(item for item in past if item.by), self.items[-1]))

    @property
    def size(self) -> int | None:
        """The size in characters, if the states were ever packed; no single state is longer."""
        return None if self._packed is None else len(self._packed.text)

    def pack(self, since: str) -> PackedStates:
        """The text to be stored; it is the same for most steps of a cycle."""
        if self._packed is None or self._packed.since != since:
            self._packed = PackedStates(since, encode_json(self.as_json(since)))
        return self._packed

    def as_json(self, since: str) -> dict[str, Any]:
        """The states to be stored, with the mark of this cycle: the time of its begin."""
        states = [
            {"essence": item.essence} | ({"by": sorted(item.by)} if item.by else {})
            for item in self.items
        ]
        return {"since": since, "states": states}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any] | None, since: str) -> "SeenStates":
        """Restore the states; drop them if they belong to another cycle, or are broken."""
        if not stored or stored.get("since") != since or not isinstance(stored.get("states"), list):
            return cls()
        return cls(tuple(_iter_items(stored["states"])))


NOTHING_SEEN = SeenStates()
"""No handler has finished yet, or the cycle is over."""


def _iter_items(states: Iterable[Any]) -> Iterator[SeenState]:
    for item in states:
        if isinstance(item, dict) and isinstance(item.get("essence"), dict):
            ids = frozenset(_only_ids(item.get("by")))
            yield SeenState(cast("BodyEssence", item["essence"]), ids)


def _only_ids(value: Any) -> Iterable[HandlerId]:
    ids = value if isinstance(value, list) else ()
    return (HandlerId(id) for id in ids if isinstance(id, str))
