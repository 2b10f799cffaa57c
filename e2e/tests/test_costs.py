"""The costs of rules: what is within the budget is accepted by the API, and nothing beyond."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.tests.harness import CRDS, World, make_crd
from e2e.tests.test_expressions import SCHEMA, TRUE
from kopf_kits.sandbox.schemas.rulecosts import RULE_BUDGET, estimate_rules

COSTLY = [
    "self.text == self.absent",
    "self.text < self.absent",
    "self.text + self.absent == 'x'",
    "self.text.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "self.text.contains(self.absent)",
    "self.text.startsWith(self.absent) || self.text.endsWith('abcdefghijklmnopqrstuvwxyz')",
    "self.items.all(i, i > 0)",
    "self.items.all(i, self.items.all(k, i == k))",
    "self.items.exists(i, i > 0 && i < 5)",
    "self.items.map(i, i + 1).filter(i, i > 1).size() > 0",
    "self.items.filter(i, i > 1).map(i, string(i)).size() > 0",
    "self.map.all(k, self.map[k].startsWith('a'))",
    "self.map.exists(k, k == 'abc')",
    "self.map['k'] == self.text",
    "3 in self.items && !('x' in self.map)",
    "self.text in ['a', 'b', 'c']",
    "(has(self.text) ? self.text : self.absent) == 'abcdefghijklmnopqrstuvwxyz'",
    "{'a': 1, 'b': 2}['a'] == 1",
    "[self.text, self.absent].exists(t, t == 'abcdefghijklmnopqrstuvwxyz')",
    "self.text.lowerAscii().upperAscii().trim() == self.text",
    "self.text.replace('ab', 'c') == self.absent",
    "self.text.split(',').all(t, size(t) < 5)",
    "self.items == [1, 2, 3]",
    "self.items + self.items == self.items",
    "-1 < self.items[0] && -self.items[0] < 0 && self.items[0] * 2 - 1 > self.items[1] / 2 % 3",
    "type(self.port) == int ? self.port > 0 : self.port.matches('^[0-9]+%$')",
    "int(self.port) > 0 && self.port != 'x'",
    "self.time > timestamp('2020-01-01T00:00:00Z') && self.span == duration('1s')",
    "self == oldSelf || self.text == oldSelf.text",
    "oldSelf.items.all(i, i in self.items)",
    "dyn(self.text) == dyn(1)",
    "[self.text, self.absent][0] == 'abcdefghijklmnopqrstuvwxyz'",
    "{'a': self.text}.exists(k, k == 'abcdefghijklmnopqrstuvwxyz')",
    "self.items.map(i, self.text).exists(t, t == 'abcdefghijklmnopqrstuvwxyz')",
    "self.items.map(i, self.text)[0] == 'abcdefghijklmnopqrstuvwxyz'",
    "self.items.filter(i, i > 1)[0] > 1",
    "self.map.map(k, self.map[k]).join(',') == 'a' || true",
    "self.?text.orValue('abcdefghijkl') == 'abcdefghijklmnopqrstuvwxyz'",
    "self.?map[?'a'].orValue('abc').startsWith('abcdefghijklmnopqrstuvwxyz')",
    "self.map[?'a'].optMap(v, v == 'abc').orValue(true)",
]


def make_schema(rules: list[tuple[str, int]]) -> Any:
    """Each rule has a list of its own, with so many items at most."""
    properties = {
        f"list{number}": {
            "type": "array",
            "maxItems": count,
            "items": {**SCHEMA, "x-kubernetes-validations": [{"rule": rule}]},
            "x-kubernetes-list-type": "atomic",
        }
        for number, (rule, count) in enumerate(rules)
    }
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def measure(rule: str) -> int:
    (found,) = estimate_rules({**SCHEMA, "x-kubernetes-validations": [{"rule": rule}]})
    return found.cost


async def send(world: World, schema: Any) -> list[str]:
    """The rules which are refused, as the server names them."""
    crd = make_crd("costs", "Cost", schema={"openAPIV3Schema": schema})
    answer = await world.attempt("POST", f"{CRDS}?dryRun=All", crd)
    if answer.status == 201:
        return []
    causes = answer.body["details"]["causes"]
    assert all("estimated rule cost" in cause["message"] for cause in causes), causes
    text = "Forbidden: estimated rule cost exceeds budget"
    return [cause["field"] for cause in causes if cause["message"].startswith(text)]


def split(rules: list[str]) -> Iterator[list[str]]:
    """Parts that do not exceed the budget of a kind."""
    for number in range(0, len(rules), 9):
        yield rules[number : number + 9]


@pytest.mark.parametrize("rules", [*split([*COSTLY, *TRUE])])
async def test_the_last_item_exceeds_the_budget(world: World, rules: list[str]) -> None:
    # Rules of old states need lists with keys; they are measured as others.
    measured = [(rule.replace("oldSelf", "self"), measure(rule)) for rule in rules]
    within = [(rule, RULE_BUDGET // max(1, cost)) for rule, cost in measured]
    beyond = [(rule, count + 1) for (rule, count), (_, cost) in zip(within, measured, strict=True)]
    assert await send(world, make_schema(within)) == []
    refused = await send(world, make_schema(beyond))
    missing = [
        (rule, cost)
        for number, (rule, cost) in enumerate(measured)
        if not any(f"properties[list{number}]" in field for field in refused)
    ]
    assert missing == []


NUMBER = {"type": "integer"}
TEXT = {"type": "string"}
KEYED = {"type": "object", "required": ["name"], "properties": {"name": TEXT, "n": NUMBER}}
UNLIMITED = [
    ({"type": "array", "items": {**NUMBER, "x-kubernetes-validations": [{"rule": "self > 1"}]}}),
    ({"type": "array", "items": {**TEXT, "x-kubernetes-validations": [{"rule": "self > 'a'"}]}}),
    ({"type": "array", "items": {**TEXT, "maxLength": 9, "x-kubernetes-validations": [
        {"rule": "self > 'abc'"}]}}),
    ({"type": "array", "items": {**KEYED, "x-kubernetes-validations": [
        {"rule": "self.n > 1 && self.n < 5 && self.n != 3 && self.n + 1 < 9"}]}}),
    ({"type": "object", "additionalProperties": {**TEXT, "x-kubernetes-validations": [
        {"rule": "self.startsWith('a')"}]}}),
    ({"type": "array", "items": TEXT, "x-kubernetes-validations": [
        {"rule": "self.all(t, t != 'abc')"}]}),
    ({"type": "array", "items": TEXT, "x-kubernetes-validations": [
        {"rule": "self.all(t, self.exists(u, t == u))"}]}),
    ({**TEXT, "x-kubernetes-validations": [{"rule": "self.matches('^a+$')"}]}),
    ({**TEXT, "x-kubernetes-validations": [{"rule": "self.matches('^[a-z]([-a-z0-9]*[a-z0-9])$')"},
                                           {"rule": "self.contains('abcdefghijklmnopqrst')"}]}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(UNLIMITED)))
async def test_what_has_no_limits_is_measured_by_requests(world: World, number: int) -> None:
    root = {"type": "object", "properties": {"value": UNLIMITED[number]}}
    costs = [*estimate_rules(root)]
    expected = [cost.pointer for cost in costs if cost.cost > RULE_BUDGET]
    found = await send(world, root)
    start = "spec.validation.openAPIV3Schema"
    assert found == [f"{start}{pointer}" for pointer in expected], costs


async def test_all_rules_share_a_budget(world: World) -> None:
    rule = "self.items.all(i, i > 0)"
    each = RULE_BUDGET // measure(rule)
    rules = [(f"{rule} || {number} > 5", each // 2) for number in range(30)]
    crd = make_crd("costs", "Cost", schema={"openAPIV3Schema": make_schema(rules)})
    answer = await world.attempt("POST", f"{CRDS}?dryRun=All", crd)
    assert answer.status == 422
    text = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds"
    assert text in answer.body["message"]
    counted = itertools.islice(rules, 15)
    assert await send(world, make_schema([*counted])) == []
