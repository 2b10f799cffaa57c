"""A line of those who wait, fair between groups: namespaces wait for each other, not for objects.

In a plain line, those who come last wait for all who came before. So if one namespace has
a thousand objects in the line, an object of another namespace waits for a thousand.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

OLDEST_SHARE = 4
"""One of so many places goes to the entry that has waited for the longest."""


class FairLine(Generic[T]):
    """Groups get places in turns; within a group, entries get them in the order of coming.

    A part of the places goes to the oldest entry of all. So no entry waits for more than
    :data:`OLDEST_SHARE` times as many places as in a plain line, however many groups there are.
    If there is only one group, it is a plain line.

    Every operation takes the same time, however many entries and groups there are.
    """

    __slots__ = ("_entries", "_groups", "_taken")

    def __init__(self) -> None:
        self._entries: OrderedDict[T, str | None] = OrderedDict()  # with their groups
        self._groups: OrderedDict[str | None, OrderedDict[T, None]] = OrderedDict()
        self._taken = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def oldest(self) -> T:
        """The entry that has waited for the longest."""
        return next(iter(self._entries))

    def put(self, entry: T, group: str | None) -> None:
        """Let the entry wait, unless it waits already."""
        if entry not in self._entries:
            self._entries[entry] = group
            self._groups.setdefault(group, OrderedDict())[entry] = None

    def take(self) -> T:
        """Remove the entry that gets the next place, and return it."""
        self._taken += 1
        if len(self._groups) == 1 or self._taken % OLDEST_SHARE == 0:
            entry, group = self._entries.popitem(last=False)
            entries = self._groups[group]
            del entries[entry]
        else:
            group, entries = next(iter(self._groups.items()))
            self._groups.move_to_end(group)
            entry, _ = entries.popitem(last=False)
            del self._entries[entry]
        if not entries:
            del self._groups[group]
        return entry

    def discard(self, entry: T) -> None:
        """Remove the entry if it waits."""
        if entry not in self._entries:
            return
        group = self._entries.pop(entry)
        entries = self._groups[group]
        del entries[entry]
        if not entries:
            del self._groups[group]

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._groups.clear()
