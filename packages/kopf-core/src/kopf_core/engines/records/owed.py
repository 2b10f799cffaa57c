"""The owed: what is done for an object in this process, but is not on the object yet.

Handlers are never called again only because their outcomes could not be sent.

Invariants: ``marks`` and ``patch`` are there together or not at all; ``base`` only with them.
"""

from typing import NamedTuple

from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.patches import Patch, PatchFn
from kopf_core.actions.marks import Marks


class Owed(NamedTuple):
    """What is to be sent to the API by the next turn, and how that went until now."""

    marks: Marks | None = None
    """The changes by the framework that could not be sent."""

    patch: Patch | None = None
    """The changes by the handlers that could not be sent."""

    base: RawBody | None = None
    """By which state that was made, if a pause has held it: others can act in pauses."""

    carried: tuple[PatchFn, ...] = ()
    """The transformation functions to be tried again on a fresher body."""

    conflicts: int = 0
    """How many times in a row the transformation functions could not be applied."""

    def unsent(self, marks: Marks, patch: Patch) -> "Owed":
        """These changes were not sent; or there is nothing in them, and nothing is owed."""
        if marks or patch:
            return self._replace(marks=marks, patch=patch)
        has_functions = self.carried or self.conflicts
        return self._replace(marks=None, patch=None) if has_functions else NOTHING_OWED

    def held(self, base: RawBody) -> "Owed":
        """They are held by a pause, and were made by that state."""
        return self._replace(base=base)

    def judged(self, *, is_obsolete: bool) -> "Owed":
        """The pause is over: they are dropped if others have handled the object meanwhile."""
        if is_obsolete:
            return self._replace(base=None, marks=None, patch=None)
        return self._replace(base=None)

    def taken(self) -> "Owed":
        """The functions go with the next patch."""
        return self._replace(carried=()) if self.carried else self

    def refused(self, carried: tuple[PatchFn, ...], *, has_news: bool) -> "Owed":
        """The functions were refused. With news, it is no wonder: others change the object, too."""
        count = self.conflicts + (not has_news)
        return self._replace(carried=self.carried + carried, conflicts=count)

    def accepted(self) -> "Owed":
        """The functions were not refused the last time."""
        return self._replace(conflicts=0) if self.conflicts else self

    def given_up(self) -> "Owed":
        """The functions are dropped, as they are never accepted."""
        return self._replace(carried=(), conflicts=0)


NOTHING_OWED = Owed()
"""Everything done is on the object. One for all: they are many."""
