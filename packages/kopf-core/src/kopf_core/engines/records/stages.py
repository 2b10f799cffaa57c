"""The cycle: how far the operator has got with the current state of an object.

Invariants: ``seen`` is only there amid a cycle, i.e. with ``has_progress``; a released or freed
object has no cycle anymore.
"""

import enum
from typing import NamedTuple


class Stage(enum.Enum):
    """How far the object has got in this process."""

    UNSEEN = enum.auto()
    """It has had no turn yet, and only the indices know it."""

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


class Cycle(NamedTuple):
    """What is remembered of the handling cycle between its steps."""

    stage: Stage = Stage.UNSEEN

    has_progress: bool = True
    """There may be progress of handlers on the object: unknown until it is handled."""

    seen: PackedStates | None = None
    """What the finished handlers have seen, while the others go on: as it is stored."""

    clock_offset: float | None = None
    """How far the wall clock was from the monotonic one when the progress was stored."""

    @property
    def was_stored(self) -> bool:
        """Whether this process has stored the progress of this cycle."""
        return self.clock_offset is not None

    def at(self, stage: Stage) -> "Cycle":
        """The object has got to another stage."""
        if self.stage is stage:
            return self
        changed = Cycle(stage, self.has_progress, self.seen, self.clock_offset)
        return HANDLED if changed == HANDLED else changed

    def shown(self, *, is_deleting: bool, is_blocked: bool) -> "Cycle":
        """The object is surely so after all that we have done to it.

        It is not absent then. Its release is undone if a restored backup has brought the past.
        """
        if self.stage is Stage.ABSENT:
            return self.at(Stage.HANDLED)
        if self.stage not in (Stage.RELEASED, Stage.FREED):
            return self
        if not is_deleting:
            return self.at(Stage.HANDLED)
        return self.at(Stage.RELEASED) if is_blocked else self

    def stored(self, clock_offset: float | None) -> "Cycle":
        """The progress is stored, and the cycle goes on."""
        return Cycle(self.stage, True, self.seen, clock_offset)

    def ended(self, *, has_progress: bool) -> "Cycle":
        """The cycle is over; there is progress of those handlers who are ahead of the others."""
        if has_progress:
            return self._replace(has_progress=True)
        return Cycle(self.stage, has_progress=False)


UNSEEN = Cycle()
"""Nothing is known of the object yet. One for all: they are many."""

UNHANDLED = Cycle(Stage.NEW)
"""The object has its first turn. One for all: they are many."""

HANDLED = Cycle(Stage.HANDLED, has_progress=False)
"""The object is handled, and has no progress on it. One for all: they are many."""
