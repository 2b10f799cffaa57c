"""A line of waiters, fair between groups: namespaces wait for each other, not for objects.

In a plain line, the last one waits for all the others. So if one namespace has
a thousand objects in the line, an object of another namespace waits for a thousand.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T", bound=Hashable)

OLDEST_SHARE = 4
"""One of so many places goes to the entry that has waited for the longest."""

_Groups: TypeAlias = "OrderedDict[str | None, OrderedDict[T, None]]"


class FairLine(Generic[T]):
    """Groups get places in turns; within a group, entries get them in the order of coming.

    A part of the places goes to the oldest entry of all. So no entry waits for more than
    :data:`OLDEST_SHARE` times as many places as in a plain line, however many groups there are.

    If there is only one group, it is a plain line, and costs no more: the entries are sorted into
    groups when the second group comes. They are sorted only once until the line is empty. So every
    operation takes the same time on average, however many entries and groups there are.
    """

    __slots__ = ("_groups", "_only", "_taken", "entries")

    def __init__(self) -> None:
        self.entries: OrderedDict[T, str | None] = OrderedDict()
        """The waiting entries with their groups, in the order of coming. Callers only read it."""

        self._only: str | None = None  # the group of all entries, while they are not sorted
        self._groups: _Groups[T] | None = None
        self._taken = 0

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def oldest(self) -> T:
        """The entry that has waited for the longest."""
        return next(iter(self.entries))

    def put(self, entry: T, group: str | None) -> None:
        """Let the entry wait, unless it waits already."""
        if self._groups is None and group == self._only:
            self.entries.setdefault(entry, group)
        elif not self.entries:
            self._only, self._groups = group, None
            self.entries[entry] = group
        elif entry not in self.entries:
            if self._groups is None:
                self._groups = OrderedDict({self._only: OrderedDict.fromkeys(self.entries)})
            self._groups.setdefault(group, OrderedDict())[entry] = None
            self.entries[entry] = group

    def take(self) -> T:
        """Remove the entry that gets the next place, and return it."""
        if self._groups is None:
            return self.entries.popitem(last=False)[0]
        self._taken += 1
        if self._taken % OLDEST_SHARE == 0:
            entry, group = self.entries.popitem(last=False)
            del self._groups[group][entry]
        else:
            group, entries = next(iter(self._groups.items()))
            self._groups.move_to_end(group)
            entry, _ = entries.popitem(last=False)
            del self.entries[entry]
        self._forget(group)
        return entry

    def discard(self, entry: T) -> None:
        """Remove the entry if it waits."""
        if entry not in self.entries:
            return
        group = self.entries.pop(entry)
        if self._groups is not None:
            del self._groups[group][entry]
            self._forget(group)

    def _forget(self, group: str | None) -> None:
        """Forget the group if none of its entries waits anymore."""
        if self._groups is not None and not self._groups[group]:
            del self._groups[group]

    def clear(self) -> None:
        """Remove all entries."""
        self.entries.clear()
        self._groups = None
