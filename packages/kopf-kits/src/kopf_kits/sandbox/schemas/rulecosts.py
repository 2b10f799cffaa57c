"""The costs of all the rules of a schema, and the budgets that API servers give to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kopf_kits.sandbox.base.remarks import Unsupported
from kopf_kits.sandbox.cel.costs import estimate_cost
from kopf_kits.sandbox.cel.shapes import REQUEST, is_root, make_shape
from kopf_kits.sandbox.cel.sizes import limit

Schema = Mapping[str, Any]

RULE_BUDGET = 10_000_000
"""The most that one rule can cost, for all places of an object where it is evaluated."""

KIND_BUDGET = 100_000_000
"""The most that all rules of a version of a kind can cost together."""


@dataclass(frozen=True, slots=True)
class RuleCost:
    """The largest cost of a rule."""

    place: str
    """The path of the field in the objects; empty for the root."""

    rule: str
    cost: int
    pointer: str
    """The path of the rule in the schema, as in the errors of servers."""

    doubt: str = ""
    """The reason why the sandbox cannot estimate the rule; then, the cost is zero."""


def estimate_rules(schema: Schema) -> Iterator[RuleCost]:
    """The costs of all rules and of their messages."""
    yield from _walk(schema, "", "", 1, root=True)


def describe_excess(cost: int, budget: int) -> str:
    """How many times the budget is exceeded, as servers say it."""
    factor = cost / budget
    if factor > 100:
        return "more than 100x"
    return f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"


def sum_costs(costs: Iterable[RuleCost]) -> int:
    return limit(sum(cost.cost for cost in costs))


def _walk(
    schema: Schema, place: str, pointer: str, count: int | None, *, root: bool = False
) -> Iterator[RuleCost]:
    """Go through the schema. The count is the largest number of such values, if limited."""
    properties = schema.get("properties") or {}
    many = _count_children(schema)
    inner = None if count is None or many is None else limit(count * many)
    for name, child in properties.items():
        where = f"{place}.{name}".lstrip(".")
        yield from _walk(child, where, f"{pointer}.properties[{name}]", inner)
    if isinstance(schema.get("items"), Mapping):
        yield from _walk(schema["items"], f"{place}[]", f"{pointer}.items", inner)
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        yield from _walk(values, f"{place}[*]", f"{pointer}.additionalProperties", inner)
    yield from _estimate(schema, place, pointer, count, root=root)


def _estimate(
    schema: Schema, place: str, pointer: str, count: int | None, *, root: bool
) -> Iterator[RuleCost]:
    rules = schema.get("x-kubernetes-validations") or ()
    shape = make_shape(schema, root=root or is_root(schema)) if rules else None
    if shape is None:
        return
    times = REQUEST // (shape.shortest + 1) if count is None else count
    for index, rule in enumerate(rules):
        for name, factor in (("rule", times), ("messageExpression", 1)):
            if rule.get(name):
                where = f"{pointer}.x-kubernetes-validations[{index}].{name}"
                text, optional = str(rule[name]), bool(rule.get("optionalOldSelf"))
                try:
                    cost = limit(factor * estimate_cost(text, shape, optional=optional))
                except Unsupported as error:
                    yield RuleCost(place, text, 0, where, doubt=str(error))
                else:
                    yield RuleCost(place, text, cost, where)


def _count_children(schema: Schema) -> int | None:
    """The largest number of values inside of this one; none if there is no limit."""
    if schema.get("type") == "array":
        most = schema.get("maxItems")
    elif isinstance(schema.get("additionalProperties"), Mapping):
        most = schema.get("maxProperties")
    else:
        return 1
    return None if most is None else max(0, most)
