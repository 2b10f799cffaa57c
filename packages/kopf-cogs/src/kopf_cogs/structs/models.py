"""Models: users' classes whose instances are made of objects, of their specs and statuses.

They are models of pydantic (which is never imported here), or dataclasses. With a ``TypedDict``,
there is nothing to be made: dictionaries remain what they are.
"""

from __future__ import annotations

import copy
import dataclasses
import types
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Union, get_args, get_origin

from kopf_cogs.structs.dicts import json_copy
from kopf_cogs.structs.hints import open_alias

if TYPE_CHECKING:  # most of the operators do without them
    from kopf_cogs.structs.shapes import Reader

_UNIONS = (Union, types.UnionType)
_STANDARD = frozenset({"apiVersion", "kind", "metadata"})


Where = tuple[str | int, ...]


class Problem(NamedTuple):
    """A problem in an object, with its place."""

    where: Where
    text: str
    found: str = ""
    """The value that is there, as it is shown; empty if it is not shown, e.g. of a secret."""

    def __str__(self) -> str:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.where)
        text = f"{self.text}, not {self.found}" if self.found else self.text
        return f"{path.lstrip('.')}: {text}" if path else text


class Problems(list[Problem]):
    """The problems found until now."""

    def add(self, where: Where, text: str) -> None:
        self.append(Problem(where, text))

    def expect(self, where: Where, what: str, value: Any) -> None:
        shown = "null" if value is None else repr(value)
        found = shown if len(shown) <= 50 else f"{shown[:47]}..."
        self.append(Problem(where, f"must be {what}", found))


def is_pydantic(cls: Any) -> bool:
    """Whether it is a model or a dataclass of pydantic. Nothing is imported for that."""
    return isinstance(cls, type) and hasattr(cls, "__pydantic_validator__")


def is_model(cls: Any) -> bool:
    """Whether instances are made of the class: a dataclass, or a model of pydantic."""
    return is_pydantic(cls) or (isinstance(cls, type) and dataclasses.is_dataclass(cls))


class Parsed(NamedTuple):
    """The result of parsing one value: an instance, or the problems in it."""

    raw: Any
    value: Any
    problems: Collection[Problem]


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """An annotation that asks for instances: a class of a model, possibly optional, or in a list.

    All functions share the instances of frozen classes; instances of other classes are copied.
    """

    annotation: Any
    read: Reader
    is_optional: bool
    is_frozen: bool

    def parse(self, raw: Any) -> Parsed:
        """Make an instance of the value of JSON, which is never modified through that instance."""
        problems = Problems()
        try:
            value = self.read(json_copy(raw), (), problems)
        except RecursionError:
            return Parsed(raw, None, [Problem((), "is nested too deep")])
        return Parsed(raw, value, problems)

    def take(self, parsed: Parsed) -> Any:
        """The instance for one function: a copy, unless the class is frozen."""
        return parsed.value if self.is_frozen else copy.deepcopy(parsed.value)

    def trim(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The object without the standard fields that the class does not have."""
        known = get_field_names(_strip(self.annotation))
        return {key: val for key, val in body.items() if key not in _STANDARD or key in known}


def find_model(annotation: Any) -> Model | None:
    """The model, if the annotation asks for instances of any; ``None`` for all other types."""
    if not _mentions_model(annotation):
        return None
    from kopf_cogs.structs.shapes import Shapes

    inner = _strip(annotation)
    is_optional = type(None) in get_args(_unwrap(annotation))
    return Model(annotation, Shapes().find(annotation), is_optional, _is_frozen(inner))


def get_field_names(cls: Any) -> Collection[str]:
    """The names of the fields of the class as they are in objects."""
    if is_pydantic(cls):
        fields = getattr(cls, "model_fields", None) or cls.__pydantic_fields__
        return {getattr(field, "alias", None) or name for name, field in fields.items()}
    return {field.name for field in dataclasses.fields(cls)} if is_model(cls) else ()


def as_object(value: Any) -> dict[str, Any] | None:
    """The object for the API, if it is an instance of a class with a definition.

    Fields with ``None`` are left out: in the API, nulls are for removal of fields.
    """
    if not is_model(type(value)):
        return None
    from kopf_cogs.structs.definitions import definition_of
    from kopf_cogs.structs.shapes import write

    definition = definition_of(type(value))
    if definition is None:
        return None
    body = without_nulls(write(value))
    metadata = body.get("metadata") or {}
    return {**body, "apiVersion": definition.api_version, "kind": definition.kind} | {
        "metadata": metadata
    }


def without_nulls(value: Any) -> Any:
    """The same JSON, with no nulls in its objects."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def make_merge_patch(old: Any, new: Any) -> dict[str, Any]:
    """Make the patch that turns one JSON object into the other one (RFC 7386)."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        known = old.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            inner = make_merge_patch(known, value)
            if inner:
                patch[key] = inner
        elif key not in old or known != value or type(known) is not type(value):
            patch[key] = value
    return patch


def _unwrap(annotation: Any) -> Any:
    """The type without markers and aliases."""
    while True:
        is_marked = get_origin(annotation) is Annotated
        inner = get_args(annotation)[0] if is_marked else open_alias(annotation)
        if inner is annotation:
            return annotation
        annotation = inner


def _strip(annotation: Any) -> Any:
    """The class itself, with no ``Annotated`` and ``Optional``; or a container of classes."""
    annotation = _unwrap(annotation)
    if get_origin(annotation) in _UNIONS:
        members = [arg for arg in get_args(annotation) if arg is not type(None)]
        return _strip(members[0]) if len(members) == 1 else annotation
    origin = get_origin(annotation)
    return origin if is_model(origin) else annotation


def _mentions_model(annotation: Any, known: tuple[Any, ...] = ()) -> bool:
    inner = _unwrap(annotation)
    origin = get_origin(inner)
    if is_model(origin or inner):
        return True
    if annotation in known or not (origin in _UNIONS or _is_container(origin)):
        return False
    known = (*known, annotation)  # aliases can refer to themselves
    return any(_mentions_model(arg, known) for arg in get_args(inner))


def _is_container(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Iterable)


def _is_frozen(cls: Any) -> bool:
    if not isinstance(cls, type):
        return False
    params = getattr(cls, "__dataclass_params__", None)
    if params is not None:
        return bool(params.frozen)
    return bool(getattr(cls, "model_config", {}).get("frozen"))
