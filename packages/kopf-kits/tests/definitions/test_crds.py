"""Definitions of kinds: everything besides the types of fields."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import pytest

import kopf
from kopf import schema
from kopf_kits.definitions.crds import make_definitions
from kopf_kits.definitions.errors import DefinitionError, SchemaError
from kopf_kits.sandbox import Sandbox


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
