"""The holds: reasons to leave an object alone for a while, though it needs work.

Invariants: the counts only grow while the trouble repeats. Every hold has an end in time, except
for the pause by people.
"""

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

LOST_MARKS_DELAYS = (0.0, 1.0, 3.0, 10.0, 30.0, 60.0)
"""Seconds before an object is handled anew after others have removed its marks repeatedly."""

PEACE = 60.0
"""In seconds: after so long without a loss of the finalizer, the next loss is the first one."""


class Throttling(NamedTuple):
    """The framework fails on the object: its turns have growing delays."""

    failures: int = 0
    """The number of failures in a row."""

    reason: str | None = None
    """The reason of the latest failure."""

    def failed(self, reason: str) -> "Throttling":
        return Throttling(self.failures + 1, reason)

    def get_delay(self, delays: Iterable[float]) -> float | None:
        """Seconds to wait after the latest error; ``None`` if throttling is disabled.

        When the sequence is over, its last delay is repeated.
        """
        return [None, *islice(delays, self.failures)][-1]


class FinalizerHold(NamedTuple):
    """Others undo our changes of the finalizer: it is left as it is for a while."""

    done: tuple[str | None, bool] | None = None
    """Our latest change: the version of the kind in which it was made, and whether it was added."""

    until: float = 0.0
    """Until when (monotonic) the finalizer is left as it is."""

    undone: int = 0
    """How many times in a row others have undone our change, with no long peace between."""

    def changed(self, kind: str | None, *, is_added: bool) -> "FinalizerHold":
        """We have added or removed the finalizer."""
        return self._replace(done=(kind, is_added))

    def noticed(self, kind: str | None, now: float, *, wanted: bool) -> "FinalizerHold":
        """The finalizer is not as wanted. If our latest change has made it so, others have undone
        that.
        """
        if self.done in (None, (kind, not wanted)):
            return self
        undone = self.undone + 1 if now - self.until < PEACE else 1
        return FinalizerHold(None, now + choose_delay(undone), undone)


class Holds(NamedTuple):
    """All reasons to leave one object alone."""

    is_paused: bool = False
    """Whether people pause the object, with an annotation."""

    throttling: Throttling | None = None
    """The growing delays after failures of the framework, if there are any."""

    until: float = 0.0
    """Until when (monotonic) the object is left alone, as others have removed its marks."""

    losses: int = 0
    """How many times others have removed our marks from the object."""

    finalizer: FinalizerHold = FinalizerHold()

    def lost(self, now: float) -> "Holds":
        """Others have removed our marks once more."""
        losses = self.losses + 1
        return self._replace(until=now + choose_delay(losses), losses=losses)

    def handled(self) -> "Holds":
        """The object is handled: it is left alone no more."""
        return self._replace(until=0.0) if self.until else self


FREE = Holds()
"""No reasons to leave the object alone. Most objects share this value."""


def choose_delay(count: int) -> float:
    """How long to wait (in seconds) after that many losses in a row."""
    return LOST_MARKS_DELAYS[min(count, len(LOST_MARKS_DELAYS)) - 1]
