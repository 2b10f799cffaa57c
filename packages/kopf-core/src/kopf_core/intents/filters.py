"""Filters: which objects a handler is interested in, as declared in its decorator."""

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
"""Decides by all the keyword arguments of the handler."""

ValueFn = Callable[..., bool]
"""Decides by one value, given as a positional argument, besides the keyword arguments."""

MetaFilter = Mapping[str, str | MetaFilterToken | ValueFn]
ValueFilter = Any
"""``None`` (not checked), a marker, a callback, or a literal to be compared with."""


class _Missing(enum.Enum):
    MISSING = enum.auto()


MISSING = _Missing.MISSING
"""Stands for values that are absent, as ``None`` is a value in its own right for filters."""


def value_matches(
    criterion: ValueFilter,
    value: Any,
    kwargs: Callable[[], Mapping[str, Any]],
) -> bool:
    """Whether the value (or :data:`MISSING`) meets the criterion.

    The keyword arguments are asked for only if there is a callback to be called.
    """
    if criterion is PRESENT:
        return value is not MISSING
    if criterion is ABSENT:
        return value is MISSING
    if callable(criterion):
        return bool(criterion(None if value is MISSING else value, **kwargs()))
    return value is not MISSING and bool(value == criterion)


def validate_meta_filter(name: str, criteria: MetaFilter | None) -> None:
    """Raise :class:`ValueError` on what was meant in some way, but it is unclear which one.

    Raises :class:`TypeError` for what is no filter at all.
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
