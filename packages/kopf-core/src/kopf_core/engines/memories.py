"""Memories: the records of all objects, for as long as the process lives.

There is a record for every watched object of the cluster, so records are small. Each part of a
record is an immutable value. Most objects share the values that mean nothing special.
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
from kopf_core.engines.records.stages import UNSEEN, Cycle, Stage
from kopf_core.engines.records.told import SILENCE, Told
from kopf_core.engines.records.writes import DOUBTED, UNWRITTEN, LastWrite


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
        """Whether the object existed before it was noticed: its handlers are resumed."""

        self.namespace: str | None = None
        """The namespace of the object; unknown until its first turn."""

        self.write: LastWrite = UNWRITTEN
        """How our own latest patch has left the object."""

        self.cycle: Cycle = UNSEEN
        """How far the operator has got with its current state."""

        self.idle: int | None = None
        """A digest of the state for which a turn had nothing to do, without the status."""

        self.owed: Owed = NOTHING_OWED
        """The changes that are done, but are not on the object yet."""

        self.holds: Holds = FREE
        """The reasons why it is left alone for now."""

        self.told: Told = SILENCE
        """The messages that people have got about it."""

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

    @property
    def obstacle(self) -> str | None:
        """Why its latest state is not handled to the end, in words, if there is a known reason."""
        if self.holds.throttling is not None:
            return self.holds.throttling.reason
        return self.owed.title or self.told.complaint or self.told.loss

    def lose(self, body: RawBody) -> None:
        """The API does not know the object: ignore all states that are not newer than this one."""
        self.cycle = self.cycle.at(Stage.ABSENT)
        self.write = self.write.looked_up(body)

    def warn_once(self, topic: str) -> bool:
        """Return whether this is the first warning of the topic, and remember it."""
        if topic in self.told.topics:
            return False
        self.told = self.told._replace(topics=self.told.topics | {topic})
        return True

    def renew(self) -> "ObjectMemory":
        """The record as after a restart, with the same memo: its daemons and timers use it."""
        memory = ObjectMemory(self._origin, is_listed=True)
        memory._memo, memory.namespace = self._memo, self.namespace
        return memory


class PausedObject(NamedTuple):
    """An object that people have paused."""

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
        """The paused objects, as far as they were seen."""
        return self._paused.values()

    def pause(self, key: ObjectKey, paused: PausedObject) -> bool:
        """Remember that the object is paused; return whether that is news."""
        memory, self._paused[key] = self.recall(key), paused
        was_paused = memory.holds.is_paused
        memory.holds = memory.holds._replace(is_paused=True)
        return not was_paused

    def unpause(self, key: ObjectKey) -> None:
        memory = self.recall(key)
        memory.holds = memory.holds._replace(is_paused=False)
        self._paused.pop(key, None)

    def doubt_versions(self) -> None:
        """The resource versions went back, so the known ones mean nothing anymore."""
        for memory in self._items.values():
            memory.write = DOUBTED

    def restart(self, working: Collection[ObjectKey]) -> None:
        """Forget all records, as after a restart; but keep the memos of objects with running
        daemons.
        """
        kept = {key: self._items[key].renew() for key in working if key in self._items}
        self._items.clear()
        self._paused.clear()
        self._items.update(kept)

    def forget(self, key: ObjectKey) -> None:
        self._items.pop(key, None)
        self._paused.pop(key, None)

    def forget_unseen(self, key: ObjectKey) -> bool:
        """Forget a deleted object that has had no turns, and return whether this is so.

        Otherwise, its last turn forgets it.
        """
        memory = self._items.get(key)
        if memory is not None and memory.cycle.stage is not Stage.UNSEEN:
            return False
        self._items.pop(key, None)
        return True
