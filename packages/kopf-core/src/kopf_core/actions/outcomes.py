"""Outcomes of attempts."""

from collections.abc import Collection
from typing import Any, NamedTuple

from kopf_cogs.structs.ids import HandlerId
from kopf_core.actions.errors import RejectionError


class Outcome(NamedTuple):
    """The outcome of one attempt of one handler: a value that knows nothing of the next attempts.

    With ``final``, the handler has finished: with a success (no ``exception``), or with a failure.
    Otherwise, the handler must be called again after ``delay`` seconds.
    """

    final: bool
    delay: float | None = None
    result: Any = None
    exception: BaseException | None = None
    subrefs: Collection[HandlerId] = ()
    """Ids of the sub-handlers of any depth that this attempt has met."""

    is_attempt: bool = True
    """Whether it counts as an attempt; not if the handler only waits for something else."""

    @property
    def verdict(self) -> str:
        """In one word: success, rejection, failure, retry, waiting."""
        if not self.final:
            return "retry" if self.is_attempt else "waiting"
        if isinstance(self.exception, RejectionError):
            return "rejection"
        return "success" if self.exception is None else "failure"
