"""Definitions of custom resources: what classes say of the kinds that they are models of."""

import dataclasses
from typing import TypedDict

import pytest

from kopf_cogs.structs.definitions import Column, Definition, Scale, definition_of, resource
from kopf_cogs.structs.markers import Rule


def test_names_are_parsed_and_defaulted() -> None:
    @resource("websites.example.com/v1beta1")
    class Website:
        pass

    assert definition_of(Website) == Definition(
        group="example.com", version="v1beta1", kind="Website", plural="websites",
        singular="website",
    )  # fmt: skip
    assert str(definition_of(Website)) == "websites.example.com/v1beta1"


def test_everything_is_kept() -> None:
    @resource(
        "websites.example.com/v1",
        kind="Site",
        singular="web",
        short=["w"],
        categories=["all"],
        scope="Cluster",
        storage=True,
        served=False,
        deprecated="use v2",
        status=True,
        scale=True,
        columns=[Column("Replicas", ".spec.replicas", "integer")],
        selectable=[".spec.domain"],
        labels={"a": "b"},
        annotations={"c": "d"},
        rules=[Rule("self.metadata.name.size() < 10", message="too long")],
    )
    class Website:
        pass

    definition = definition_of(Website)
    assert definition is not None
    assert definition.name == "websites.example.com"
    assert definition.api_version == "example.com/v1"
    assert (definition.kind, definition.singular, definition.short_names) == ("Site", "web", ("w",))
    assert definition.scale == Scale(".spec.replicas", ".status.replicas", None)
    assert definition.columns[0].type == "integer"
    assert definition.rules[0].message == "too long"
    assert (definition.labels, definition.annotations) == ({"a": "b"}, {"c": "d"})


def test_classes_are_returned_as_they_are() -> None:
    class Plain:
        pass

    class Typed(TypedDict):
        spec: dict[str, str]

    @dataclasses.dataclass(slots=True)
    class Data:
        spec: dict[str, str]

    for cls in (Plain, Typed, Data):
        assert resource("websites.example.com/v1")(cls) is cls
        definition = definition_of(cls)
        assert definition is not None
        assert definition.kind == cls.__name__


def test_definitions_survive_dataclasses_with_slots() -> None:
    @dataclasses.dataclass(slots=True)
    @resource("websites.example.com/v1")
    class Website:
        spec: dict[str, str]

    assert definition_of(Website) is not None


def test_definitions_are_not_inherited() -> None:
    @resource("websites.example.com/v1")
    class Website:
        pass

    class Other(Website):
        pass

    assert definition_of(Other) is None
    assert definition_of(Website()) is None
    assert definition_of("Website") is None
    assert definition_of(dict[str, str]) is None


@pytest.mark.parametrize(
    "name", ["websites", "websites.example.com", "websites/v1", "Websites.x.com/v1", "a.b/c/d", ""]
)
def test_wrong_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"named as 'plural\.group/version'"):
        resource(name)


def test_single_strings_for_lists_are_refused() -> None:
    with pytest.raises(ValueError, match=r"short= must be a list of strings, not .* 'web'"):
        resource("websites.example.com/v1", short="web")(object)
