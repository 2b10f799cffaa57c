"""Filters: the objects that a handler is interested in, as its decorator declares."""

import enum
from collections.abc import Callable, Collection, Mapping
from typing import Any


class MetaFilterToken(enum.Enum):
    """Markers for the mere presence of a label, annotation, or field."""

    PRESENT = enum.auto()
    ABSENT = enum.auto()


PRESENT = MetaFilterToken.PRESENT
"""The label, annotation, or field must be there, with any value."""

ABSENT = MetaFilterToken.ABSENT
"""The label, annotation, or field must not be there."""

WhenFn = Callable[..., bool]
"""A function that decides by all keyword arguments of the handler."""

ValueFn = Callable[..., bool]
"""A function that decides by one value, a positional argument, and by the keyword arguments."""

MetaFilter = Mapping[str, str | MetaFilterToken | ValueFn]
ValueFilter = Any
"""``None`` (not checked), a marker, a callback, or a literal to compare with."""


class _Missing(enum.Enum):
    MISSING = enum.auto()


MISSING = _Missing.MISSING
"""The placeholder of absent values: ``None`` is a value of its own for filters."""


def value_matches(
    criterion: ValueFilter,
    value: Any,
    kwargs: Callable[[], Mapping[str, Any]],
) -> bool:
    """Whether the value (or :data:`MISSING`) meets the criterion.

    The keyword arguments are made only if a callback needs them.
    """
    if criterion is PRESENT:
        return value is not MISSING
    if criterion is ABSENT:
        return value is MISSING
    if callable(criterion):
        return bool(criterion(None if value is MISSING else value, **kwargs()))
    return value is not MISSING and bool(value == criterion)


def validate_meta_filter(name: str, criteria: MetaFilter | None) -> None:
    """Raise :class:`ValueError` if the meaning of the filter is unclear.

    Raises :class:`TypeError` for values that are not filters.
    """
    if criteria is not None and not isinstance(criteria, Mapping):
        raise TypeError(f"{name}= must be a dictionary, not {criteria!r}.")
    for key, value in (criteria or {}).items():
        if value is None:
            raise ValueError(
                f"{name}={{{key!r}: None}} is ambiguous; use kopf.PRESENT or kopf.ABSENT instead."
            )


def not_(fn: WhenFn) -> WhenFn:
    """A callback that is true when the given one is false."""

    def not_fn(*args: Any, **kwargs: Any) -> bool:
        return not fn(*args, **kwargs)

    return not_fn


def all_(fns: Collection[WhenFn]) -> WhenFn:
    """A callback that is true when all the given ones are true."""

    def all_fn(*args: Any, **kwargs: Any) -> bool:
        return all(fn(*args, **kwargs) for fn in fns)

    return all_fn


def any_(fns: Collection[WhenFn]) -> WhenFn:
    """A callback that is true when at least one of the given ones is true."""

    def any_fn(*args: Any, **kwargs: Any) -> bool:
        return any(fn(*args, **kwargs) for fn in fns)

    return any_fn


def none_(fns: Collection[WhenFn]) -> WhenFn:
    """A callback that is true when none of the given ones is true."""

    def none_fn(*args: Any, **kwargs: Any) -> bool:
        return not any(fn(*args, **kwargs) for fn in fns)

    return none_fn
