"""Types of fields for tests of definitions: what schemas they have, and what values are tried.

The same table is used with no server, with the sandbox, and with the real API server.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import ipaddress
import uuid
from typing import Annotated, Any, Generic, Literal, NewType, TypeVar

import pydantic
from hypothesis import strategies as st
from pydantic import Field
from pydantic_core import to_json
from typing_extensions import TypedDict

from kopf import schema

Schema = dict[str, Any]
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Case:
    """A type of a field, its schema, and a strategy of values for it: good ones and bad ones."""

    id: str
    type: Any
    schema: Schema
    values: st.SearchStrategy[Any]

    @functools.cached_property
    def model(self) -> type[pydantic.BaseModel]:
        """A model of objects with the type in ``spec.value``, which is required."""
        spec = pydantic.create_model("Spec", value=(self.type, ...))
        return pydantic.create_model("Probe", spec=(spec, ...))

    def accepts(self, value: Any) -> bool:
        """Whether the model accepts the value in JSON."""
        try:
            self.model.model_validate_json(to_json({"spec": {"value": value}}), strict=True)
        except pydantic.ValidationError:
            return False
        return True


class Colour(enum.StrEnum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(pydantic.BaseModel):
    """A place."""

    x: int
    y: int = 0


class Open(pydantic.BaseModel, extra="allow"):
    x: int = 0


class Aliased(pydantic.BaseModel):
    max_replicas: int = Field(alias="maxReplicas")


class Git(pydantic.BaseModel):
    type: Literal["git"]
    url: str = Field(min_length=2)


class Archive(pydantic.BaseModel):
    type: Literal["archive"]
    path: str = "/"


class StrictGit(pydantic.BaseModel, extra="forbid"):
    type: Literal["git"]
    url: str


class StrictArchive(pydantic.BaseModel, extra="forbid"):
    type: Literal["archive"]
    path: str


class Mixed(enum.Enum):
    ONE = 1
    WORD = "word"
    NOTHING = None


class First(pydantic.BaseModel):
    version: Literal[1]
    x: int


class Second(pydantic.BaseModel):
    version: Literal[2]


class Key(pydantic.BaseModel, frozen=True):
    x: int


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]
    first: T | None = None


@dataclasses.dataclass
class Pair:
    a: Annotated[int, schema.Limits(ge=0)]
    b: str = "x"


class Options(TypedDict, total=False):
    verbose: bool
    level: Annotated[int, schema.Limits(le=3)]


Percent = NewType("Percent", int)
Names = pydantic.RootModel[list[str]]

TEXTS = st.text("ab1.-", max_size=4)
NUMBERS = st.integers(-3, 13)
FRACTIONS = st.integers(-30, 130).map(lambda n: n + 0.5)
SCALARS = st.none() | st.booleans() | NUMBERS | FRACTIONS | TEXTS
LISTS = st.lists(SCALARS, max_size=4)
JSON = SCALARS | LISTS | st.dictionaries(TEXTS, SCALARS, max_size=3)
OBJECTS = st.dictionaries(TEXTS, SCALARS, max_size=3)
OTHERS = st.none() | st.booleans() | OBJECTS  # pydantic takes more texts and numbers than the API
ANY = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2), max_leaves=4)


def some(*values: Any) -> st.SearchStrategy[Any]:
    """These values, and whatever else."""
    return st.sampled_from(values) | JSON


def formatted(*values: Any) -> st.SearchStrategy[Any]:
    """The same with no lists: the API server does not check the types if there are formats."""
    return st.sampled_from(values) | SCALARS | OBJECTS


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects of these fields, any of which can be absent; and whatever else."""
    return st.fixed_dictionaries({}, optional=fields) | JSON


def is_not_boolean(value: Any) -> bool:
    """For pydantic, ``true`` is also 1 when it is one of a few values: it is so in Python."""
    return not isinstance(value, bool)


INT_OR_STRING = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
POINT = {
    "type": "object",
    "description": "A place.",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
}
PAGE = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"type": "integer"}},
        "first": {"type": "integer", "nullable": True},
    },
    "required": ["items"],
}
POINTS = objects(x=SCALARS, y=SCALARS)
SOURCES = objects(type=st.sampled_from(["git", "archive", "svn", 1]), url=TEXTS, path=TEXTS)
TIMES = (
    "2020-01-02T03:04:05Z",
    "2020-01-02T03:04:05.678+01:00",
    "yesterday",
    "2020-13-01T00:00:00Z",
)


def number(**keywords: Any) -> Schema:
    return {"type": "integer", **keywords}


def text(**keywords: Any) -> Schema:
    return {"type": "string", **keywords}


def array(**keywords: Any) -> Schema:
    return {"type": "array", "items": {"type": "string"}, **keywords}


NULLABLE_WORD = text(nullable=True, **{"x-kubernetes-validations": [{"rule": 'self in ["a"]'}]})

SCALAR_CASES = [
    Case("str", str, text(), JSON),
    Case("int", int, number(), JSON),
    Case("float", float, {"type": "number"}, JSON),
    Case("bool", bool, {"type": "boolean"}, JSON),
    Case(
        "any",
        Any,
        {"x-kubernetes-preserve-unknown-fields": True},
        JSON.filter(lambda v: v is not None),
    ),
    Case("ge-le", Annotated[int, Field(ge=0, le=10)], number(minimum=0, maximum=10), JSON),
    Case(
        "gt-lt",
        Annotated[int, Field(gt=0, lt=10)],
        number(minimum=0, exclusiveMinimum=True, maximum=10, exclusiveMaximum=True),
        JSON,
    ),
    Case("multiple-of", Annotated[int, Field(multiple_of=3)], number(multipleOf=3), JSON),
    Case(
        "own-limits",
        Annotated[int, schema.Limits(ge=1, lt=5)],
        number(minimum=1, maximum=5, exclusiveMaximum=True),
        JSON,
    ),
    Case(
        "bounded-float",
        Annotated[float, Field(ge=0.5, lt=5.5)],
        {
            "type": "number",
            "minimum": 0.5,
            "maximum": 5.5,
            "x-kubernetes-validations": [{"rule": "self >= 0.5"}, {"rule": "self < 5.5"}],
        },
        JSON,
    ),
    Case(
        "length",
        Annotated[str, Field(min_length=1, max_length=3)],
        text(minLength=1, maxLength=3),
        JSON,
    ),
    Case("pattern", Annotated[str, Field(pattern="^[a-b]+$")], text(pattern="^[a-b]+$"), JSON),
    Case(
        "constr",
        Annotated[str, pydantic.StringConstraints(max_length=2, pattern="1")],
        text(maxLength=2, pattern="1"),
        JSON,
    ),
    Case("literal", Literal["a", "b"], text(enum=["a", "b"]), JSON),
    Case("literal-numbers", Literal[1, 2], number(enum=[1, 2]), JSON.filter(is_not_boolean)),
    Case("enum", Colour, text(enum=["red", "green"]), some("red", "green", "blue")),
    Case("int-enum", Level, number(enum=[1, 2]), JSON.filter(is_not_boolean)),
    Case("optional", int | None, number(nullable=True), JSON),
    Case("optional-literal", Literal["a"] | None, NULLABLE_WORD, JSON),
    Case(
        "limited-optional",
        Annotated[int | None, Field(ge=1)],
        number(minimum=1, nullable=True),
        JSON,
    ),
    Case("int-or-str", int | str, INT_OR_STRING, JSON),
    Case("int-or-number", int | float, {"type": "number"}, JSON),
    Case("new-type", Percent, number(), JSON),
    Case("datetime", datetime.datetime, text(format="date-time"), st.sampled_from(TIMES) | OTHERS),
    Case(
        "date",
        datetime.date,
        text(format="date"),
        st.sampled_from(["2020-01-02", "2020-02-30", "x"]) | OTHERS,
    ),
    Case(
        "duration",
        schema.Duration,
        text(format="duration", pattern=r"^-?(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$"),
        formatted("1h", "1h30m", "0", "1.5s", "-2m", "1 day", "1x", "PT1H"),
    ),
    Case(
        "quantity",
        schema.Quantity,
        {
            **INT_OR_STRING,
            "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)"
            r"([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$",
        },
        some("1", "1.5Gi", "500m", "1e3", "-1", "1Zi", "1 Gi"),
    ),
    Case(
        "decimal",
        decimal.Decimal,
        {**INT_OR_STRING, "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)$"},
        st.sampled_from(["1.50", "-1", "x", "", "1.2.3", 5, True, None, [], {}]),
    ),
    Case(
        "uuid",
        uuid.UUID,
        text(format="uuid"),
        formatted("123e4567-e89b-12d3-a456-426614174000", "123e4567"),
    ),
    Case(
        "ipv4", ipaddress.IPv4Address, text(format="ipv4"), formatted("1.2.3.4", "1.2.3.400", "::1")
    ),
    Case("ipv6", ipaddress.IPv6Address, text(format="ipv6"), formatted("1.2.3.4", "::1", "::g")),
    Case(
        "base64",
        pydantic.Base64Bytes,
        text(format="byte"),
        st.sampled_from(["YWJj", "YQ==", "Y"]) | OTHERS,
    ),
]

COMPOUND_CASES = [
    Case("list", list[str], array(), JSON | st.lists(TEXTS, max_size=3)),
    Case(
        "limited-list",
        Annotated[list[str], Field(min_length=1, max_length=2)],
        array(minItems=1, maxItems=2),
        JSON | st.lists(TEXTS, max_size=3),
    ),
    Case(
        "limited-items",
        list[Annotated[str, Field(max_length=2)]],
        {"type": "array", "items": text(maxLength=2)},
        st.lists(TEXTS, max_size=3),
    ),
    Case(
        "nullable-items", list[int | None], {"type": "array", "items": number(nullable=True)}, LISTS
    ),
    Case(
        "nullable-words",
        Annotated[list[Literal["a"] | None], Field(max_length=9)],
        {"type": "array", "items": NULLABLE_WORD, "maxItems": 9},
        st.lists(st.sampled_from(["a", "b", None, 1]), max_size=3),
    ),
    Case(
        "mixed-enum",
        Mixed,
        {
            **INT_OR_STRING,
            "nullable": True,
            "x-kubernetes-validations": [{"rule": 'self in [dyn(1), dyn("word")]'}],
        },
        some(1, "word", None, 2).filter(is_not_boolean),
    ),
    Case(
        "set",
        set[str],
        array(**{"x-kubernetes-list-type": "set"}),
        st.lists(TEXTS, unique=True, max_size=3) | SCALARS,
    ),
    Case(
        "tuple",
        tuple[int, int],
        {"type": "array", "items": number(), "minItems": 2, "maxItems": 2},
        st.lists(NUMBERS, max_size=3) | JSON,
    ),
    Case("tuple-of-any-length", tuple[str, ...], array(), st.lists(TEXTS, max_size=3) | JSON),
    Case(
        "lists-of-lists",
        list[list[int]],
        {"type": "array", "items": {"type": "array", "items": number()}},
        ANY,
    ),
    Case(
        "dict",
        dict[str, int],
        {"type": "object", "additionalProperties": number()},
        st.dictionaries(TEXTS, NUMBERS, max_size=3) | JSON,
    ),
    Case(
        "limited-dict",
        Annotated[dict[str, int], Field(min_length=1)],
        {"type": "object", "additionalProperties": number(), "minProperties": 1},
        st.dictionaries(TEXTS, NUMBERS, max_size=3) | JSON,
    ),
    Case(
        "keyed-dict",
        dict[Literal["a", "b"], int],
        {
            "type": "object",
            "additionalProperties": number(),
            "x-kubernetes-validations": [{"rule": 'self.all(key, key in ["a", "b"])'}],
        },
        st.dictionaries(st.sampled_from("abc"), NUMBERS, max_size=3),
    ),
    Case(
        "free-dict",
        dict[str, Any],
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        JSON,
    ),
    Case("structure", Point, POINT, POINTS),
    Case("optional-structure", Point | None, {**POINT, "nullable": True}, POINTS),
    Case(
        "list-of-structures",
        list[Point],
        {"type": "array", "items": POINT},
        st.lists(POINTS, max_size=2),
    ),
    Case(
        "dict-of-structures",
        dict[str, Point],
        {"type": "object", "additionalProperties": POINT},
        st.dictionaries(TEXTS, POINTS, max_size=2),
    ),
    Case(
        "open-structure",
        Open,
        {
            "type": "object",
            "properties": {"x": number(default=0)},
            "x-kubernetes-preserve-unknown-fields": True,
        },
        objects(x=SCALARS, z=SCALARS),
    ),
    Case(
        "aliases",
        Aliased,
        {"type": "object", "properties": {"maxReplicas": number()}, "required": ["maxReplicas"]},
        objects(maxReplicas=SCALARS, max_replicas=SCALARS),
    ),
    Case(
        "dataclass",
        Pair,
        {
            "type": "object",
            "properties": {"a": number(minimum=0), "b": text(default="x")},
            "required": ["a"],
        },
        objects(a=SCALARS, b=SCALARS),
    ),
    Case(
        "typed-dict",
        Options,
        {
            "type": "object",
            "properties": {"verbose": {"type": "boolean"}, "level": number(maximum=3)},
        },
        objects(verbose=SCALARS, level=SCALARS),
    ),
    Case("root-model", Names, array(), st.lists(TEXTS, max_size=2) | JSON),
    Case(
        "union",
        Annotated[Git | Archive, Field(discriminator="type")],
        {
            "type": "object",
            "properties": {
                "type": text(enum=["git", "archive"]),
                "url": text(),
                "path": text(),
            },
            "required": ["type"],
            "oneOf": [
                {
                    "properties": {"type": {"enum": ["git"]}, "url": {"minLength": 2}},
                    "required": ["type", "url"],
                },
                {"properties": {"type": {"enum": ["archive"]}}, "required": ["type"]},
            ],
        },
        SOURCES,
    ),
    Case(
        "union-by-numbers",
        First | Second,
        {
            "type": "object",
            "properties": {"version": number(enum=[1, 2]), "x": number()},
            "required": ["version"],
            "oneOf": [
                {"properties": {"version": {"enum": [1]}}, "required": ["version", "x"]},
                {"properties": {"version": {"enum": [2]}}, "required": ["version"]},
            ],
        },
        objects(version=st.sampled_from([1, 2, 3, "1"]), x=NUMBERS),
    ),
    Case(
        "set-of-structures",
        set[Key],
        {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {
                "type": "object",
                "properties": {"x": number()},
                "required": ["x"],
                "x-kubernetes-map-type": "atomic",
            },
        },
        st.lists(st.builds(lambda x: {"x": x}, NUMBERS), unique_by=str, max_size=3) | SCALARS,
    ),
    Case(
        "generic",
        Page[Page[int]],
        {
            "type": "object",
            "properties": {
                "items": {"type": "array", "items": PAGE},
                "first": {**PAGE, "nullable": True},
            },
            "required": ["items"],
        },
        objects(items=st.lists(objects(items=LISTS), max_size=2), first=objects(items=LISTS)),
    ),
    Case(
        "strict-union",
        StrictGit | StrictArchive,
        {
            "type": "object",
            "properties": {
                "type": text(enum=["git", "archive"]),
                "url": text(),
                "path": text(),
            },
            "required": ["type"],
            "oneOf": [
                {
                    "properties": {"type": {"enum": ["git"]}},
                    "required": ["type", "url"],
                    "not": {"anyOf": [{"required": ["path"]}]},
                },
                {
                    "properties": {"type": {"enum": ["archive"]}},
                    "required": ["type", "path"],
                    "not": {"anyOf": [{"required": ["url"]}]},
                },
            ],
        },
        SOURCES,
    ),
]

CASES = [*SCALAR_CASES, *COMPOUND_CASES]
