"""The owed: changes that are done in this process, but are not on the object yet.

Kopf sends them later, so that no handler is called again only because its outcome was not sent.

Invariants: ``marks`` and ``patch`` are set together or not at all; ``base`` only with them.
"""

from typing import NamedTuple

from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.patches import Patch, PatchFn
from kopf_core.actions.marks import Marks


class Owed(NamedTuple):
    """The changes that the next turn must send, and the history of their sending."""

    marks: Marks | None = None
    """The changes by the framework that could not be sent."""

    patch: Patch | None = None
    """The changes by the handlers that could not be sent."""

    base: RawBody | None = None
    """The state before these changes, if a pause has held them: other operators act in pauses."""

    carried: tuple[PatchFn, ...] = ()
    """The transformation functions to be tried again on a fresher body."""

    conflicts: int = 0
    """How many times in a row the transformation functions could not be applied."""

    refusal: str | None = None
    """The latest reply of the server that refused these functions, if there was any text."""

    @property
    def title(self) -> str | None:
        """A description of the debt, with the reply of the server; ``None`` if there is no debt."""
        if self.marks is None and not self.carried and not self.conflicts:
            return None
        reason = f": {self.refusal}" if self.refusal else ""
        return f"its changes are not stored{reason}"

    def unsent(self, marks: Marks, patch: Patch) -> "Owed":
        """These changes were not sent. If there are no changes in them, nothing is owed."""
        if marks or patch:
            return self._replace(marks=marks, patch=patch)
        has_functions = self.carried or self.conflicts
        return self._replace(marks=None, patch=None) if has_functions else NOTHING_OWED

    def held(self, base: RawBody) -> "Owed":
        """A pause holds the changes, which were made for that state of the object."""
        return self._replace(base=base)

    def judged(self, *, is_obsolete: bool) -> "Owed":
        """The pause is over: drop the changes if another operator has handled the object since."""
        if is_obsolete:
            return self._replace(base=None, marks=None, patch=None)
        return self._replace(base=None)

    def taken(self) -> "Owed":
        """The functions are in the next patch now."""
        return self._replace(carried=()) if self.carried else self

    def refused(
        self, carried: tuple[PatchFn, ...], refusal: str | None, *, has_news: bool
    ) -> "Owed":
        """The functions were refused. This does not count if the object has just changed."""
        count = self.conflicts + (not has_news)
        return self._replace(carried=self.carried + carried, conflicts=count, refusal=refusal)

    def accepted(self) -> "Owed":
        """The functions were accepted: the next refusal is the first one."""
        return self._replace(conflicts=0, refusal=None) if self.conflicts else self

    def given_up(self) -> "Owed":
        """Drop the functions, as the API never accepts them."""
        return self._replace(carried=(), conflicts=0, refusal=None)


NOTHING_OWED = Owed()
"""Nothing is owed. Most objects share this value."""
