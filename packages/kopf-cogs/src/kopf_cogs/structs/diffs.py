"""Differences between two states of an object, field by field."""

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, overload

from kopf_cogs.structs.dicts import FieldPath, is_mapping, resolve


class DiffScope(enum.Flag):
    """The side whose fields matter: only the left, only the right, or both."""

    LEFT = enum.auto()
    RIGHT = enum.auto()
    FULL = LEFT | RIGHT


class DiffOperation(enum.StrEnum):
    """The operation on a field: it was added, changed, or removed."""

    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"

    def __repr__(self) -> str:
        return repr(self.value)


class DiffItem(NamedTuple):
    """A change of one field. It is a tuple and can be unpacked as such; it equals lists, too."""

    operation: DiffOperation
    field: FieldPath
    old: Any
    new: Any

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return tuple.__ne__(self, tuple(other) if isinstance(other, list) else other)

    def __hash__(self) -> int:
        return tuple.__hash__(self)

    @property
    def op(self) -> DiffOperation:
        """An alias for ``operation``."""
        return self.operation


class Diff(Sequence[DiffItem]):
    """An immutable sequence of changes."""

    __slots__ = ("_items",)

    _items: tuple[DiffItem, ...]

    def __init__(self, items: Iterable[DiffItem], /) -> None:
        super().__init__()
        self._items = tuple(
            item if isinstance(item, DiffItem) else DiffItem(DiffOperation(item[0]), *item[1:])
            for item in items
        )

    def __repr__(self) -> str:
        return repr(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[DiffItem]:
        return iter(self._items)

    @overload
    def __getitem__(self, i: int) -> DiffItem: ...

    @overload
    def __getitem__(self, i: slice) -> "Diff": ...

    def __getitem__(self, i: int | slice) -> "DiffItem | Diff":
        return Diff(self._items[i]) if isinstance(i, slice) else self._items[i]

    def __hash__(self) -> int:
        return hash(self._items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Diff):
            return self._items == other._items
        if isinstance(other, (tuple, list)):
            return self._items == tuple(other)
        return NotImplemented


EMPTY: Final = Diff(())


def diff(a: Any, b: Any, *, scope: DiffScope = DiffScope.FULL) -> Diff:
    """Compare two states, going into dictionaries but not into lists.

    An absent field and a field with ``None`` are the same. Added and removed dictionaries
    are reported as a whole. In each dictionary, first go the additions, then the removals, then
    the changes, including the changes in nested dictionaries.

    In the scopes other than the full one, the fields that are only in the other side are skipped:
    e.g., ``LEFT`` tells whether all of ``a`` is in ``b``.
    """
    return Diff(_iter_diff(a, b, (), scope)) if a != b else EMPTY


def reduce(d: Diff, path: FieldPath) -> Diff:
    """Take only the changes in the specified field, with paths relative to that field."""
    return Diff(_iter_reduced(d, path)) if path else d


def _iter_diff(a: Any, b: Any, path: FieldPath, scope: DiffScope) -> Iterator[DiffItem]:
    # The values differ. All comparing is in C: it is much faster than iterating over them.
    if a is None:
        if DiffScope.RIGHT in scope:
            yield DiffItem(DiffOperation.ADD, path, a, b)
    elif b is None:
        if DiffScope.LEFT in scope:
            yield DiffItem(DiffOperation.REMOVE, path, a, b)
    elif is_mapping(a) and is_mapping(b):
        for key, val in b.items():
            if key not in a and val is not None:
                yield from _iter_diff(None, val, (*path, key), scope)
        for key, val in a.items():
            if key not in b and val is not None:
                yield from _iter_diff(val, None, (*path, key), scope)
        for key, val in a.items():
            if key in b and val != b[key]:
                yield from _iter_diff(val, b[key], (*path, key), scope)
    else:
        yield DiffItem(DiffOperation.CHANGE, path, a, b)


def _iter_reduced(d: Diff, path: FieldPath) -> Iterator[DiffItem]:
    for item in d:
        size = len(item.field)
        if item.field[: len(path)] == path:
            yield DiffItem(item.operation, item.field[len(path) :], item.old, item.new)
        elif path[:size] == item.field:
            # The parent is changed as a whole: e.g., the whole spec is added.
            old = resolve(item.old, path[size:], None)
            new = resolve(item.new, path[size:], None)
            yield from diff(old, new)
