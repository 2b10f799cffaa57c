"""Admission policies of models, as they are written, and as they are checked without a server."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import pytest

import kopf
from kopf import schema
from kopf.testing import UncheckableError, check_object
from kopf_kits.definitions.errors import SchemaError
from kopf_kits.definitions.policies import make_policies

MATCH_RESOURCES = {"matchPolicy", "namespaceSelector", "objectSelector", "resourceRules"}
"""All fields of the matching that API servers have defaults for."""

NAME = "sites.example.com"
META = {"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": "x"}}


def declare(type_: Any, *policies: schema.Policy, version: str = "v1") -> type:
    cls = dataclasses.make_dataclass("Site", [("spec", type_)])
    return kopf.resource(f"{NAME}/{version}", policies=policies)(cls)


@dataclasses.dataclass
class Plain:
    size: int = 1


@dataclasses.dataclass
class Inner:
    name: Annotated[str, schema.DefaultFrom("object.metadata.name")]


@dataclasses.dataclass
class Outer:
    mode: Literal["a", "b"] = "a"
    inner: Inner | None = None
    in_: Annotated[Inner | None, schema.Name("in")] = None


def test_models_with_no_policies_have_none() -> None:
    assert make_policies([declare(Plain)]) == {NAME: []}


def test_policies_come_with_their_bindings() -> None:
    found = make_policies([declare(Outer, schema.Policy("true"))])[NAME]
    assert [obj["kind"] for obj in found] == [
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]
    assert {obj["metadata"]["name"] for obj in found} == {f"v1.{NAME}"}


def test_versions_have_policies_of_their_own() -> None:
    policy = schema.Policy("true")
    models = [declare(Plain, policy), declare(Plain, policy, version="v2")]
    names = [obj["metadata"]["name"] for obj in make_policies(models)[NAME]]
    assert names == [f"v1.{NAME}"] * 2 + [f"v2.{NAME}"] * 2


def test_policies_are_only_for_their_operations() -> None:
    policies = [schema.Policy("a"), schema.Policy("b", operations=["DELETE"])]
    spec = make_policies([declare(Plain, *policies)])[NAME][0]["spec"]
    assert spec["matchConstraints"].keys() == MATCH_RESOURCES
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert rule["operations"] == ["CREATE", "UPDATE", "DELETE"]
    assert [validation["expression"] for validation in spec["validations"]] == [
        '!(request.operation in ["CREATE", "UPDATE"]) || (a)',
        '!(request.operation in ["DELETE"]) || (b)',
    ]


def test_nothing_is_added_to_policies_of_the_same_operations() -> None:
    spec = make_policies([declare(Plain, schema.Policy("a"), schema.Policy("b"))])[NAME][0]["spec"]
    assert [validation["expression"] for validation in spec["validations"]] == ["a", "b"]


def test_defaults_are_set_where_their_places_are() -> None:
    spec = make_policies([declare(Outer)])[NAME][0]["spec"]
    assert [mutation["jsonPatch"]["expression"] for mutation in spec["mutations"]] == [
        "has(object.spec) && has(object.spec.inner) && !has(object.spec.inner.name) "
        '? [JSONPatch{op: "add", path: "/spec/inner/name", value: object.metadata.name}] : []',
        "has(object.spec) && has(object.spec.__in__) && !has(object.spec.__in__.name) "
        '? [JSONPatch{op: "add", path: "/spec/in/name", value: object.metadata.name}] : []',
    ]


@pytest.mark.parametrize(
    ("type_", "where"), [(list[Inner], "[]"), (dict[str, Inner], "[]"), (list[Outer], "[].inner")]
)
def test_defaults_are_not_for_items(type_: Any, where: str) -> None:
    with pytest.raises(SchemaError) as caught:
        make_policies([declare(type_)])
    text = f"Site.spec{where}.name: DefaultFrom() cannot be inside of lists and mappings."
    assert str(caught.value) == text


def test_required_fields_can_have_such_defaults() -> None:
    model = declare(Outer)
    assert check_object(model, {**META, "spec": {"inner": {}}}) == []
    assert check_object(declare(Inner), {**META, "spec": {}}) == []
    assert check_object(declare(Inner), {**META, "spec": {"name": "y"}}) == []


def test_defaults_are_validated() -> None:
    type_ = Annotated[str, schema.DefaultFrom("object.metadata.name"), schema.Limits(max_length=2)]
    model = declare(dataclasses.make_dataclass("Spec", [("name", type_)]))
    long = {"metadata": {"name": "long"}, "spec": {}}
    assert check_object(model, {**META, "spec": {}}) == []
    (text,) = check_object(model, {**META, **long})
    assert "spec.name: Too long" in text


POLICIES = (
    schema.Policy("object.spec.size <= 5", message="too big"),
    schema.Policy("object.spec.size >= oldObject.spec.size", operations=["UPDATE"]),
    schema.Policy("oldObject.spec.size == 1", operations=["DELETE"]),
)


def test_policies_are_checked_without_a_server() -> None:
    model = declare(Plain, *POLICIES)
    small, medium, big = ({**META, "spec": {"size": size}} for size in (1, 3, 9))
    assert check_object(model, medium) == []
    assert check_object(model, big) == ["too big"]
    assert check_object(model, medium, old=small) == []
    assert check_object(model, None, old=small) == []
    assert check_object(model, None, old=medium) == ["failed expression: oldObject.spec.size == 1"]
    assert check_object(model, small, old=medium) == [
        "failed expression: object.spec.size >= oldObject.spec.size"
    ]


def test_policies_see_what_is_given() -> None:
    policies = [
        schema.Policy("request.userInfo.username == 'ann'", message="not ann"),
        schema.Policy("namespaceObject.metadata.labels.tier == 'gold'", message="not gold"),
    ]
    model, body = declare(Plain, *policies), {**META, "spec": {}}
    gold = {"metadata": {"labels": {"tier": "gold"}}}
    ann, bob = ({"userInfo": {"username": name}} for name in ("ann", "bob"))
    assert check_object(model, body, request=ann, namespace=gold) == []
    assert check_object(model, body, request=bob, namespace=gold) == ["not ann"]
    with pytest.raises(UncheckableError, match="unknown variable namespaceObject"):
        check_object(model, body, request=ann)
    assert check_object(model, body, namespace=gold) == [
        "request.userInfo.username == 'ann': no such key: userInfo"
    ]
