"""Definitions of custom resources: what must be discovered, as compared to what is."""

import dataclasses
from typing import Any

import pytest

from kopf_cogs.structs.resources import Resource
from kopf_core.reactor.shape.definitions import Definitions, get_versions

THING_V1 = Resource("example.com", "v1", "things")
THING_V2 = Resource("example.com", "v2", "things")
OTHER = Resource("example.com", "v1", "others")


def make_definition(
    name: str = "things.example.com",
    established: str | None = "True",
    **versions: bool,
) -> Any:
    return {
        "metadata": {"name": name},
        "spec": {"versions": [{"name": n, "served": s} for n, s in versions.items()]},
        "status": {
            "conditions": [
                {"type": "NamesAccepted", "status": "True"},
                *([{"type": "Established", "status": established}] if established else []),
            ]
        },
    }


@pytest.fixture
def notified() -> list[str]:
    return []


@pytest.fixture
def definitions(notified: list[str]) -> Definitions:
    return Definitions(notify=lambda: notified.append("notified"), look=lambda _: None)


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        (make_definition(v1=True, v2=True), {"v1", "v2"}),
        (make_definition(v1=True, v2=False), {"v1"}),
        (make_definition(v1=True, established="False"), set()),
        (make_definition(v1=True, established=None), set()),
        ({"metadata": {"name": "things.example.com"}}, set()),
    ],
)
def test_c20_versions_are_served_when_accepted(definition: Any, expected: set[str]) -> None:
    assert {served.version for served in get_versions(definition)} == expected


def test_c20_changes_are_notified_of_only_after_the_listing(
    definitions: Definitions, notified: list[str]
) -> None:
    definitions.on_event({"type": None, "object": make_definition(v1=True)})
    assert not notified
    definitions.on_listed()
    assert len(notified) == 1
    definitions.on_event({"type": "MODIFIED", "object": make_definition(v1=True)})
    definitions.on_event({"type": "DELETED", "object": make_definition(v1=True)})
    assert len(notified) == 3


def test_c20_definitions_made_anew_outlive_the_news_of_the_former_ones(
    definitions: Definitions,
) -> None:
    """A list tells of what there is first, and only then of what is not there anymore."""
    former, fresh = make_definition(v1=True), make_definition(v1=True)
    former["metadata"]["uid"], fresh["metadata"]["uid"] = "1", "2"
    for type, definition in [("ADDED", former), (None, fresh), ("DELETED", former)]:
        definitions.on_event({"type": type, "object": definition})  # type: ignore[typeddict-item]
    assert definitions.agree_with([THING_V1], None)
    definitions.on_event({"type": "DELETED", "object": fresh})
    assert definitions.agree_with([], None)


def test_c20_discovery_can_be_late_for_new_versions(definitions: Definitions) -> None:
    definitions.on_event({"type": "ADDED", "object": make_definition(v1=True, v2=True)})
    assert not definitions.agree_with([OTHER], None)
    assert not definitions.agree_with([OTHER, THING_V1], None)
    assert definitions.agree_with([OTHER, THING_V1, THING_V2], None)


def test_c20_discovery_can_be_late_for_old_versions(definitions: Definitions) -> None:
    definitions.on_event({"type": "MODIFIED", "object": make_definition(v1=True, v2=False)})
    assert not definitions.agree_with([THING_V1, THING_V2], None)
    assert definitions.agree_with([THING_V1], None)


def test_c20_discovery_can_be_late_for_deleted_definitions(definitions: Definitions) -> None:
    definitions.on_event({"type": "ADDED", "object": make_definition(v1=True)})
    definitions.on_event({"type": "DELETED", "object": make_definition(v1=True)})
    assert not definitions.agree_with([THING_V1], None)
    assert definitions.agree_with([], None)
    assert definitions.agree_with([THING_V1], None)  # it is none of our business anymore


def test_groups_that_are_not_scanned_are_not_expected(definitions: Definitions) -> None:
    definitions.on_event({"type": "ADDED", "object": make_definition(v1=True)})
    assert definitions.agree_with([], {"other.com"})
    assert not definitions.agree_with([], {"other.com", "example.com"})


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"spec": {"scope": "Namespaced"}}, {"namespaced": True}),
        ({"names": {"kind": "Thing"}}, {"kind": "Thing"}),
        ({"names": {"shortNames": ["th"]}}, {"shortcuts": frozenset({"th"})}),
        ({"names": {"categories": ["all"]}}, {"categories": frozenset({"all"})}),
        ({"version": {"subresources": {"status": {}}}}, {"subresources": frozenset({"status"})}),
    ],
)
def test_r6_discovery_can_be_late_for_definitions_changed_in_place(
    definitions: Definitions, change: Any, fields: Any
) -> None:
    definition = make_definition(v1=True)
    definition["spec"] |= change.get("spec", {})
    definition["spec"]["names"] = change.get("names", {})
    definition["spec"]["versions"][0] |= change.get("version", {})
    definitions.on_event({"type": "MODIFIED", "object": definition})
    assert not definitions.agree_with([THING_V1], None)
    assert definitions.agree_with([dataclasses.replace(THING_V1, **fields)], None)
