"""The cycle: how far the operator has got with the current state of an object.

Invariants: ``seen`` is set only in the middle of a cycle, i.e. with ``has_progress``. A released or
freed object has no cycle anymore.
"""

import enum
from typing import NamedTuple


class Stage(enum.Enum):
    """How far the object has got in this process."""

    UNSEEN = enum.auto()
    """It has had no turn yet, or none since the operator has begun anew, without a lease."""

    NEW = enum.auto()
    """No cycle has ended in this process: handlers are resumed for objects that existed before."""

    HANDLED = enum.auto()
    """A handling cycle has ended in this process: handlers are not resumed anymore."""

    LOST = enum.auto()
    """It was handled, but our marks are not there: it is handled as new if they do not come back.

    Another client has removed them, or the API did not know the object when they were sent.
    """

    RELEASED = enum.auto()
    """Its deletion is handled; the finalizer is not removed yet."""

    FREED = enum.auto()
    """The finalizer is removed: states from before the removal are ignored."""

    ABSENT = enum.auto()
    """The API does not know it: its events are of the past until the stream brings its end."""


LEAVING = (Stage.RELEASED, Stage.FREED, Stage.ABSENT)
"""The stages of an object that goes away, as far as it is known."""


class PackedStates(NamedTuple):
    """The seen states as a text, which takes four times less memory than the states.

    All objects can be in the middle of their cycles at once, each with such a text.
    """

    since: str
    """The time of the begin of the cycle, which tells it from other cycles."""

    text: str


class Cycle(NamedTuple):
    """The record of the handling cycle between its steps."""

    stage: Stage = Stage.UNSEEN

    has_progress: bool = True
    """Whether the object can have progress of handlers; unknown until the object is handled."""

    seen: PackedStates | None = None
    """The states that finished handlers have seen, in their stored form."""

    clock_offset: float | None = None
    """How far the wall clock was ahead of the monotonic clock when the progress was stored."""

    @property
    def was_stored(self) -> bool:
        """Whether this process has stored the progress of this cycle."""
        return self.clock_offset is not None

    def at(self, stage: Stage) -> "Cycle":
        """Move the object to another stage."""
        if self.stage is stage:
            return self
        changed = Cycle(stage, self.has_progress, self.seen, self.clock_offset)
        return HANDLED if changed == HANDLED else changed

    def shown(self, *, is_deleting: bool, is_blocked: bool) -> "Cycle":
        """Correct the stage by a state that is surely later than all our changes.

        The object is not absent then. If a restored backup has brought a state from before the
        release, the release is undone.
        """
        if self.stage is Stage.ABSENT:
            return self.at(Stage.LOST)
        if self.stage not in LEAVING:
            return self
        if not is_deleting:
            return self.at(Stage.HANDLED)
        return self.at(Stage.RELEASED) if is_blocked else self

    def stored(self, clock_offset: float | None) -> "Cycle":
        """The progress is stored, and the cycle goes on."""
        return Cycle(self.stage, True, self.seen, clock_offset)

    def ended(self, *, has_progress: bool) -> "Cycle":
        """The cycle is over. Progress is left only for handlers that have seen more than others."""
        if has_progress:
            return self._replace(has_progress=True)
        return Cycle(self.stage, has_progress=False)


UNSEEN = Cycle()
"""The object has had no turn yet. Most such objects share this value."""

UNHANDLED = Cycle(Stage.NEW)
"""The object has its first turn. Most such objects share this value."""

HANDLED = Cycle(Stage.HANDLED, has_progress=False)
"""The object is handled, and has no progress. Most objects share this value."""
