"""The holds: reasons to leave an object alone for a while, though it needs work.

Invariants: the counts only grow while the trouble repeats. Every hold has an end in time, except
for the pause by people.
"""

from collections.abc import Collection, Iterable
from itertools import islice
from typing import NamedTuple

from kopf_cogs.structs.dicts import FieldPath
from kopf_cogs.structs.diffs import Diff

LOST_MARKS_DELAYS = (0.0, 1.0, 3.0, 10.0, 30.0, 60.0)
"""Seconds before an object is handled anew after others have removed its marks repeatedly."""

PEACE = 60.0
"""In seconds: after so long without a loss of the finalizer, the next loss is the first one."""

FREE_ROUNDS = 20
"""The number of rounds without delays: some operators take many steps to the wanted state."""

FIRST_DELAY = 0.1
"""In seconds: the delay of the next round. Each delay is twice as long as the one before it."""

MAX_DELAY = 600.0
"""In seconds: the longest delay between two rounds."""

QUIET = 60.0
"""In seconds: if the next round begins so late, it is the first one again."""


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
    """Other clients undo our changes of the finalizer: Kopf leaves it as it is for a while."""

    done: tuple[str | None, bool] | None = None
    """Our latest change: the version of the kind in which it was made, and whether it was added."""

    until: float = 0.0
    """Until when (monotonic) the finalizer is left as it is."""

    undone: int = 0
    """How many times in a row other clients have undone our change, with no long peace between."""

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


class Loop(NamedTuple):
    """The operator's own writes call handlers, and these write again: such calls are a round.

    Changes by others end the loop.
    """

    rounds: int = 0
    """The number of rounds in a row."""

    until: float = 0.0
    """Until when (monotonic) the next round waits."""

    fields: frozenset[FieldPath] = frozenset()
    """The fields that the operator has written since the first round."""

    @property
    def is_endless(self) -> bool:
        """Whether there were so many rounds that each next one waits."""
        return self.rounds >= FREE_ROUNDS

    def went_round(self, now: float) -> "Loop":
        """Our own write has called handlers once more."""
        rounds = self.rounds + 1 if now - self.until < QUIET else 1
        extra = rounds - FREE_ROUNDS
        delay = 0.0 if extra < 0 else min(FIRST_DELAY * 2.0 ** min(extra, 64), MAX_DELAY)
        return self._replace(rounds=rounds, until=now + delay)

    def wrote(self, fields: Iterable[FieldPath]) -> "Loop":
        """The operator has written these fields. They matter only if a round has begun."""
        return self._replace(fields=self.fields.union(fields)) if self.rounds else self

    def covers(self, diff: Diff) -> bool:
        """Whether the operator itself can have made all these changes."""
        return not self.rounds or all(
            any(_is_within(item.field, own) for own in self.fields) for item in diff
        )


NO_LOOP = Loop()


def _is_within(one: FieldPath, other: FieldPath) -> bool:
    """Whether one of the fields is a part of the other one."""
    return one[: len(other)] == other[: len(one)]


class Holds(NamedTuple):
    """All reasons to leave one object alone."""

    is_paused: bool = False
    """Whether people pause the object, with an annotation."""

    throttling: Throttling | None = None
    """The growing delays after failures of the framework, if there are any."""

    until: float = 0.0
    """Until when (monotonic) the object is left alone, as other clients have removed its marks."""

    losses: int = 0
    """How many times other clients have removed our marks from the object."""

    finalizer: FinalizerHold = FinalizerHold()

    changes: Loop = NO_LOOP
    """The loop in which our own writes begin the handling cycles of the object."""

    events: Loop = NO_LOOP
    """The loop in which handlers of events change the object for the echoes of our own writes."""

    @property
    def has_loops(self) -> bool:
        """Whether our own writes have called handlers, at least once."""
        return self.changes is not NO_LOOP or self.events is not NO_LOOP

    def wrote(self, fields: Collection[FieldPath]) -> "Holds":
        """The operator has written these fields of the object."""
        return self._replace(changes=self.changes.wrote(fields), events=self.events.wrote(fields))

    def went_round(self, now: float) -> "Holds":
        """Our own writes have begun a handling cycle."""
        return self._replace(changes=self.changes.went_round(now))

    def observed(self, now: float, *, is_own: bool, has_changes: bool) -> "Holds":
        """The stream has brought echoes of our own writes only, or changes by others, too.

        It is a round if the handlers of events have changes for the echoes.
        """
        if is_own and has_changes:
            return self._replace(events=self.events.went_round(now))
        changes = self.changes if is_own else NO_LOOP
        if self.changes is changes and self.events is NO_LOOP:
            return self
        return self._replace(changes=changes, events=NO_LOOP)

    def lost(self, now: float) -> "Holds":
        """Another client has removed our marks once more."""
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
