"""Work items: the objects that have something to be done for, and what comes of a turn on them.

A turn is one pass of a worker over one object. What it results in says what comes next,
and only the work queue waits.
"""

import asyncio
import enum
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from kopf_cogs.structs.bodies import RawBody, RawEvent, RawEventType
from kopf_cogs.structs.keys import ObjectKey
from kopf_core.engines.records.writes import AwaitChange

LAST_MOMENT = 1.0
"""For how long (in seconds) an interrupted turn can send what was done in it before that."""


class Done:
    """Nothing to come back for, until something happens to the object."""

    __slots__ = ()


class Requeue(NamedTuple):
    """To be processed again at that time, even if nothing happens to the object."""

    at: float
    """The monotonic time of the operator's clock."""

    is_held: bool = False
    """Whether to wait for that time even if something happens to it before; but a deletion."""


TurnResult: TypeAlias = Done | Requeue | AwaitChange

DONE = Done()


class Position(enum.Enum):
    """Where an object is in the queue."""

    QUEUED = enum.auto()
    """There is work for it, and it waits for its turn."""

    WORKING = enum.auto()
    """Its turn is now. What comes meanwhile is for the next one."""

    DELAYED = enum.auto()
    """It waits for its time, or for a change."""

    HELD = enum.auto()
    """It waits for its time, whatever changes."""

    DROPPED = enum.auto()
    """It is not in the queue anymore."""


class WorkItem:
    """One object in the work queue, from the first thing to be done for it to the last one."""

    __slots__ = (
        "events",
        "generation",
        "interruptions",
        "is_backlog",
        "is_contradicted",
        "is_listed",
        "is_sending",
        "key",
        "last_moment",
        "latest",
        "observed",
        "position",
        "reasons",
        "rest",
        "task",
        "timer",
        "type",
        "wanted_at",
    )

    def __init__(self, key: ObjectKey, *, is_listed: bool = False) -> None:
        self.key = key
        self.position = Position.DELAYED
        self.events: deque[RawEvent] = deque()
        """What has come from the stream since the last turn, in order; or the newest of that."""

        self.latest: RawBody | None = None
        """The newest known state of the object: streamed or returned from our own patch."""

        self.type: RawEventType = None
        """How that state has come."""

        self.is_listed = is_listed
        """Whether the object existed before it was watched."""

        self.is_backlog = is_listed
        """Whether it waits for its first turn, and nothing but the initial list is behind that."""

        self.is_contradicted = False
        """The stream has brought a state older than the known one, and no newer one since then."""

        self.is_sending = False
        """Its changes are on their way to the API right now."""

        self.interruptions = 0
        """In how many turns in a row something has happened to the object in the middle of them."""

        self.generation = 0
        """How many things have happened to the object, or were asked for."""

        self.observed = 0
        """The generation that was taken into account by the latest turn."""

        self.reasons: frozenset[str] = frozenset()
        """Why it was put into the queue, except for its own changes."""

        self.rest: TurnResult = DONE
        """What the latest turn has resulted in: how the object waits for the next one."""

        self.wanted_at: float | None = None
        """When somebody wants it to be processed, even if nothing happens."""

        self.last_moment: float | None = None
        """Until when an interrupted turn can send its changes, by the operator's clock."""

        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def take(self, event: RawEvent, *, keep: bool) -> None:
        """Remember the event: beside those before it if they are kept, or instead of them."""
        if not keep:
            self.events.clear()
        self.events.append(event)
        self.generation += 1

    def take_reasons(self) -> frozenset[str]:
        """Why it is processed, except for its own changes; they are not kept here then."""
        reasons, self.reasons = self.reasons, frozenset()
        return reasons

    def interrupt(self, now: float) -> None:
        """Cancel the turn; not yet if its changes are on their way: if cut, they are sent again."""
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
        """The newest known state of the object, whether it is noticed already or not."""
        return self.events[-1]["object"] if self.events else self.latest

    @property
    def namespace(self) -> str | None:
        """Where the object is, if it is known; the text is shared by all objects from there."""
        newest = self.newest
        name = None if newest is None else newest["metadata"].get("namespace")
        return None if name is None else sys.intern(name)

    @property
    def is_restless(self) -> bool:
        """Whether it comes again and again. Once is not enough: our own patch can come so, too."""
        return self.interruptions > 1

    @property
    def held(self) -> Requeue | None:
        """Until when nothing but events is to be handled, if so."""
        rest = self.rest
        return rest if isinstance(rest, Requeue) and rest.is_held else None

    @property
    def has_wishes(self) -> bool:
        """Whether somebody wants it to be processed, now or later, even if nothing happens."""
        return self.wanted_at is not None or bool(self.reasons)

    @property
    def is_deleted(self) -> bool:
        """Whether the object does not exist anymore."""
        return (self.events[-1]["type"] if self.events else self.type) == "DELETED"

    @property
    def is_leaving(self) -> bool:
        """Whether it is news that the object is deleted, or is going to be."""
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
