"""The costs of rules without a server. What servers say of the same is in the end-to-end tests."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import pytest

import kopf
from kopf import schema
from kopf.testing import UncheckableError, check_costs

TWICE = "self.all(a, self.exists(b, a == b))"
HINT = "simplify it, or limit the lengths of the lists, mappings, and strings"


def declare(type_: Any) -> type:
    spec = dataclasses.make_dataclass("Spec", [("n", type_)])
    cls = dataclasses.make_dataclass("Website", [("spec", spec)])
    return kopf.resource("websites.example.com/v1")(cls)


def make_words(limit: int, rule: str = TWICE) -> type:
    text = Annotated[str, schema.Limits(max_length=limit)]
    return declare(Annotated[list[text], schema.Limits(max_length=limit), schema.Rule(rule)])  # type: ignore[valid-type]


def test_rules_within_the_budget() -> None:
    assert check_costs(declare(int)) == []
    assert check_costs(make_words(20)) == []


def test_rules_beyond_the_budget() -> None:
    assert check_costs(make_words(1000)) == [
        f"spec.n: the rule {TWICE} can cost 40.6x the budget of a rule: {HINT}",
        "all rules together can cost 4.1x the budget of a kind",
    ]


def test_rules_with_no_limits_at_all() -> None:
    found = check_costs(declare(Annotated[list[str], schema.Rule(TWICE)]))
    assert (
        found[0] == f"spec.n: the rule {TWICE} can cost more than 100x the budget of a rule: {HINT}"
    )


def test_items_count_as_many_times_as_there_can_be() -> None:
    item = Annotated[str, schema.Rule("self != 'abc'"), schema.Limits(max_length=9)]
    assert check_costs(declare(Annotated[list[item], schema.Limits(max_length=9)])) == []
    few, many = 5_000_000, 5_000_001
    assert check_costs(declare(Annotated[list[item], schema.Limits(max_length=few)])) == []
    (text,) = check_costs(declare(Annotated[list[item], schema.Limits(max_length=many)]))
    assert text.startswith("spec.n[]: the rule self != 'abc' can cost 1.000000x the budget")


def test_k33_formats_are_checked_at_the_cost_of_their_patterns() -> None:
    """The real server refuses this rule by the same factor: the text has no limit."""
    rule = "!format.dns1123Label().validate(self).hasValue()"
    (text,) = check_costs(declare(Annotated[str, schema.Rule(rule)]))
    assert text.startswith(f"spec.n: the rule {rule} can cost 1.006634x the budget of a rule")


@pytest.mark.parametrize("rule", ["self ===", "nosuch.x == 1"])
def test_costs_that_are_not_known_are_errors(rule: str) -> None:
    with pytest.raises(UncheckableError, match=r"^Website: the cost of the rule .* is not known"):
        check_costs(declare(Annotated[dict[str, int], schema.Rule(rule)]))
