"""What came out of one attempt of one handler."""

from collections.abc import Collection
from typing import Any, NamedTuple

from kopf_cogs.structs.ids import HandlerId


class Outcome(NamedTuple):
    """The outcome of one attempt: a value, with no knowledge of what happens next.

    ``final`` means that the handler is over, be it with a success (no ``exception``)
    or a failure. Otherwise, the handler is to be called again after ``delay`` seconds.
    """

    final: bool
    delay: float | None = None
    result: Any = None
    exception: BaseException | None = None
    subrefs: Collection[HandlerId] = ()
    """Ids of the sub-handlers of any depth which this attempt has met."""
