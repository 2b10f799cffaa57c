"""The holds: why an object is left alone for a while, though there is something to be done.

Invariants: the counts only grow while the trouble repeats; every hold has an end in time,
except for the pause by people.
"""

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

LOST_MARKS_DELAYS = (0.0, 1.0, 3.0, 10.0, 30.0, 60.0)
"""Seconds before handling an object anew when its marks are removed by others repeatedly."""

PEACE = 60.0
"""In seconds: if the finalizer was as we want it for that long, its next loss is the first one."""


class Throttling(NamedTuple):
    """The object makes the framework fail: it is left alone for growing delays."""

    failures: int = 0
    """How many times in a row."""

    reason: str | None = None
    """Why, the last time."""

    def failed(self, reason: str) -> "Throttling":
        return Throttling(self.failures + 1, reason)

    def get_delay(self, delays: Iterable[float]) -> float | None:
        """Seconds to wait after the latest error; ``None`` if throttling is disabled.

        When the sequence is over, its last delay is repeated.
        """
        return [None, *islice(delays, self.failures)][-1]


class FinalizerHold(NamedTuple):
    """The finalizer is left as it is for a while when others undo what we do to it."""

    done: tuple[str | None, bool] | None = None
    """What we have done to it the last time: in which version of the kind, and whether added."""

    until: float = 0.0
    """Until when (monotonic) it is left as it is."""

    undone: int = 0
    """How many times in a row others have undone it, with no long peace between them."""

    def changed(self, kind: str | None, *, is_added: bool) -> "FinalizerHold":
        """We have added or removed the finalizer."""
        return self._replace(done=(kind, is_added))

    def noticed(self, kind: str | None, now: float, *, wanted: bool) -> "FinalizerHold":
        """The finalizer is not as we want it: if we have made it so already, others undo that."""
        if self.done in (None, (kind, not wanted)):
            return self
        undone = self.undone + 1 if now - self.until < PEACE else 1
        return FinalizerHold(None, now + choose_delay(undone), undone)


class Holds(NamedTuple):
    """All reasons to leave one object alone."""

    is_paused: bool = False
    """People ask so, until they ask so no more."""

    throttling: Throttling | None = None
    """The framework has failed on the object."""

    until: float = 0.0
    """Until when (monotonic) the object that has lost our marks is not handled."""

    losses: int = 0
    """How many times our marks were removed from the object by others."""

    finalizer: FinalizerHold = FinalizerHold()

    def lost(self, now: float) -> "Holds":
        """Our marks were removed once more."""
        losses = self.losses + 1
        return self._replace(until=now + choose_delay(losses), losses=losses)

    def handled(self) -> "Holds":
        """The object is handled: nothing is to be waited for."""
        return self._replace(until=0.0) if self.until else self


FREE = Holds()
"""There is no reason to leave the object alone. One for all: they are many."""


def choose_delay(count: int) -> float:
    """How long to wait (in seconds) after that many losses in a row."""
    return LOST_MARKS_DELAYS[min(count, len(LOST_MARKS_DELAYS)) - 1]
