"""Work items: the objects that have something to be done for, and what comes of a turn on them.

A turn is one pass of a worker over one object. What it results in says what comes next,
and only the work queue waits.
"""

from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from kopf_cogs.structs.bodies import RawBody, RawEvent, RawEventType
from kopf_cogs.structs.keys import ObjectKey
from kopf_core.engines.memories import is_as_new


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing to come back for, until something happens to the object."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """To be processed again at that time, even if nothing happens to the object."""

    at: float
    """The monotonic time of the operator's clock."""

    is_held: bool = False
    """Whether to wait for that time even if something happens to it before."""


@dataclass(frozen=True, slots=True)
class AwaitChange:
    """Our own patch is to come back in the stream: until then, the state is inconsistent."""

    version: str
    """The resource version of the object after the patch."""

    until: float
    """The monotonic time of the operator's clock: when to give up, and to work with what is."""


TurnResult: TypeAlias = Done | Requeue | AwaitChange

DONE = Done()


class WorkItem:
    """One object in the work queue."""

    __slots__ = ("awaited", "events", "key", "latest", "type")

    def __init__(self, key: ObjectKey) -> None:
        self.key = key
        self.events: deque[RawEvent] = deque()
        """What has come from the stream since the last turn, in order."""

        self.latest: RawBody | None = None
        """The newest known state of the object: streamed or returned from our own patch."""

        self.type: RawEventType = None
        """How that state has come."""

        self.awaited: AwaitChange | None = None
        """The state is inconsistent until our own patch comes back, or until its deadline."""

    def notice(self, body: RawBody) -> None:
        """A state has come from the stream: maybe, this is the one we waited for."""
        if self.awaited is not None and (
            body["metadata"].get("resourceVersion") == self.awaited.version
            or is_as_new(body, self.awaited.version)
        ):
            self.awaited = None

    def get_awaited(self, now: float) -> AwaitChange | None:
        """What to wait for until the state can be relied on; ``None`` if it can be now."""
        if self.awaited is None or self.awaited.until <= now:
            return None
        return self.awaited
