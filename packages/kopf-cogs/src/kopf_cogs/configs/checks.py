"""Checks of settings: at each assignment, by the declared types and ranges."""

import collections.abc
import functools
import math
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints


class SettingError(TypeError, ValueError):
    """A setting is given a value that makes no sense; the message names them both.

    It is final for the handlers: the next attempt would set the same value.
    """

    expected = True


class UnknownSettingError(AttributeError):
    """There is no such section of the settings; the message suggests the nearest name."""

    expected = True


class AtLeast(NamedTuple):
    """The least value that makes sense for a number."""

    value: float


Seconds = Annotated[float, AtLeast(0)]
"""A time, or a delay."""

WholeSeconds = Annotated[int, AtLeast(1)]
"""A time that is told to other operators, which expect an integer."""

Rate = Annotated[float, AtLeast(0.001)]
"""How many things there can be in a second."""

Check = collections.abc.Callable[[Any], bool]
"""Whether a value makes sense."""

Delays = Seconds | Iterable[Seconds]
"""One delay for one more attempt, or as many attempts as there are delays."""

Limit = Annotated[int, AtLeast(1)]
"""How many things there can be at once."""

Count = Annotated[int, AtLeast(0)]
"""How many things there can be; zero means something, too."""


class SettingsGroup:
    """The base of the groups of settings. Reading them costs nothing.

    The methods that all groups share are here. To make them for each of the dataclasses would take
    time at every start of an operator.
    """

    def __repr__(self) -> str:
        values = ", ".join(f"{key}={value!r}" for key, value in self._as_dict().items())
        return f"{type(self).__qualname__}({values})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SettingsGroup) or type(other) is not type(self):
            return NotImplemented
        return self._as_dict() == other._as_dict()

    def _as_dict(self) -> dict[str, Any]:
        group: Any = self
        return {field.name: getattr(self, field.name) for field in fields(group) if field.repr}

    def __setattr__(self, key: str, value: Any) -> None:
        group: Any = type(self)  # classes can be hashed, but type checkers deny that
        checks = _get_checks(group).get(key, (_is_anything,))
        if not any(check(value) for check in checks):
            expected = _describe(_get_types(group)[key])
            raise SettingError(
                f"{name_setting(type(self), key)} must be {expected}, not {value!r}."
            )
        super().__setattr__(key, value)


def name_setting(group: type[Any], key: str) -> str:
    """The setting as users write it: ``settings.posting.level``."""
    return f"settings.{group.__name__.removesuffix('Settings').lower()}.{key}"


@functools.cache
def _get_types(group: Any) -> Mapping[str, tuple[Any, ...]]:
    """The alternatives of types for each of the public settings."""
    hints = get_type_hints(group, include_extras=True)
    return {key: (*_split(tp),) for key, tp in hints.items() if not key.startswith("_")}


def _split(tp: Any) -> Iterator[Any]:
    if get_origin(tp) in (Union, types.UnionType):
        for arg in get_args(tp):
            yield from _split(arg)
    else:
        yield tp


@functools.cache
def _get_checks(group: Any) -> Mapping[str, tuple[Check, ...]]:
    """The checks of the alternatives: made once, as each start of an operator needs them all."""
    return {key: (*map(_make_check, types),) for key, types in _get_types(group).items()}


def _make_check(tp: Any) -> Check:
    if get_origin(tp) is Annotated:
        base, *limits = get_args(tp)
        return functools.partial(_is_within, _make_check(base), limits)
    if get_origin(tp) is collections.abc.Iterable:
        [item] = get_args(tp)
        return functools.partial(_are_items, _make_check(item))
    if get_origin(tp) is collections.abc.Callable:
        return callable
    return _SIMPLE.get(tp, _is_anything)


def _is_within(check: Check, limits: Iterable[AtLeast], value: Any) -> bool:
    return check(value) and all(value >= limit.value for limit in limits)


def _are_items(check: Check, value: Any) -> bool:
    is_known = isinstance(value, list | tuple)  # other kinds can be iterated only once
    is_iterable = isinstance(value, Iterable) and not isinstance(value, str | bytes)
    return is_iterable and (not is_known or all(map(check, value)))


def _is_anything(_: Any) -> bool:
    return True


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and not math.isnan(value)


_SIMPLE: Mapping[Any, Check] = {
    bool: lambda value: isinstance(value, int) and value in (0, 1),
    float: _is_number,
    int: lambda value: _is_number(value) and value == value // 1,
    str: lambda value: isinstance(value, str),
    type(None): lambda value: value is None,
}
_TITLES: Mapping[Any, str] = {
    bool: "True or False",
    float: "a number",
    int: "an integer",
    str: "a string",
    type(None): "None",
}


def _describe(expected: Iterable[Any]) -> str:
    return " or ".join(_describe_one(tp) for tp in expected)


def _describe_one(tp: Any) -> str:
    if get_origin(tp) is Annotated:
        base, *limits = get_args(tp)
        return f"{_describe_one(base)} of at least {limits[0].value}"
    if get_origin(tp) is collections.abc.Iterable:
        return "several such numbers"
    if get_origin(tp) is collections.abc.Callable:
        return "a function"
    return _TITLES.get(tp, getattr(tp, "__name__", str(tp)))
