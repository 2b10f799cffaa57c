"""Work items: the objects that need work; and the results of turns.

A turn is one pass of a worker over one object. Its result says what the object waits for. Only the
work queue waits.
"""

import asyncio
import enum
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kopf_cogs.structs.bodies import RawBody, RawEvent, RawEventType
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.versions import is_newer
from kopf_core.engines.records.writes import AwaitChange

LAST_MOMENT = 1.0
"""How long (in seconds) an interrupted turn can send the changes that it has made."""


class Done:
    """The result of a turn: nothing to do until something happens to the object."""

    __slots__ = ()


class Requeue(NamedTuple):
    """The result of a turn: another turn at that time, even if nothing happens to the object."""

    at: float
    """The monotonic time of the operator's clock."""

    is_held: bool = False
    """Whether to wait until that time even if the object changes, unless it is deleted."""


TurnResult: TypeAlias = Done | Requeue | AwaitChange

DONE = Done()


class Position(enum.Enum):
    """Where an object is in the queue."""

    QUEUED = enum.auto()
    """It needs a turn, and waits for a place."""

    WORKING = enum.auto()
    """It has its turn now. Meanwhile, events are kept for the next turn."""

    DELAYED = enum.auto()
    """It waits for its time, or for a change."""

    HELD = enum.auto()
    """It waits for its time, even if it changes."""

    DROPPED = enum.auto()
    """It has left the queue."""


@dataclass(slots=True, eq=False, repr=False)
class WorkItem:
    """One object in the work queue, for as long as it needs work."""

    key: ObjectKey
    is_listed: bool = False
    """Whether the object existed before it was watched."""

    position: Position = Position.DELAYED
    events: deque[RawEvent] = field(default_factory=deque)
    """The events since the last turn, in order; or only the newest event.

    If an event with an older state comes after the newest one, both are here: see ``take``.
    """

    latest: RawBody | None = None
    """The newest known state of the object: from the stream, or from the reply to our patch."""

    type: RawEventType = None
    """The type of the event that has brought that state."""

    is_backlog: bool = False
    """Whether it waits for its first turn, and only the initial list has brought it."""

    is_contradicted: bool = False
    """Whether the stream has brought a state older than the known one, and no newer one yet."""

    is_sending: bool = False
    """Whether its changes are on their way to the API right now."""

    interruptions: int = 0
    """The number of turns in a row during which something has happened to the object."""

    generation: int = 0
    """The number of events of the object, and of wishes for its turns."""

    seen_generation: int = 0
    """The generation at the begin of the latest turn: if it differs, another turn is due."""

    reasons: frozenset[str] = frozenset()
    """The reasons of other parts for the next turn, apart from events."""

    rest: TurnResult = DONE
    """The result of the latest turn: the reason of the object to wait."""

    wanted_at: float | None = None
    """When another part wants a turn for it, even if nothing happens."""

    last_moment: float | None = None
    """Until when an interrupted turn can send its changes, by the operator's clock."""

    _namespace: str | None = None  # once it was asked for
    task: "asyncio.Task[None] | None" = None
    timer: asyncio.TimerHandle | None = None

    def take(self, event: RawEvent, *, keep: bool) -> None:
        """Remember the event: after the earlier ones if they are kept, or instead of them.

        Proxies can repeat old states. So a newer state is never replaced: the turn sees both
        states in their order, and requests the object.
        """
        if self.events and not keep:
            earlier = self.events[0]
            self.events.clear()
            if is_newer(earlier["object"], event["object"]):
                self.events.append(earlier)
        self.events.append(event)
        self.generation += 1

    def take_reasons(self) -> frozenset[str]:
        """Return the reasons for the turn, apart from events, and remember them no more."""
        reasons, self.reasons = self.reasons, frozenset()
        return reasons

    def interrupt(self, now: float) -> None:
        """Cancel the turn. If its changes are on their way, wait a little: otherwise, they are sent
        again.
        """
        if self.last_moment is None:
            self.last_moment = now + LAST_MOMENT
        if not self.is_sending:
            self._cut(self.last_moment)
        else:
            loop = asyncio.get_running_loop()
            loop.call_later(LAST_MOMENT / 2, self._cut, self.last_moment)

    def _cut(self, last_moment: float) -> None:
        if self.task is not None and self.last_moment == last_moment:
            self.task.cancel()

    def set_timer(self, timer: asyncio.TimerHandle | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = timer

    @property
    def newest(self) -> RawBody | None:
        """The newest known state of the object, even if no turn has taken it yet."""
        return self.events[-1]["object"] if self.events else self.latest

    @property
    def namespace(self) -> str | None:
        """The namespace of the object, if it is known; all its objects share the text."""
        if self._namespace is None and (newest := self.newest) is not None:
            name = newest["metadata"].get("namespace")
            self._namespace = None if name is None else sys.intern(name)
        return self._namespace

    @property
    def is_restless(self) -> bool:
        """Whether it comes again and again. Once does not count: that can be our own patch."""
        return self.interruptions > 1

    @property
    def held(self) -> Requeue | None:
        """The hold, in which only the events of the object are handled; ``None`` without it."""
        rest = self.rest
        return rest if isinstance(rest, Requeue) and rest.is_held else None

    @property
    def has_wishes(self) -> bool:
        """Whether another part wants a turn for it, now or later, even if nothing happens."""
        return self.wanted_at is not None or bool(self.reasons)

    @property
    def is_deleted(self) -> bool:
        """Whether the object is deleted."""
        return (self.events[-1]["type"] if self.events else self.type) == "DELETED"

    @property
    def is_leaving(self) -> bool:
        """Whether the latest event brings the deletion: its request as news, or its end."""
        if not self.events:
            return False
        event = self.events[-1]
        return event["type"] == "DELETED" or (
            bool(event["object"]["metadata"].get("deletionTimestamp"))
            and self.latest is not None
            and not self.latest["metadata"].get("deletionTimestamp")
        )


Process = Callable[[WorkItem], Awaitable[TurnResult]]
Lookup = Callable[[ObjectKey], RawBody | None]
