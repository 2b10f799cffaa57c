"""What the operator remembers of every object while the process lives.

The records are made for every object in the cluster that is watched, so they are small;
whatever only few objects need is made when it is needed.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from kopf_cogs.structs.bodies import BodyEssence, RawBody
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.memos import AnyMemo, Memo
from kopf_cogs.structs.patches import Patch, PatchFn
from kopf_core.actions.marks import Marks
from kopf_core.actions.throttling import Throttler

NOTHING_SEEN: dict[HandlerId, BodyEssence] = {}
"""Shared by all objects at rest; never modified."""


class ObjectMemory:
    """The record of one object, from its first event to its deletion."""

    __slots__ = (
        "_memo",
        "_origin",
        "background",
        "carried",
        "catching_up",
        "conflicts",
        "indexing",
        "is_freed",
        "is_handled",
        "is_listed",
        "is_released",
        "losses",
        "patched_version",
        "pending",
        "seen",
        "settled_version",
        "throttler",
        "warned",
    )

    def __init__(self, origin: AnyMemo, *, is_listed: bool) -> None:
        self._origin = origin
        self._memo: AnyMemo | None = None

        self.is_listed = is_listed
        """The object existed before it was noticed: handlers are to be resumed for it."""

        self.is_handled = False
        """A handling cycle was finished in this process: there is nothing to be resumed."""

        self.is_released = False
        """The deletion was handled in this process: it only remains to remove the finalizer."""

        self.is_freed = False
        """The finalizer is removed already: the earlier states are of no interest anymore."""

        self.pending: tuple[Marks, Patch] | None = None
        """What could not be sent to the API: the framework's marks and the handlers' changes."""

        self.losses = 0
        """How many times our marks were removed from the object by others."""

        self.patched_version: int | None = None
        """The resource version of our own last patch: what is older is outdated for sure."""

        self.settled_version: str | None = None
        """The version of our own last patch if it has ended the cycle and changed nothing else."""

        self.conflicts = 0
        """How many times in a row the transformation functions could not be applied."""

        self.carried: tuple[PatchFn, ...] = ()
        """The transformation functions to be tried again on a fresher body."""

        self.background: Any = None
        """The daemons and timers of the object, if any."""

        self.indexing: Any = None
        """The failures of indexing of the object, if any."""

        self.seen: dict[HandlerId, BodyEssence] = NOTHING_SEEN
        """What the handlers that are over have seen, while the others of the cycle go on."""

        self.catching_up: tuple[BodyEssence, Mapping[HandlerId, BodyEssence]] | None = None
        """A state which everyone has seen, except for those handlers that have seen others."""

        self.throttler: Throttler | None = None
        self.warned: frozenset[str] = frozenset()
        """What was already warned about for this object, not to be repeated."""

    @property
    def memo(self) -> AnyMemo:
        """The users' container: a shallow copy of the operator's one."""
        if self._memo is None:
            origin = self._origin
            self._memo = Memo(origin) if type(origin) is Memo else copy.copy(origin)
        return self._memo

    @property
    def initial(self) -> bool:
        return self.is_listed and not self.is_handled

    def is_outdated(self, body: RawBody) -> bool:
        """Whether the state is older than our own last patch. Unknown versions are trusted."""
        version = parse_version(body)
        return (
            version is not None
            and self.patched_version is not None
            and version < self.patched_version
        )

    def is_settled(self, body: RawBody | None) -> bool:
        """Whether the object is exactly as we have left it when everything was handled."""
        return (
            self.settled_version is not None
            and body is not None
            and self.settled_version == body["metadata"].get("resourceVersion")
        )

    def warn_once(self, topic: str) -> bool:
        """Whether this is the first time; remembers that it was."""
        if topic in self.warned:
            return False
        self.warned |= {topic}
        return True

    def take_carried(self) -> tuple[PatchFn, ...]:
        """The functions carried forward from the previous patches; they are not kept here then."""
        carried, self.carried = self.carried, ()
        return carried


class ObjectMemories(Mapping[ObjectKey, ObjectMemory]):
    """The records of all objects of one operator, by their keys."""

    def __init__(self, memo: AnyMemo) -> None:
        self._memo = memo
        self._items: dict[ObjectKey, ObjectMemory] = {}

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

    def forget(self, key: ObjectKey) -> None:
        self._items.pop(key, None)


def parse_version(body: RawBody) -> int | None:
    """Resource versions are comparable if they are numbers, which is so for all API servers."""
    return _as_number(body["metadata"].get("resourceVersion"))


def is_newer(one: RawBody, other: RawBody) -> bool:
    """Whether one state of the object is surely newer than the other one."""
    one_version, other_version = parse_version(one), parse_version(other)
    return one_version is not None and other_version is not None and one_version > other_version


def is_same(one: RawBody, other: RawBody) -> bool:
    """Whether these are surely the same state of the object."""
    version = one["metadata"].get("resourceVersion")
    return version is not None and version == other["metadata"].get("resourceVersion")


def is_as_new(body: RawBody, version: str) -> bool:
    """Whether the state is surely not older than the version."""
    one_version, other_version = parse_version(body), _as_number(version)
    return one_version is not None and other_version is not None and one_version >= other_version


def _as_number(version: str | None) -> int | None:
    return int(version) if version and version.isascii() and version.isdigit() else None
