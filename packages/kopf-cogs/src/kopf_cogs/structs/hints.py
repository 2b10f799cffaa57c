"""The types of the fields of classes: with aliases opened, and with parameters put in."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar, get_args, get_origin

_ROOTS: Final = (object, typing.Generic, typing.Protocol)
QUALIFIERS: Final = ("Final", "Required", "NotRequired", "ReadOnly")
"""Types with these names tell how a field is used; its values are of the type inside."""


def open_alias(annotation: Any) -> Any:
    """The type that the annotation names or qualifies; otherwise, the annotation itself."""
    origin = get_origin(annotation)
    if isinstance(annotation, typing.NewType):
        return annotation.__supertype__
    if is_alias(annotation):
        return annotation.__value__
    if is_alias(origin):
        return put(origin.__value__, _pair(origin.__type_params__, annotation))
    if str(getattr(origin, "__name__", None) or getattr(origin, "_name", "")) in QUALIFIERS:
        return get_args(annotation)[0]
    return annotation


def is_alias(annotation: Any) -> bool:
    """Whether the statement ``type`` has made it; older versions of Python do not have it."""
    return type(annotation).__name__ == "TypeAliasType"


def list_hints(annotation: Any) -> dict[str, Any]:
    """The types of the fields of a class. For ``Page[int]``, they are with ``int``, not ``T``."""
    cls = get_origin(annotation) or annotation
    given = _pair(getattr(cls, "__parameters__", ()), annotation)
    raw = typing.get_type_hints(cls, include_extras=True)
    found = {name: put(hint, given) for name, hint in raw.items()}
    for base in reversed(_list_bases(cls)):
        inherited = typing.get_type_hints(get_origin(base) or base, include_extras=True)
        bound = list_hints(put(base, given))
        found |= {name: bound[name] for name in inherited if inherited[name] == raw.get(name)}
    return found


def put(annotation: Any, variables: Mapping[Any, Any]) -> Any:
    """The type with the values of its variables."""
    if isinstance(annotation, TypeVar):
        return variables.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    if not parameters or not variables or isinstance(annotation, type):
        return annotation
    return annotation[tuple(variables.get(one, one) for one in parameters)]


def _pair(parameters: Iterable[Any], annotation: Any) -> dict[Any, Any]:
    return dict(zip(parameters, get_args(annotation), strict=False))


def _list_bases(cls: Any) -> list[Any]:
    """The classes that the fields are inherited from, with their parameters: ``Page[int]``."""
    bases: Iterable[Any] = vars(cls).get("__orig_bases__") or cls.__bases__
    own = [(base, get_origin(base) or base) for base in bases]
    return [base for base, cls in own if isinstance(cls, type) and cls not in _ROOTS]
