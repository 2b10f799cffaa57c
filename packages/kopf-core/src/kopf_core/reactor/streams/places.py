"""Places of workers: who gets the next one, and whether anybody gets them at all."""

import asyncio
import enum
from collections import deque
from collections.abc import Callable

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.structs.keys import ObjectKey
from kopf_core.reactor.streams.work import Position, WorkItem

LISTED_SHARE = 4
"""One of so many places goes to what was listed initially, however many changes there are."""

RESTLESS_PATIENCE = 2.0
"""How long (in seconds) those who come again and again let the others go first."""

HEADROOM = 250
"""How many listed objects can wait for their first turn before more of them are listed."""

PATIENCE = 10.0
"""How long (in seconds) to wait for the headroom while nobody of those waiting gets a place."""

WORKING_PATIENCE = 0.1
"""The same, if all the listed objects are in work: they can be so for hours."""


class Gate(enum.Enum):
    """What the queue does with its objects."""

    SHUT = enum.auto()
    """Everything is taken, nothing is processed yet."""

    OPEN = enum.auto()
    """Everything is taken and processed."""

    PAUSED = enum.auto()
    """Only the newest states are kept, to be processed later."""

    CLOSED = enum.auto()
    """Nothing is taken and kept anymore."""


Waiters = tuple[tuple[Callable[[WorkItem], None], WorkItem], ...]


class Occupancy:
    """Which objects are worked on now, in all queues: an object can be seen by several streams."""

    def __init__(self) -> None:
        self._occupied: dict[ObjectKey, Waiters] = {}

    def enter(self, item: WorkItem, on_released: Callable[[WorkItem], None]) -> bool:
        """Occupy the object; or be called when it is not occupied by others anymore."""
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
    """Those who wait for a place: in the order of coming; changes go before the initial list.

    Those who were changed during their own turns in a row let all others go first. Otherwise,
    an object that is changed all the time, and takes long, makes them wait for it again and again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed: deque[WorkItem] = deque()
        self._listed: deque[WorkItem] = deque()
        self._restless: deque[WorkItem] = deque()
        self._patience: deque[float] = deque()  # until when each of the restless waits for others
        self._taken = 0

    def __bool__(self) -> bool:
        return bool(self._changed or self._listed or self._restless)

    @property
    def has_listed(self) -> bool:
        return bool(self._listed)

    def put(self, item: WorkItem) -> None:
        if item.is_backlog:
            self._listed.append(item)
        elif item.is_restless and not item.is_leaving:
            self._restless.append(item)
            self._patience.append(self._clock.monotonic() + RESTLESS_PATIENCE)
        else:
            self._changed.append(item)

    def take(self) -> WorkItem | None:
        """The next one; ``None`` if it does not wait anymore, or waits elsewhere in the line."""
        self._taken += 1
        source = self._choose()
        item = source.popleft()
        if source is self._restless:
            self._patience.popleft()
        is_here = item.is_backlog == (source is self._listed)
        return item if is_here and item.position is Position.QUEUED else None

    def _choose(self) -> deque[WorkItem]:
        if self._restless and self._taken % 2 and self._patience[0] <= self._clock.monotonic():
            return self._restless
        if self._listed and (not self._changed or self._taken % LISTED_SHARE == 0):
            return self._listed
        return self._changed or self._restless

    def clear(self) -> None:
        self._changed.clear()
        self._listed.clear()
        self._restless.clear()
        self._patience.clear()


class Backlog:
    """Those of the listed objects that have not had their first turn yet."""

    def __init__(self) -> None:
        self._count = 0
        self._progress = asyncio.Event()

    @property
    def is_large(self) -> bool:
        return self._count > HEADROOM

    def enter(self, item: WorkItem) -> None:
        self._count += item.is_backlog

    def leave(self, item: WorkItem) -> None:
        item.is_backlog = False
        if self.is_large:  # otherwise, nobody waits for it
            self._progress.set()
        self._count -= 1

    def wake(self) -> None:
        """Let those who wait look again whether there is anything to wait for."""
        self._progress.set()

    async def wait(self, timeout: float) -> bool:
        """Wait until there is any progress; get whether there was any in so many seconds."""
        self._progress.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._progress.wait()
        except TimeoutError:
            return False
        return True
