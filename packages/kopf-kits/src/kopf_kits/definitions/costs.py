"""Rules that can be too expensive for API servers: these refuse such definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kopf_cogs.structs.definitions import definition_of
from kopf_kits.definitions.checking import UncheckableError
from kopf_kits.definitions.types import make_root
from kopf_kits.sandbox.schemas.rulecosts import (
    KIND_BUDGET,
    RULE_BUDGET,
    RuleCost,
    describe_excess,
    estimate_rules,
    sum_costs,
)

_HINT = "simplify it, or limit the lengths of the lists, mappings, and strings"


def check_costs(model: type) -> list[str]:
    """List the rules of the model that can cost more than API servers allow.

    The cost is that for the largest object which the schema permits, as servers estimate it when
    a definition is created. Add limits (``max_length``) to what the rules look at.

    Raises :class:`UncheckableError` if the cost of a rule cannot be estimated here.
    """
    definition = definition_of(model)
    costs = [*estimate_rules(make_root(model, definition.rules if definition else ()))]
    for cost in costs:
        if cost.doubt:
            raise UncheckableError(
                f"{model.__name__}: the cost of the rule {cost.rule} is not known: {cost.doubt}"
            )
    return _find_excesses(costs)


def find_excesses(definition: Mapping[str, Any]) -> list[str]:
    """List such rules in all versions of a definition, without the rules of unknown costs."""
    return [
        f"{definition['metadata']['name']} {version['name']}: {text}"
        for version in definition["spec"]["versions"]
        for text in _find_excesses([*estimate_rules(version["schema"]["openAPIV3Schema"])])
    ]


def _find_excesses(costs: Iterable[RuleCost]) -> list[str]:
    costs = [*costs]
    found = [
        f"{cost.place or 'the object'}: the rule {cost.rule} can cost "
        f"{describe_excess(cost.cost, RULE_BUDGET)} the budget of a rule: {_HINT}"
        for cost in costs
        if cost.cost > RULE_BUDGET
    ]
    total = sum_costs(costs)
    if total > KIND_BUDGET:
        factor = describe_excess(total, KIND_BUDGET)
        found.append(f"all rules together can cost {factor} the budget of a kind")
    return found
