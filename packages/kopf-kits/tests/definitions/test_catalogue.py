"""The schemas of types; and what models accept is what the sandbox accepts, and vice versa."""

from __future__ import annotations

from typing import Any

import model_catalogue as catalogue
import pytest
from hypothesis import given, settings

from kopf_kits.definitions.places import Dialect, Place
from kopf_kits.definitions.types import make_root, make_schema
from kopf_kits.sandbox.schemas.schemarules import check_rules
from kopf_kits.sandbox.schemas.schemas import apply_defaults, compile_schema, prune
from kopf_kits.sandbox.schemas.validation import validate

CASES = [pytest.param(case, id=case.id) for case in catalogue.CASES]


@pytest.mark.parametrize("case", CASES)
def test_schemas(case: catalogue.Case) -> None:
    place = Place("Probe", dialect=Dialect(pydantic=True, utf8=True))
    assert make_schema(case.type, (), place) == case.schema


@pytest.mark.parametrize("case", CASES)
def test_models_and_the_sandbox_agree(case: catalogue.Case) -> None:
    node = compile_schema(make_root(case.model))

    @given(case.values)
    @settings(max_examples=60, deadline=None, database=None)
    def check(value: Any) -> None:
        spec = {"value": value}
        obj = {"apiVersion": "x/v1", "kind": "Probe", "metadata": {}, "spec": spec}
        stored = apply_defaults(node, prune(node, obj, []))
        found = list(validate(node, stored)) or list(check_rules(node, stored))
        if found:
            assert not case.accepts(value), found
        else:  # nulls can be replaced with defaults before operators see them
            assert case.accepts(stored["spec"]["value"])

    check()
