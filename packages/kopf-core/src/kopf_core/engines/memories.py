"""What the operator remembers of every object while the process lives.

The records are made for every object in the cluster that is watched, so they are small;
whatever only few objects need is made when it is needed.
"""

import copy
import enum
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.memos import AnyMemo, Memo
from kopf_cogs.structs.patches import Patch, PatchFn
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.marks import Marks
from kopf_core.actions.throttling import Throttler
from kopf_core.engines.records.writes import UNWRITTEN

_NOTHING: frozenset[str] = frozenset()  # one for all: each takes hundreds of bytes


class Stage(enum.Enum):
    """How far the object has got in this process."""

    NEW = enum.auto()
    """Nothing was finished yet: the handlers are to be resumed if the object existed before."""

    HANDLED = enum.auto()
    """A handling cycle was finished: there is nothing to be resumed."""

    LOST = enum.auto()
    """It was handled, but others have removed our marks: to be handled as new, though later."""

    RELEASED = enum.auto()
    """Its deletion was handled: it only remains to remove the finalizer."""

    FREED = enum.auto()
    """The finalizer is removed already: the earlier states are of no interest anymore."""

    ABSENT = enum.auto()
    """The API does not know it: it is deleted, and what comes until that is known is the past."""


class PackedStates(NamedTuple):
    """The states seen by handlers as a text: it takes four times less memory than they themselves.

    All objects can be in the middle of their cycles at once, with such a text for each.
    """

    since: str
    """What tells this cycle from others: when it has begun."""

    text: str


def copy_memo(origin: AnyMemo) -> AnyMemo:
    """The users' container for one object: a shallow copy of the operator's one."""
    return Memo(origin) if type(origin) is Memo else copy.copy(origin)


class ObjectMemory:
    """The record of one object, from its first event to its deletion."""

    __slots__ = (
        "_memo",
        "_origin",
        "background",
        "base",
        "carried",
        "clock_offset",
        "complaint",
        "conflicts",
        "finalized",
        "finalizer_until",
        "has_progress",
        "held_until",
        "indexing",
        "is_listed",
        "is_paused",
        "losses",
        "namespace",
        "pending",
        "seen",
        "stage",
        "throttler",
        "undone",
        "warned",
        "write",
    )

    def __init__(self, origin: AnyMemo, *, is_listed: bool) -> None:
        self._origin = origin
        self._memo: AnyMemo | None = None

        self.is_listed = is_listed
        """The object existed before it was noticed: handlers are to be resumed for it."""

        self.namespace: str | None = None
        """Where the object is; not known until its first turn."""

        self.stage = Stage.NEW

        self.complaint: str | None = None
        """Why the object is invalid for the models of handlers, if it is told about that."""

        self.is_paused = False
        """Nothing is handled for it for now, as people ask."""

        self.has_progress = True
        """There may be progress of handlers on the object: unknown until it is handled."""

        self.seen: PackedStates | None = None
        """What the handlers that are over have seen, while the others go on: as it is stored."""

        self.finalized: tuple[str | None, bool] | None = None
        """What we have done to the finalizer the last time: in which kind, and whether added."""

        self.finalizer_until = 0.0
        """Until when (monotonic) it is left as it is, since others undo what we do to it."""

        self.undone = 0
        """How many times in a row, with no long pauses between them, they have done so."""

        self.clock_offset: float | None = None
        """How far the wall clock was from the monotonic one when the progress was stored."""

        self.held_until = 0.0
        """Until when (in the monotonic time) the object that has lost our marks is not handled."""

        self.pending: tuple[Marks, Patch] | None = None
        """What could not be sent to the API: the framework's marks and the handlers' changes."""

        self.base: RawBody | None = None
        """By which state that was made, if a pause has held it: others can act in pauses."""

        self.losses = 0
        """How many times our marks were removed from the object by others."""

        self.write = UNWRITTEN
        """How we have left the object ourselves."""

        self.conflicts = 0
        """How many times in a row the transformation functions could not be applied."""

        self.carried: tuple[PatchFn, ...] = ()
        """The transformation functions to be tried again on a fresher body."""

        self.background: Any = None
        """The daemons and timers of the object, if any."""

        self.indexing: Any = None
        """The failures of indexing of the object, if any."""

        self.throttler: Throttler | None = None
        self.warned = _NOTHING
        """What was already warned about for this object, not to be repeated."""

    @property
    def memo(self) -> AnyMemo:
        """The users' container: a shallow copy of the operator's one."""
        if self._memo is None:
            self._memo = copy_memo(self._origin)
        return self._memo

    @property
    def initial(self) -> bool:
        return self.is_listed and self.stage is Stage.NEW

    def lose(self, body: RawBody) -> None:
        """The API does not know the object: what is not newer than this state, is of the past."""
        self.stage = Stage.ABSENT
        self.write = self.write.looked_up(body)

    def warn_once(self, topic: str) -> bool:
        """Whether this is the first time; remembers that it was."""
        if topic in self.warned:
            return False
        self.warned |= {topic}
        return True

    def renew(self) -> "ObjectMemory":
        """The record as after a restart, with the same daemons and timers, and their memo."""
        memory = ObjectMemory(self._origin, is_listed=True)
        memory._memo, memory.background = self._memo, self.background
        memory.namespace = self.namespace
        return memory

    def take_carried(self) -> tuple[PatchFn, ...]:
        """The functions carried forward from the previous patches; they are not kept here then."""
        carried, self.carried = self.carried, ()
        return carried


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
        was_paused, memory.is_paused = memory.is_paused, True
        return not was_paused

    def unpause(self, key: ObjectKey) -> None:
        self.recall(key).is_paused = False
        self._paused.pop(key, None)

    def doubt_versions(self) -> None:
        """The resource versions went back, so those that are known mean nothing anymore."""
        for memory in self._items.values():
            memory.write = memory.write.doubted()

    def restart(self, is_working: Callable[[ObjectMemory], bool]) -> None:
        """Forget everything, as after a restart; but not what works for the objects still."""
        kept = {key: memory for key, memory in self._items.items() if is_working(memory)}
        self._items.clear()
        self._paused.clear()
        for key, memory in kept.items():
            self._items[key] = memory.renew()

    def forget(self, key: ObjectKey) -> None:
        self._items.pop(key, None)
        self._paused.pop(key, None)
