"""What a change of a definition breaks: one row is one change."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kopf_kits.definitions.comparing import compare
from kopf_kits.definitions.objects import find_misfits

Obj = dict[str, Any]


def make(spec: Obj, **version: Any) -> Obj:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    return {
        "metadata": {"name": "websites.example.com"},
        "spec": {
            "scope": "Namespaced",
            "names": {"kind": "Website", "shortNames": ["web"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
LIST: Obj = {"type": "array", "items": TEXT}
DICT: Obj = {"type": "object", "additionalProperties": NUMBER}
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (TEXT, None, "the field is removed"),
        (TEXT, NUMBER, "the type is changed from string to integer"),
        ({"type": "number"}, NUMBER, "the type is narrowed from number to integer"),
        ({**TEXT, "nullable": True}, TEXT, "it cannot be null anymore"),
        (NUMBER, {**NUMBER, "minimum": 1}, "minimum is narrowed from none to 1"),
        ({**NUMBER, "minimum": 1}, {**NUMBER, "minimum": 2}, "minimum is narrowed from 1 to 2"),
        ({**NUMBER, "maximum": 5}, {**NUMBER, "maximum": 4}, "maximum is narrowed from 5 to 4"),
        (TEXT, {**TEXT, "pattern": "^a"}, "pattern is changed from none to '^a'"),
        (TEXT, {**TEXT, "enum": ["a"]}, "only these values are allowed now: ['a']"),
        (
            {**TEXT, "enum": ["a", "b"]},
            {**TEXT, "enum": ["a"]},
            "the value 'b' is not allowed anymore",
        ),
        (
            {**TEXT, "default": "a"},
            {**TEXT, "default": "b"},
            "the default is changed from 'a' to 'b'",
        ),
        (TEXT, {**TEXT, "default": "a"}, "there is a default now: 'a'"),
        ({**TEXT, "default": "a"}, TEXT, "there is no default anymore, it was 'a'"),
        (
            LIST,
            {**LIST, "x-kubernetes-list-type": "set"},
            "the list-type is changed from 'atomic' to 'set'",
        ),
        (FREE, {"type": "object"}, "unknown fields are not kept anymore"),
        (DICT, {"type": "object"}, "other keys are not kept anymore"),
        (
            TEXT,
            {**TEXT, "x-kubernetes-validations": [{"rule": "self != 'a'"}]},
            "there is a new rule: self != 'a'",
        ),
    ],
)
def test_narrowed_fields(old: Obj, new: Obj | None, text: str) -> None:
    changes = compare(make({"value": old}), make({} if new is None else {"value": new}))
    assert [str(change) for change in changes] == [f"websites.example.com v1 .spec.value: {text}"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (NUMBER, {"type": "number"}),
        ({**NUMBER, "minimum": 2}, {**NUMBER, "minimum": 1}),
        ({**NUMBER, "maximum": 2}, NUMBER),
        ({**TEXT, "enum": ["a"]}, {**TEXT, "enum": ["b", "a"]}),
        ({**TEXT, "enum": ["a"]}, TEXT),
        (TEXT, {**TEXT, "nullable": True}),
        (TEXT, {**TEXT, "description": "x"}),
        (LIST, {**LIST, "x-kubernetes-list-type": "atomic"}),
        ({"type": "object"}, FREE),
        ({**TEXT, "x-kubernetes-validations": [{"rule": "true"}]}, TEXT),
        (TEXT, {"x-kubernetes-preserve-unknown-fields": True}),
    ],
)
def test_widened_fields_break_nothing(old: Obj, new: Obj) -> None:
    assert compare(make({"value": old}), make({"value": new})) == []


def test_new_fields_break_nothing_unless_required() -> None:
    old, new = make({}), make({"a": TEXT, "b": {**TEXT, "default": "x"}})
    spec = new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert compare(old, new) == []
    spec["required"] = ["a", "b"]
    assert [str(change) for change in compare(old, new)] == [
        "websites.example.com v1 .spec.a: the field is required now"
    ]


def test_changes_deep_inside_are_named() -> None:
    def wrap(schema: Obj) -> Obj:
        item = {"type": "object", "properties": {"x": schema}}
        return make({"values": {"type": "array", "items": item}, "map": DICT})

    (change,) = compare(wrap(TEXT), wrap(NUMBER))
    assert change.place == "websites.example.com v1 .spec.values[].x"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"served": False}, "the version is not served anymore"),
        ({"name": "v2"}, "the version is removed, and there can be objects stored in it"),
        ({"subresources": {"status": {}}}, "the subresource 'status' is added"),
    ],
)
def test_changed_versions(change: Obj, text: str) -> None:
    changes = compare(make({}), make({}, **change))
    assert [str(change) for change in changes] == [f"websites.example.com v1: {text}"]


def test_removed_versions_with_no_objects_break_clients_only() -> None:
    old = make({})
    older = {**old["spec"]["versions"][0], "name": "v1beta1", "storage": False}
    old["spec"]["versions"].append(older)
    (change,) = compare(old, make({}))
    assert str(change) == "websites.example.com v1beta1: the version is removed"
    old["status"] = {"storedVersions": ["v1beta1", "v1"]}
    (change,) = compare(old, make({}))
    assert change.text == "the version is removed, and there can be objects stored in it"


def test_changed_kinds() -> None:
    new = copy.deepcopy(make({}))
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"] = {"kind": "Site"}
    assert [change.text for change in compare(make({}), new)] == [
        "the scope is changed from Namespaced to Cluster",
        "the kind is renamed from Website to Site",
        "the short name 'web' is removed",
    ]


async def test_objects_that_do_not_fit() -> None:
    def make_object(name: str, **spec: Any) -> Obj:
        meta = {"name": name, "namespace": "default"}
        return {"apiVersion": "example.com/v1", "kind": "Website", "metadata": meta, "spec": spec}

    async def iterate() -> Any:
        yield make_object("good", n=5)
        yield make_object("bad", n=1)
        yield make_object("worse", n="x")  # already
        yield make_object("lost", n=5, m=1)

    old = make({"n": NUMBER, "m": NUMBER})
    new = make({"n": {**NUMBER, "minimum": 3}})
    assert [str(change) for change in await find_misfits(old, new, iterate())] == [
        "Website default/bad: spec.n: Invalid value: 1: "
        "spec.n in body should be greater than or equal to 3",
        "Website default/lost: spec.m would be lost",
    ]
    assert await find_misfits(old, old, iterate()) == []


async def test_clients_of_lost_fields_are_named() -> None:
    def manage(manager: str, **fields: Any) -> Obj:
        return {"manager": manager, "fieldsV1": {"f:spec": fields}}

    managers = [
        manage("ann", **{"f:m": {}}),
        manage("bob", **{"f:n": {}}),
        manage("cut", **{"f:l": {'k:{"x":1}': {"f:y": {}}}}),
    ]
    obj = {
        "apiVersion": "example.com/v1",
        "kind": "Website",
        "metadata": {"name": "x", "managedFields": managers},
        "spec": {"n": 1, "m": 1, "l": [{"x": 1, "y": 2}]},
    }

    async def iterate() -> Any:
        yield obj

    part = {"type": "object", "properties": {"x": NUMBER, "y": NUMBER}}
    old = make({"n": NUMBER, "m": NUMBER, "l": {"type": "array", "items": part}})
    less = {"type": "object", "properties": {"x": NUMBER}}
    new = make({"n": NUMBER, "l": {"type": "array", "items": less}})
    assert [str(change) for change in await find_misfits(old, new, iterate())] == [
        "Website x: spec.m would be lost (it is set by ann)",
        "Website x: spec.l[0].y would be lost (it is set by cut)",
    ]


def make_versions(conversion: Obj | None = None, **specs: Obj) -> Obj:
    """The last version is the stored one."""
    definition = make({})
    [template] = definition["spec"]["versions"]
    definition["spec"]["versions"] = [
        {
            **template,
            "name": name,
            "storage": False,
            "schema": make(spec)["spec"]["versions"][0]["schema"],
        }
        for name, spec in specs.items()
    ]
    definition["spec"]["versions"][-1]["storage"] = True
    return definition | {"spec": {**definition["spec"], "conversion": conversion}}


OLD = make_versions(v1beta1={"size": NUMBER, "domain": TEXT})
NEW: dict[str, Obj] = {
    "v1beta1": {"size": NUMBER, "domain": TEXT},
    "v1": {"replicas": NUMBER, "domain": TEXT},
}
WEBHOOK = {"strategy": "Webhook"}


async def test_n_versions_without_a_webhook_lose_the_fields_of_each_other() -> None:
    async def iterate() -> AsyncIterator[Obj]:
        meta = {"namespace": "default", "name": "x"}
        yield {"apiVersion": "e/v1beta1", "metadata": meta, "spec": {"size": 5, "domain": "a"}}

    new = make_versions(**NEW)
    assert [str(change) for change in compare(OLD, new)] == [
        "websites.example.com v1 .spec.size: the field of v1beta1 would be lost, "
        "as no webhook converts the objects"
    ]
    assert [str(change) for change in await find_misfits(OLD, new, iterate())] == [
        "Website default/x: as v1: spec.size would be lost"
    ]
    for old, new in [
        (OLD, make_versions(WEBHOOK, **NEW)),
        (OLD | {"spec": {**OLD["spec"], "conversion": WEBHOOK}}, make_versions(**NEW)),
        (make_versions(**NEW), make_versions(**NEW)),
    ]:
        assert compare(old, new) == []
        assert await find_misfits(old, new, iterate()) == []
