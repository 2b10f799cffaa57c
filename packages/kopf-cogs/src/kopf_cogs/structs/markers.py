"""Markers of schemas: restrictions that Python types lack, in ``Annotated[type, marker, ...]``.

They are plain data: nothing is checked by them in Python, they only go to the schemas
of custom resource definitions, for the API server to check. Only :class:`Limits` in
models of pydantic restrict the values in Python, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Literal

Reason = Literal[
    "FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"
]


class Marker:
    """The base class of markers, which are in ``Annotated[...]`` after the type, for its schema."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Rule(Marker):
    """A rule in CEL for the value (``self``), checked by the API (``x-kubernetes-validations``).

    ``rule`` is the expression, e.g. ``self.min <= self.max``. When it is false, the object is
    refused with the ``message``, or with what the ``message_expression`` gives, for the field
    at ``field_path`` (relative to the value, e.g. ``.min``). If ``oldSelf`` is in the rule,
    it is checked for changes only, unless it is ``optional_old_self``.
    """

    rule: str
    _: dataclasses.KW_ONLY
    message: str | None = None
    message_expression: str | None = None
    reason: Reason | None = None
    field_path: str | None = None
    optional_old_self: bool | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Immutable(Marker):
    """The value cannot be changed after it is set; with a message of its own, if given."""

    message: str = "Value is immutable"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Marker):
    """Limits of values, for those models that have no others, e.g. for dataclasses."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None

    @property
    def __is_annotated_types_grouped_metadata__(self) -> Literal[True]:
        """Pydantic checks the limits, too: it recognises them by this, and goes through them."""
        return True

    def __iter__(self) -> Iterator[Any]:
        import pydantic

        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        yield pydantic.Field(**{name: val for name, val in given.items() if val is not None})


@dataclasses.dataclass(frozen=True, slots=True)
class Name(Marker):
    """The name of the field in the objects, if not the same as in Python."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Description(Marker):
    """The text for ``kubectl explain``; by default, it is taken from docstrings."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Title(Marker):
    """The title of the field, for the tools which show it."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Example(Marker):
    """An example of a value, for documentation only."""

    value: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Default(Marker):
    """The value that the API sets if there is none; it makes the field optional."""

    value: Any


@dataclasses.dataclass(frozen=True, slots=True)
class DefaultFrom(Marker):
    """A default that the API makes of the object, by an expression in CEL.

    E.g. ``DefaultFrom("object.metadata.name + '.example.com'")``. The API evaluates it when the
    field is absent, but its parent is there, before it validates the object. So the
    field can be required. The Kubernetes concept behind it is ``MutatingAdmissionPolicy``.
    """

    expression: str


@dataclasses.dataclass(frozen=True, slots=True)
class Nullable(Marker):
    """The value can be ``null``; with ``False``, it cannot be, even if Python's type allows it."""

    allowed: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Format(Marker):
    """The format of the value, such as ``date-time``, ``ipv4``, ``int32``."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Type(Marker):
    """The type in the schema, such as ``string``, for any type in Python."""

    name: str


class Enumerated(Marker):
    """The only allowed values, for types that are not ``Literal`` and not ``Enum``."""

    __slots__ = ("values",)

    def __init__(self, *values: Any) -> None:
        super().__init__()
        self.values = values


@dataclasses.dataclass(frozen=True, slots=True)
class ListType(Marker):
    """The way that server-side apply merges lists: as a whole, by values, or by keys of items."""

    type: Literal["atomic", "set", "map"]


class MapKeys(Marker):
    """The fields that identify the items of a list: the list is of the type ``map``."""

    __slots__ = ("names",)

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names


@dataclasses.dataclass(frozen=True, slots=True)
class MapType(Marker):
    """The way that server-side apply merges mappings and structures: by keys, or as a whole."""

    type: Literal["granular", "atomic"]


@dataclasses.dataclass(frozen=True, slots=True)
class IntOrString(Marker):
    """The value is an integer or a string, for any type in Python."""


@dataclasses.dataclass(frozen=True, slots=True)
class PreserveUnknown(Marker):
    """The fields that are not in the schema are kept, instead of being removed by the API."""


@dataclasses.dataclass(frozen=True, slots=True)
class Schemaless(Marker):
    """Nothing is said of the value, so anything is accepted and kept."""


@dataclasses.dataclass(frozen=True, slots=True)
class EmbeddedObject(Marker):
    """The value is a whole Kubernetes object with ``apiVersion``, ``kind``, ``metadata``."""


class _Fields(Marker):
    __slots__ = ("names",)

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names


class ExactlyOneOf(_Fields):
    """Exactly one of these fields must be set, as they are named in the objects."""

    __slots__ = ()


class AtMostOneOf(_Fields):
    """None or one of these fields can be set, as they are named in the objects."""

    __slots__ = ()


class AtLeastOneOf(_Fields):
    """One or more of these fields must be set, as they are named in the objects."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Schema(Marker):
    """Keywords of OpenAPI to be added to the schema as they are, e.g. ``anyOf``."""

    keywords: Mapping[str, Any]
