"""Definitions of kinds: everything besides the types of fields."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import math
import uuid
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

import pydantic
import pytest

import kopf
from kopf import schema
from kopf_kits.definitions.crds import make_definitions
from kopf_kits.definitions.errors import DefinitionError, SchemaError
from kopf_kits.definitions.writing import dump
from kopf_kits.sandbox import Sandbox
from kopf_kits.shipping.writing import Deployment, write_plain


@dataclasses.dataclass
class Spec:
    replicas: Annotated[int, schema.Limits(ge=0)] = 1
    domain: Annotated[str | None, schema.Immutable()] = None


@dataclasses.dataclass
class Base:
    spec: Spec


@dataclasses.dataclass
class Tree:
    children: list[Tree]


T = TypeVar("T")


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]
    first: T | None = None


@dataclasses.dataclass
class Pages(Page[str]):
    number: Final[int] = 1


class Tag(enum.StrEnum):
    DISK = "disk"
    SHARE = "share"


@dataclasses.dataclass
class Disk:
    kind: Literal[Tag.DISK]
    size: int


@dataclasses.dataclass
class Share:
    kind: Literal[Tag.SHARE]


@dataclasses.dataclass
class RichSpec:
    numbers: Page[Page[int]]
    pages: Pages
    volumes: list[Disk | Share]


def declare(name: str, base: type = Base, **options: Any) -> type:
    return kopf.resource(name, **{"kind": "Website", **options})(type("Website", (base,), {}))


def make_one(*models: type) -> dict[str, Any]:
    (definition,) = make_definitions(models)
    return definition


def test_everything_of_a_version() -> None:
    model = declare(
        "websites.example.com/v1",
        deprecated="use others",
        status=True,
        scale=schema.Scale(selector=".status.selector"),
        columns=[schema.Column("Replicas", ".spec.replicas", "integer", priority=1)],
        selectable=[".spec.domain"],
        labels={"a": "b"},
        annotations={"c": "d"},
        rules=[schema.Rule("self.spec.replicas < 5", message="too many")],
    )
    definition = make_one(model)
    (version,) = definition["spec"]["versions"]
    root = version.pop("schema")["openAPIV3Schema"]
    assert definition["metadata"] == {
        "name": "websites.example.com",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
    }
    assert version == {
        "name": "v1",
        "served": True,
        "storage": True,
        "deprecated": True,
        "deprecationWarning": "use others",
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1}
        ],
        "selectableFields": [{"jsonPath": ".spec.domain"}],
    }
    assert root["x-kubernetes-validations"] == [
        {"rule": "self.spec.replicas < 5", "message": "too many"}
    ]
    assert root["required"] == ["spec"]


def test_immutable_fields_can_be_neither_changed_nor_removed() -> None:
    definition = make_one(declare("websites.example.com/v1"))
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec = root["properties"]["spec"]
    assert spec["properties"]["domain"]["x-kubernetes-validations"] == [
        {"rule": "self == oldSelf", "message": "Value is immutable"}
    ]
    assert spec["x-kubernetes-validations"] == [
        {"rule": "!has(oldSelf.domain) || has(self.domain)", "message": "Value is immutable"}
    ]


def test_versions_of_a_kind_are_joined_by_their_priority() -> None:
    definition = make_one(
        declare("websites.example.com/v1alpha1", served=False),
        declare("websites.example.com/v1", storage=True),
        declare("websites.example.com/v1beta1"),
    )
    versions = [(v["name"], v["served"], v["storage"]) for v in definition["spec"]["versions"]]
    assert versions == [("v1", True, True), ("v1beta1", True, False), ("v1alpha1", False, False)]


@pytest.mark.parametrize(
    ("storage", "text"), [((None, None), "it is none"), ((True, True), "it is v1 and v2")]
)
def test_exactly_one_version_is_stored(storage: tuple[bool, bool], text: str) -> None:
    models = [
        declare(f"websites.example.com/v{number}", storage=flag)
        for number, flag in enumerate(storage, 1)
    ]
    with pytest.raises(DefinitionError, match=f"exactly one of its versions .*, but {text}"):
        make_definitions(models)


def test_the_only_version_must_be_stored() -> None:
    with pytest.raises(DefinitionError, match=r"\(v1\) must be with storage=True, but it is none"):
        make_definitions([declare("websites.example.com/v1", storage=False)])


def test_names_must_be_the_same_in_all_versions() -> None:
    models = [
        declare("websites.example.com/v1", storage=True),
        declare("websites.example.com/v2", kind="Site"),
    ]
    with pytest.raises(DefinitionError, match=r"must be the same .* 'Website' in v1 and 'Site"):
        make_definitions(models)


def test_two_models_of_one_version_are_refused() -> None:
    models = [declare("websites.example.com/v1"), declare("websites.example.com/v1")]
    with pytest.raises(DefinitionError, match=r"websites.example.com/v1: there are two models"):
        make_definitions(models)


def test_n_parameters_of_classes_and_members_of_enumerations_are_known() -> None:
    @dataclasses.dataclass
    class Rich:
        spec: RichSpec

    definition = make_one(declare("sites.example.com/v1", Rich))
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields = root["properties"]["spec"]["properties"]
    numbers = {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"type": "integer"}},
            "first": {"type": "integer", "nullable": True},
        },
        "required": ["items"],
    }
    assert fields["numbers"]["properties"]["items"] == {"type": "array", "items": numbers}
    assert fields["pages"]["properties"] == {
        "items": {"type": "array", "items": {"type": "string"}},
        "first": {"type": "string", "nullable": True},
        "number": {"type": "integer", "default": 1},
    }
    assert fields["volumes"]["items"]["oneOf"] == [
        {"properties": {"kind": {"enum": ["disk"]}}, "required": ["kind", "size"]},
        {"properties": {"kind": {"enum": ["share"]}}, "required": ["kind"]},
    ]


@dataclasses.dataclass(frozen=True)
class First:
    version: Literal[1]
    number: int = 1
    made: int = dataclasses.field(init=False, default=2)


@dataclasses.dataclass(frozen=True)
class Second:
    version: Literal[2]


@dataclasses.dataclass
class TaggedSpec:
    one: First | Second
    default: First = dataclasses.field(default_factory=lambda: First(1))
    unique: set[Second] = dataclasses.field(default_factory=set)


def get_spec(spec: Any) -> dict[str, Any]:
    base = dataclasses.make_dataclass("Base", [("spec", spec)])
    definition = make_one(declare("sites.example.com/v1", base))
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields: dict[str, Any] = root["properties"]["spec"]["properties"]
    return fields


def test_n_tags_of_unions_have_the_type_of_their_values() -> None:
    tag = get_spec(TaggedSpec)["one"]["properties"]["version"]
    assert tag == {"type": "integer", "enum": [1, 2]}


def test_n_fields_that_classes_make_by_themselves_are_not_in_definitions() -> None:
    default = get_spec(TaggedSpec)["default"]
    assert [*default["properties"]] == ["version", "number"]
    assert default["default"] == {"version": 1, "number": 1}


def test_n_items_of_sets_are_compared_as_a_whole() -> None:
    unique = get_spec(TaggedSpec)["unique"]
    assert unique["x-kubernetes-list-type"] == "set"
    assert unique["items"]["x-kubernetes-map-type"] == "atomic"


@dataclasses.dataclass
class Growing(Generic[T]):
    items: list[Growing[list[T]]]


def test_n_types_that_contain_themselves_by_parameters_are_refused() -> None:
    with pytest.raises(SchemaError, match="a type in it contains itself"):
        get_spec(Growing[int])


def test_n_limits_that_are_no_json_are_refused() -> None:
    spec = dataclasses.make_dataclass("S", [("a", Annotated[float, schema.Limits(le=math.inf)])])
    with pytest.raises(SchemaError, match=r"spec\.a: the limit le=inf is no number of JSON"):
        get_spec(spec)


def test_n_fields_that_are_written_by_another_name_are_refused() -> None:
    class Aliased(pydantic.BaseModel):
        number: int = pydantic.Field(validation_alias="theNumber")

    text = "number: it is read as 'theNumber', but written as 'number'"
    with pytest.raises(SchemaError, match=text):
        get_spec(Aliased)


def test_recursive_types_are_refused() -> None:
    @dataclasses.dataclass
    class Forest:
        spec: Tree

    with pytest.raises(SchemaError, match=r"Website\.spec\.children\[\]: Tree contains itself"):
        make_definitions([declare("websites.example.com/v1", Forest)])


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (complex, "complex cannot be written as a schema"),
        (str | list[str], "str | list.* cannot be written as a schema: the API knows only unions"),
        (Spec | Base, "there is no field that tells Spec | Base from each other"),
        (tuple[int, str], "items of a tuple must be of one type"),
        (dict[int, str], "keys of mappings are strings"),
        (Annotated[str, schema.ListType("set")], "is for lists only"),
        (Annotated[bool, schema.Limits(min_length=1)], "for what has no length"),
    ],
)
def test_types_with_no_schemas_are_refused(type_: Any, text: str) -> None:
    spec = dataclasses.make_dataclass("Spec", [("value", type_)])
    base = dataclasses.make_dataclass("Base", [("spec", spec)])
    with pytest.raises(SchemaError, match=rf"^Website\.spec\.value: .*{text}"):
        make_definitions([declare("websites.example.com/v1", base)])


async def test_definitions_are_accepted_and_served_by_the_sandbox() -> None:
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Website",
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {},
    }
    async with Sandbox() as sandbox:
        await sandbox.apply([make_one(declare("websites.example.com/v1"))])
        created = await sandbox.create(body)
    assert created["spec"] == {"replicas": 1}


@dataclasses.dataclass
class Point:
    x: int
    y: int
    n: str = "1e3"
    off: str = "off"


def test_n_names_and_texts_are_the_same_for_other_readers_of_yaml() -> None:
    """kubectl reads YAML 1.1, in which ``y`` is true, and floats need neither dots nor signs."""
    definition = make_one(kopf.resource("points.example.com/v1")(Point))
    written = dump([definition])
    deployed = write_plain(Deployment("x", "default", {}, [definition]))
    for text in (written, deployed):
        lines = [line.strip() for line in text.splitlines()]
        assert {"x:", "'y':", "'n':", "'off':"} <= {*lines}
        assert {"default: '1e3'", "default: 'off'"} <= {*lines}
        assert "- 'y'" in lines
        assert "version: 1e3" not in lines


def make_identity() -> str:
    return str(uuid.uuid4())


@dataclasses.dataclass
class Labelled:
    id: str = dataclasses.field(default_factory=make_identity)


@dataclasses.dataclass
class Dated:
    since: datetime.datetime = dataclasses.field(default_factory=datetime.datetime.now)


@dataclasses.dataclass
class Nested:
    labelled: Labelled = dataclasses.field(default_factory=Labelled)


@pytest.mark.parametrize(
    ("model", "field"), [(Labelled, "id"), (Dated, "since"), (Nested, "labelled")]
)
def test_n_defaults_that_differ_each_time_are_refused(model: type, field: str) -> None:
    """Otherwise, all objects would get the same unique id, or the moment of the definition."""
    model = declare("websites.example.com/v1", model)
    with pytest.raises(SchemaError, match=rf"^Website\.{field}: its default differs each time"):
        make_definitions([model])


def test_n_constants_replace_the_defaults_that_differ_each_time() -> None:
    @dataclasses.dataclass
    class Renamed:
        id: Annotated[str, schema.Default("none")] = dataclasses.field(
            default_factory=make_identity
        )

    definition = make_one(declare("websites.example.com/v1", Renamed))
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert root["properties"]["id"]["default"] == "none"


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_n_defaults_that_are_no_json_are_refused(value: float) -> None:
    @dataclasses.dataclass
    class Limited:
        limit: float = value

    with pytest.raises(SchemaError, match=r"^Website\.limit: the default (inf|nan) is no JSON"):
        make_definitions([declare("websites.example.com/v1", Limited)])


def test_n_classes_that_are_no_models_are_refused() -> None:
    class Plain:
        spec: dict[str, Any]

    with pytest.raises(SchemaError, match=r"^Website is neither a dataclass, nor"):
        make_definitions([declare("websites.example.com/v1", Plain)])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("websites.example.com/1", {}),
        ("websites.example.com/v1.0", {}),
        ("websites.example.com/v1", {"kind": "Größe"}),
        ("websites.example.com/v1", {"kind": "_Website"}),
        ("websites.example.com/v1", {"singular": "größe"}),
    ],
)
def test_n_names_that_the_api_refuses_are_refused_at_once(
    name: str, options: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match=r"^(A resource is named|The (kind|singular name) must)"):
        declare(name, **options)
