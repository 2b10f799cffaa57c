"""From JSON to annotated Python types, and back; and all that is wrong at once."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import ipaddress
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Generic, Literal, NewType, TypedDict, TypeVar

import pytest

from kopf_cogs.structs.markers import Name
from kopf_cogs.structs.models import Problems, as_object, find_model, make_merge_patch
from kopf_cogs.structs.quantities import Quantity, parse_duration
from kopf_cogs.structs.shapes import Shapes, write

pydantic = pytest.importorskip("pydantic")
TypeAliasType = pytest.importorskip("typing_extensions").TypeAliasType

Percents = NewType("Percents", int)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Loose(TypedDict, total=False):
    a: int


@dataclasses.dataclass
class Tree:
    name: str
    children: list[Tree] = dataclasses.field(default_factory=list)


class Model(pydantic.BaseModel):  # type: ignore[misc,name-defined]
    number: int = pydantic.Field(ge=1)
    at: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True)
class Holder:
    model: Model
    shown: Annotated[str, Name("displayName")] = ""


T = TypeVar("T")
Trees = TypeAliasType("Trees", dict[str, Tree])


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]
    first: T | None = None


@dataclasses.dataclass
class ColorPage(Page[Color]):
    number: int = 1


@dataclasses.dataclass
class TitledPage(Page[Color], Generic[T]):
    title: T | None = None


@dataclasses.dataclass
class Disk:
    kind: Literal["disk"]
    size: int


@dataclasses.dataclass
class Share:
    kind: Literal["share"]


@dataclasses.dataclass
class Fixed:
    size: Final[Quantity]


UTC = datetime.UTC
NOON = datetime.datetime(2026, 1, 2, 12, tzinfo=UTC)
UID = uuid.UUID("12345678-1234-5678-1234-567812345678")
VALUES = [
    (str, "x", "x"),
    (int, 1, 1),
    (float, 1, 1.0),
    (float, 1.5, 1.5),
    (bool, True, True),
    (Any, {"a": [1]}, {"a": [1]}),
    (object, {"a": [1]}, {"a": [1]}),
    (int | None, None, None),
    (int | str, "x", "x"),
    (Literal["a", 1], 1, 1),
    (Color, "red", Color.RED),
    (Percents, 5, 5),
    (Annotated[int, "x"], 5, 5),
    (list[int], [1, 2], [1, 2]),
    (list, [1, "x"], [1, "x"]),
    (tuple[int, ...], [1, 2], (1, 2)),
    (set[str], ["a"], {"a"}),
    (dict, {"a": 1}, {"a": 1}),
    (dict[str, Color], {"a": "red"}, {"a": Color.RED}),
    (datetime.datetime, "2026-01-02T12:00:00Z", NOON),
    (datetime.date, "2026-01-02", datetime.date(2026, 1, 2)),
    (datetime.timedelta, "1h30m0.5s", datetime.timedelta(hours=1, minutes=30, seconds=0.5)),
    (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
    (decimal.Decimal, 3, decimal.Decimal(3)),
    (uuid.UUID, str(UID), UID),
    (Quantity, "1.5Gi", Quantity("1.5Gi")),
    (bytes, "eA==", b"x"),
    (ipaddress.IPv4Address, "10.0.0.1", ipaddress.IPv4Address("10.0.0.1")),
    (Loose, {"a": "as is"}, {"a": "as is"}),
    (Tree, {"name": "a", "children": [{"name": "b"}], "x": 1}, Tree("a", [Tree("b")])),
    (Model, {"number": 2, "at": "2026-01-02T12:00:00Z"}, Model(number=2, at=NOON)),
    (Holder, {"model": {"number": 1}, "displayName": "x"}, Holder(Model(number=1), "x")),
]
RICH_VALUES = [
    (Page[Color], {"items": ["red"], "first": "blue"}, Page([Color.RED], Color.BLUE)),
    (ColorPage, {"items": ["red"], "first": "blue"}, ColorPage([Color.RED], Color.BLUE)),
    (TitledPage[int], {"items": ["red"], "title": 5}, TitledPage([Color.RED], None, 5)),
    (list[Page[Page[int]]], [{"items": [{"items": [1]}]}], [Page([Page([1])])]),
    (Trees, {"a": {"name": "x"}}, {"a": Tree("x")}),
    (Fixed, {"size": "1.5Gi"}, Fixed(Quantity("1.5Gi"))),
    (Literal[Color.RED], "red", Color.RED),
    (dict[Color, int], {"red": 1}, {Color.RED: 1}),
    (Mapping[str, Tree], {"a": {"name": "x"}}, {"a": Tree("x")}),
    (Disk | Share, {"kind": "share"}, Share("share")),
]


@pytest.mark.parametrize(("annotation", "raw", "expected"), VALUES)
def test_values_are_read(annotation: Any, raw: Any, expected: Any) -> None:
    problems = Problems()
    value = Shapes().find(annotation)(raw, (), problems)
    assert not problems
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(("annotation", "raw", "expected"), RICH_VALUES)
def test_n_values_are_of_the_types_that_are_said(annotation: Any, raw: Any, expected: Any) -> None:
    problems = Problems()
    value = Shapes().find(annotation)(raw, (), problems)
    assert not problems
    assert value == expected
    assert write(value) == write(expected)


def test_n_keys_are_written_as_values() -> None:
    assert write({Color.RED: Color.BLUE}) == {"red": "blue"}


@pytest.mark.parametrize(
    ("annotation", "raw", "text"),
    [
        (Disk | Share, {"kind": "disk", "size": "x"}, "size: must be an integer, not 'x'"),
        (dict[Color, int], {"green": 1}, "green: must be one of 'red', 'blue', not 'green'"),
        (Literal[Color.RED], "blue", "must be one of 'red', not 'blue'"),
    ],
)
def test_n_the_problem_is_where_the_mistake_is(annotation: Any, raw: Any, text: str) -> None:
    problems = Problems()
    Shapes().find(annotation)(raw, (), problems)
    assert "; ".join(map(str, problems)) == text


@pytest.mark.parametrize(
    "annotation",
    [Page[int], Trees, Mapping[str, Tree], Sequence[Model], Annotated[Trees, "x"], set[Page[int]]],
)
def test_n_models_inside_of_other_types_are_found(annotation: Any) -> None:
    assert find_model(annotation) is not None


@dataclasses.dataclass
class Set:
    names: set[str]


class ModelOfSet(pydantic.BaseModel):  # type: ignore[misc,name-defined]
    names: set[str]


@pytest.mark.parametrize("cls", [Set, ModelOfSet])
def test_n_sets_are_written_in_the_same_order_by_all_processes(cls: Any) -> None:
    names = [f"{number:03}" for number in range(100)]
    assert write(cls(names=set(names))) == {"names": names}


class Computed(pydantic.BaseModel):  # type: ignore[misc,name-defined]
    number: int

    @pydantic.computed_field(alias="theDouble")  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return self.number * 2


@dataclasses.dataclass
class HolderOfComputed:
    one: Computed
    more: dict[str, list[Computed]]


def test_n_computed_fields_are_not_written() -> None:
    value = HolderOfComputed(Computed(number=1), {"a": [Computed(number=2)]})
    assert write(value) == {"one": {"number": 1}, "more": {"a": [{"number": 2}]}}


@pytest.mark.parametrize(
    ("annotation", "raw", "text"),
    [
        (str, 1, "must be a string, not 1"),
        (str, None, "must be a string, not null"),
        (int, True, "must be an integer, not True"),
        (int, "1", "must be an integer, not '1'"),
        (bool, "yes", "must be true or false, not 'yes'"),
        (float, "x" * 100, "must be a number, not '" + "x" * 46 + "..."),
        (Literal["a", "b"], "c", "must be one of 'a', 'b', not 'c'"),
        (Color, "green", "must be one of 'red', 'blue', not 'green'"),
        (list[int], {}, "must be a list, not {}"),
        (list[int], [1, "x"], "[1]: must be an integer, not 'x'"),
        (dict[str, int], [], "must be an object, not []"),
        (dict[str, int], {"a": "x"}, "a: must be an integer, not 'x'"),
        (datetime.datetime, "now", "must be a date with a time, not 'now'"),
        (datetime.timedelta, "1x", "must be a duration such as '1h30m', not '1x'"),
        (decimal.Decimal, "x", "must be a number, not 'x'"),
        (Tree, 1, "must be an object, not 1"),
        (Tree, {"children": [{"name": 1}]}, "name: is required; children[0].name: must be a"),
        (Holder, {"model": {"number": 0}}, "model.number: Input should be greater than or"),
    ],
)
def test_n3_wrong_values_are_explained(annotation: Any, raw: Any, text: str) -> None:
    problems = Problems()
    Shapes().find(annotation)(raw, (), problems)
    assert "; ".join(map(str, problems)).startswith(text)


def test_checks_of_classes_are_problems_too() -> None:
    @dataclasses.dataclass
    class Checked:
        number: int

        def __post_init__(self) -> None:
            if self.number > 1:
                raise ValueError("is too big")

    model = find_model(Checked)
    assert model is not None
    assert [*map(str, model.parse({"number": 2}).problems)] == ["is too big"]


FAILURES = [
    (ValueError("is too big"), "is too big"),
    (AssertionError("is too big"), "is too big"),
    (AssertionError(), "AssertionError"),
    (KeyError("low"), "KeyError: 'low'"),
    (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
]


@pytest.mark.parametrize(("error", "text"), FAILURES)
def test_n_checks_that_fail_in_any_way_are_problems(error: Exception, text: str) -> None:
    @dataclasses.dataclass
    class Checked:
        number: int

        def __post_init__(self) -> None:
            raise error

    model = find_model(Checked)
    assert model is not None
    assert [*map(str, model.parse({"number": 2}).problems)] == [text]


def test_n_validators_that_fail_in_any_way_are_problems() -> None:
    class Checked(pydantic.BaseModel):  # type: ignore[misc,name-defined]
        number: int

        @pydantic.model_validator(mode="before")
        @classmethod
        def check(cls, value: Any) -> Any:
            return value["low"]

    model = find_model(Checked)
    assert model is not None
    assert [*map(str, model.parse({"number": 2}).problems)] == ["KeyError: 'low'"]


def test_n_objects_that_are_nested_too_deep_are_invalid() -> None:
    raw: dict[str, Any] = {"name": "x"}
    for _ in range(300):
        raw = {"name": "x", "children": [raw]}
    model = find_model(Tree)
    assert model is not None
    assert [*map(str, model.parse(raw).problems)] == ["is nested too deep"]


def test_strict_models_take_dates_of_json() -> None:
    class Strict(pydantic.BaseModel, strict=True):  # type: ignore[misc,name-defined]
        at: datetime.datetime

    model = find_model(Strict)
    assert model is not None
    assert model.parse({"at": "2026-01-02T12:00:00Z"}).value.at == NOON


@pytest.mark.parametrize("annotation", [int, dict[str, int], Loose, Any, None, "Tree", type(None)])
def test_n1_other_types_are_no_models(annotation: Any) -> None:
    assert find_model(annotation) is None


@pytest.mark.parametrize("annotation", [Tree, Model, Tree | None, list[Tree], dict[str, Model]])
def test_n1_models_are_found(annotation: Any) -> None:
    assert find_model(annotation) is not None


def test_what_is_read_is_apart_from_the_object() -> None:
    @dataclasses.dataclass
    class Anything:
        data: dict[str, Any]

    raw = {"data": {"a": {"b": 1}}}
    model = find_model(Anything)
    assert model is not None
    model.parse(raw).value.data["a"]["b"] = 2
    assert raw == {"data": {"a": {"b": 1}}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NOON, "2026-01-02T12:00:00Z"),
        (datetime.timedelta(seconds=90), "1m30s"),
        (Quantity("1.5Gi"), "1.5Gi"),
        (b"x", "eA=="),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (Color.RED, "red"),
        (decimal.Decimal("1.50"), "1.50"),
        ((1, 2), [1, 2]),
        (Tree("a", [Tree("b")]), {"name": "a", "children": [{"name": "b", "children": []}]}),
        (Holder(Model(number=1, at=NOON), "x"), {
            "model": {"number": 1, "at": "2026-01-02T12:00:00Z"}, "displayName": "x",
        }),
    ],
)  # fmt: skip
def test_values_are_written(value: Any, expected: Any) -> None:
    assert write(value) == expected


@pytest.mark.parametrize("seconds", [0, 1, 0.25, -90, 3600])
def test_durations_come_back(seconds: float) -> None:
    duration = datetime.timedelta(seconds=seconds)
    assert parse_duration(write(duration)) == duration


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({}, {}, {}),
        ({"a": 1, "b": 2}, {"a": 1, "c": 3}, {"b": None, "c": 3}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": [1]}, {"a": [1]}, {}),
        ({"a": {}}, {"a": [1]}, {"a": [1]}),
    ],
)
def test_n4_changes_are_found(old: Any, new: Any, patch: Any) -> None:
    assert make_merge_patch(old, new) == patch


@pytest.mark.parametrize("value", [{}, 1, Tree, Tree("a"), Model(number=1)])
def test_n5_only_models_with_definitions_are_objects(value: Any) -> None:
    assert as_object(value) is None
