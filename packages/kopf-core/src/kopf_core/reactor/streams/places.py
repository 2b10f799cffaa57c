"""Places of workers: which object gets the next one, and whether any object gets one."""

import asyncio
import enum
from collections.abc import Callable, Iterator

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.helpers.lines import FairLine
from kopf_cogs.structs.keys import ObjectKey
from kopf_core.reactor.streams.work import Position, WorkItem

LISTED_SHARE = 4
"""One of so many places goes to the initial list, however many changes wait."""

RESTLESS_PATIENCE = 2.0
"""How long (in seconds) objects that come again and again let other objects go first."""

BURST = 1000
"""How many turns begin at once if the number of workers has no limit.

A thousand turns take a third of a second, so other namespaces wait no longer than that. Turns that
begin together also go through the same code together: with 100 turns, each costs 10 % more CPU.
"""

PORTION = 100
"""How many more turns begin then in each round of the event loop."""

HEADROOM = 250
"""The number of listed objects that can wait for their first turn before more are listed."""

PATIENCE = 10.0
"""How long (in seconds) to wait for the headroom while no listed object gets a place."""

WORKING_PATIENCE = 0.1
"""How long (in seconds) to wait if all listed objects have places: handlers can take hours."""


class Gate(enum.Enum):
    """The rule of a queue for its objects."""

    SHUT = enum.auto()
    """Events are taken; no turns begin."""

    OPEN = enum.auto()
    """Events are taken, and turns begin."""

    PAUSED = enum.auto()
    """Only the newest states are kept, for later turns."""

    CLOSED = enum.auto()
    """Events are not taken, and nothing is kept."""


Waiters = tuple[tuple[Callable[[WorkItem], None], WorkItem], ...]


class Occupancy:
    """The objects that have turns now, in all queues: several streams can bring one object."""

    def __init__(self) -> None:
        self._occupied: dict[ObjectKey, Waiters] = {}

    def enter(self, item: WorkItem, on_released: Callable[[WorkItem], None]) -> bool:
        """Occupy the object. If it is occupied by another queue, call back when it is free."""
        key = item.key
        if key not in self._occupied:
            self._occupied[key] = ()
            return True
        self._occupied[key] = (*self._occupied[key], (on_released, item))
        return False

    def leave(self, key: ObjectKey) -> None:
        for on_released, item in self._occupied.pop(key, ()):
            on_released(item)


class Line:
    """The objects that wait for a place: changes go before the initial list, and namespaces get
    places in turns.

    Objects that change during their own turns, several times in a row, let all others go first.
    Otherwise, an object that always changes, and takes long, would make others wait again and
    again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed: FairLine[WorkItem] = FairLine()
        self._listed: FairLine[WorkItem] = FairLine()
        self._restless: FairLine[WorkItem] = FairLine()
        self._patience: dict[WorkItem, float] = {}  # until when each lets others go first
        self._taken = 0

    def __len__(self) -> int:
        return len(self._changed.entries) + len(self._listed.entries) + len(self._restless.entries)

    @property
    def has_listed(self) -> bool:
        return bool(self._listed)

    def put(self, item: WorkItem) -> None:
        if item.is_backlog:
            self._listed.put(item, item.namespace)
        elif item.is_restless and not item.is_leaving:
            self._restless.put(item, item.namespace)
            self._patience[item] = self._clock.monotonic() + RESTLESS_PATIENCE
        else:
            self._listed.discard(item)  # it has changed since
            self._changed.put(item, item.namespace)

    def take(self) -> Iterator[WorkItem]:
        """Remove the objects one by one; skip the objects that wait no more."""
        while (source := self._choose()).entries:
            item = source.take()
            if self._patience:
                self._patience.pop(item, None)
            if item.position is Position.QUEUED:
                yield item

    def _choose(self) -> FairLine[WorkItem]:
        """The part of the line that gets the next place; it is empty if all parts are."""
        self._taken += 1
        if self._patience and self._taken % 2 and self._is_patience_over():
            return self._restless
        is_changed_due = self._changed.entries and self._taken % LISTED_SHARE
        if self._listed.entries and not is_changed_due:
            return self._listed
        return self._changed if self._changed.entries else self._restless

    def _is_patience_over(self) -> bool:
        return self._patience[self._restless.oldest] <= self._clock.monotonic()

    def clear(self) -> None:
        self._changed.clear()
        self._listed.clear()
        self._restless.clear()
        self._patience.clear()


class Backlog:
    """The number of listed objects that have not had their first turn yet."""

    def __init__(self) -> None:
        self._count = 0
        self._progress = asyncio.Event()

    @property
    def is_large(self) -> bool:
        return self._count > HEADROOM

    def enter(self, item: WorkItem) -> None:
        item.is_backlog = True
        self._count += 1

    def leave(self, item: WorkItem) -> None:
        item.is_backlog = False
        if self._count > HEADROOM:  # otherwise, no task waits for progress
            self._progress.set()
        self._count -= 1

    def wake(self) -> None:
        """Let the waiters check again whether they must wait."""
        self._progress.set()

    async def wait(self, timeout: float) -> bool:
        """Wait until there is any progress; return whether there was any in so many seconds."""
        self._progress.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._progress.wait()
        except TimeoutError:
            return False
        return True
