"""What the API server would say of objects: told in unit tests, with no server."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import pytest

import kopf
from kopf import schema
from kopf.testing import UncheckableError, check_object


@dataclasses.dataclass
class Spec:
    low: Annotated[int, schema.Limits(ge=0)] = 1
    high: int = 9
    domain: Annotated[str | None, schema.Immutable()] = None


@kopf.resource(
    "websites.example.com/v1",
    rules=[schema.Rule("self.metadata.name != 'bad'", message="a bad name")],
)
@dataclasses.dataclass
class Website:
    spec: Annotated[Spec, schema.Rule("self.low <= self.high", message="low is too high")]


def make(name: str = "x", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Website",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_valid_objects() -> None:
    assert check_object(Website, make()) == []
    assert check_object(Website, make(low=3, high=3, unknown=1)) == []


def test_limits_and_types() -> None:
    (text,) = check_object(Website, make(low=-1))
    assert text.startswith("spec.low: Invalid value: -1: ")
    (text,) = check_object(Website, make(low="x"))
    assert "must be of type integer" in text


def test_rules_with_defaults() -> None:
    assert check_object(Website, make(low=10)) == ["spec: Invalid value: low is too high"]
    assert check_object(Website, make("bad")) == ["<nil>: Invalid value: a bad name"]


def test_rules_on_changes() -> None:
    old = make(domain="a")
    assert check_object(Website, make(domain="a"), old) == []
    (text,) = check_object(Website, make(domain="b"), old)
    assert "Value is immutable" in text
    (text,) = check_object(Website, make(), old)
    assert "Value is immutable" in text


@pytest.mark.parametrize("rule", ["self.isMagic()", "isSemver('1.0.0')", "self ==="])
def test_rules_that_cannot_be_evaluated_are_errors(rule: str) -> None:
    spec = dataclasses.make_dataclass("Spec", [("n", Annotated[int, schema.Rule(rule)])])
    cls = dataclasses.make_dataclass("Website", [("spec", spec)])
    with pytest.raises(UncheckableError, match=r"^Website: spec\.n is not checked for the rule"):
        check_object(cls, make(n=1))
