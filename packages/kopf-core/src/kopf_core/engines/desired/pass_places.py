"""Places: how many objects of one reconciler have their passes at the same time."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from kopf_cogs.structs.keys import ObjectKey

CROWD_LIMIT = 32
"""How many passes go on if the reconciler has no limit: at least the usual number of threads.

More passes would only wait for each other, each with a connection and much memory.
"""

PATIENCE = 1.0
"""How long (in seconds) a free place is kept for the next object in the line."""


class Places:
    """The places of one reconciler, and the line of objects for them.

    Waiting objects occupy nothing, least of all workers: a free place brings their turns. An object
    that does not come, e.g. as it is gone, holds up the others only for :data:`PATIENCE`.
    """

    __slots__ = ("_called", "_left", "_line", "_tell", "_timer")

    def __init__(self, limit: int, tell: Callable[[ObjectKey], Any]) -> None:
        self._left = limit
        self._line: OrderedDict[ObjectKey, None] = OrderedDict()
        self._called: set[ObjectKey] = set()
        self._tell = tell
        self._timer: asyncio.TimerHandle | None = None

    def take(self, key: ObjectKey) -> bool:
        """Take a place for the object; if there is none, put the object in the line."""
        if self.wait(key):
            return False
        self._left -= 1
        return True

    def wait(self, key: ObjectKey) -> bool:
        """Put the object in the line if there is no place; return whether it has to wait."""
        if self._left > 0:
            self._called.discard(key)
            self._line.pop(key, None)
            return False
        self._line[key] = None
        if key in self._called:  # another object was faster
            self._called.discard(key)
            self._line.move_to_end(key, last=False)
        return True

    def free(self) -> None:
        """Give a place back."""
        self._left += 1
        self._call_next()

    def leave(self, key: ObjectKey) -> None:
        """Leave the line, e.g. as the object is gone."""
        self._line.pop(key, None)
        if key in self._called:
            self._called.discard(key)
            self._call_next()

    @property
    def aside(self) -> contextlib.AbstractContextManager[Any]:
        """The context in which the function waits for anything: it keeps its place."""
        return contextlib.nullcontext()

    def _call_next(self) -> None:
        while self._left > len(self._called) and self._line:
            key, _ = self._line.popitem(last=False)
            self._called.add(key)
            if self._tell(key) is False:  # no queue knows the object anymore
                self._called.discard(key)
        if self._called and self._line and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._call_others)

    def _call_others(self) -> None:
        self._timer = None
        self._called.clear()
        self._call_next()


class Crowd(Places):
    """The places of a reconciler without a limit. A function that waits for its own work occupies
    no place. So any number of functions can wait.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        self._left += 1
        if self._line:
            asyncio.get_running_loop().call_soon(self._call_next)  # if it really waits

    def __exit__(self, *_: object) -> None:
        self._left -= 1

    @property
    def aside(self) -> contextlib.AbstractContextManager[Any]:
        return self


def make_places(limit: int | None, workers: int | None, tell: Callable[[ObjectKey], Any]) -> Places:
    """Make the places of one reconciler: with its limit, or without it, for that many threads."""
    return Places(limit, tell) if limit else Crowd(max(CROWD_LIMIT, 2 * (workers or 0)), tell)
