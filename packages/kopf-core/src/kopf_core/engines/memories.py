"""What the operator remembers of every object while the process lives.

The records are made for every object in the cluster that is watched, so they are small. Each part
of a record is an immutable value; of most objects, it is the same value, which means nothing.
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.memos import AnyMemo, Memo
from kopf_cogs.structs.resources import Resource
from kopf_core.engines.records.holds import FREE, Holds
from kopf_core.engines.records.owed import NOTHING_OWED, Owed
from kopf_core.engines.records.stages import UNHANDLED, UNSEEN, Cycle, Stage
from kopf_core.engines.records.told import SILENCE, Told
from kopf_core.engines.records.writes import UNWRITTEN, LastWrite


class ObjectMemory:
    """The record of one object, from its first event to its deletion."""

    __slots__ = (
        "_memo",
        "_origin",
        "cycle",
        "holds",
        "idle",
        "is_listed",
        "namespace",
        "owed",
        "told",
        "write",
    )

    def __init__(self, origin: AnyMemo, *, is_listed: bool) -> None:
        self._origin = origin
        self._memo: AnyMemo | None = None

        self.is_listed = is_listed
        """The object existed before it was noticed: handlers are to be resumed for it."""

        self.namespace: str | None = None
        """Where the object is; not known until its first turn."""

        self.write: LastWrite = UNWRITTEN
        """How we have left the object ourselves."""

        self.cycle: Cycle = UNSEEN
        """How far the operator has got with its current state."""

        self.idle: int | None = None
        """What tells the state for which nothing was to be done, whatever its status is."""

        self.owed: Owed = NOTHING_OWED
        """What is done, but is not on the object yet."""

        self.holds: Holds = FREE
        """Why it is left alone for now."""

        self.told: Told = SILENCE
        """What people were told of it already."""

    @property
    def memo(self) -> AnyMemo:
        """The users' container: a shallow copy of the operator's one."""
        if self._memo is None:
            origin = self._origin
            self._memo = Memo(origin) if type(origin) is Memo else copy.copy(origin)
        return self._memo

    @property
    def initial(self) -> bool:
        return self.is_listed and self.cycle.stage in (Stage.UNSEEN, Stage.NEW)

    def lose(self, body: RawBody) -> None:
        """The API does not know the object: what is not newer than this state, is of the past."""
        self.cycle = self.cycle.at(Stage.ABSENT)
        self.write = self.write.looked_up(body)

    def warn_once(self, topic: str) -> bool:
        """Whether this is the first time; remembers that it was."""
        if topic in self.told.topics:
            return False
        self.told = self.told._replace(topics=self.told.topics | {topic})
        return True

    def renew(self) -> "ObjectMemory":
        """The record as after a restart, with the same memo: its daemons and timers use it."""
        memory = ObjectMemory(self._origin, is_listed=True)
        memory._memo, memory.namespace = self._memo, self.namespace
        memory.cycle = UNHANDLED
        return memory


class PausedObject(NamedTuple):
    """An object that is left alone for as long as people ask so."""

    resource: Resource
    namespace: str | None
    name: str
    reason: str


class ObjectMemories(Mapping[ObjectKey, ObjectMemory]):
    """The records of all objects of one operator, by their keys."""

    def __init__(self, memo: AnyMemo) -> None:
        self._memo = memo
        self._items: dict[ObjectKey, ObjectMemory] = {}
        self._paused: dict[ObjectKey, PausedObject] = {}

    def __getitem__(self, key: ObjectKey) -> ObjectMemory:
        return self._items[key]

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def recall(self, key: ObjectKey, *, is_listed: bool = False) -> ObjectMemory:
        """The record of the object; a new one if the object is seen for the first time."""
        memory = self._items.get(key)
        if memory is None:
            memory = self._items[key] = ObjectMemory(self._memo, is_listed=is_listed)
        return memory

    @property
    def paused(self) -> Collection[PausedObject]:
        """The objects that are left alone: only those that were seen so."""
        return self._paused.values()

    def pause(self, key: ObjectKey, paused: PausedObject) -> bool:
        """Remember that the object is paused; get whether it is news."""
        memory, self._paused[key] = self.recall(key), paused
        was_paused = memory.holds.is_paused
        memory.holds = memory.holds._replace(is_paused=True)
        return not was_paused

    def unpause(self, key: ObjectKey) -> None:
        memory = self.recall(key)
        memory.holds = memory.holds._replace(is_paused=False)
        self._paused.pop(key, None)

    def doubt_versions(self) -> None:
        """The resource versions went back, so those that are known mean nothing anymore."""
        for memory in self._items.values():
            memory.write = memory.write.doubted()

    def restart(self, working: Collection[ObjectKey]) -> None:
        """Forget everything, as after a restart; but not the memos which are used still."""
        kept = {key: self._items[key].renew() for key in working if key in self._items}
        self._items.clear()
        self._paused.clear()
        self._items.update(kept)

    def forget(self, key: ObjectKey) -> None:
        self._items.pop(key, None)
        self._paused.pop(key, None)

    def forget_unseen(self, key: ObjectKey) -> None:
        """Forget the object that is gone; if it has had turns, its last turn does that."""
        memory = self._items.get(key)
        if memory is not None and memory.cycle.stage is Stage.UNSEEN:
            del self._items[key]
