"""Needing: the rights that the handlers of an operator need, offline or in a cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from kopf_cogs.clients.discovery import scan
from kopf_cogs.clients.listing import list_objects
from kopf_cogs.clients.rights import Right, Subject, make_rules, review
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.namespaces import match_namespace, select_specific_namespaces
from kopf_cogs.structs.resources import NAMESPACES
from kopf_core.reactor.life.essentials import OperatorOptions
from kopf_core.reactor.life.needs import Needs, list_needs
from kopf_kits.definitions.known import list_kinds

from .demands import Demand, add_demands
from .kinds import choose_kinds
from .writing import Account, describe

PATTERNS = (
    "Kopf cannot tell which namespaces match the patterns, so the role is for the whole cluster. "
    "Add --context, and the roles are for the namespaces of that cluster."
)


class Findings(NamedTuple):
    """The needs of the operator, and the remarks on its presumed needs."""

    needs: Needs
    remarks: Collection[str]


async def find_needs(
    operator: OperatorOptions,
    definitions: Iterable[Mapping[str, Any]],
    demands: Iterable[Demand],
) -> Findings:
    """The needs as far as they are known without a cluster, together with the demands.

    Raises :class:`UnknownKindsError` if too little is known.
    """
    kinds = choose_kinds(await list_kinds(definitions), operator)
    exact = {*select_specific_namespaces(operator.patterns)}
    scopes: Collection[str | None] = exact if operator.is_exact else [None]
    needs = add_demands(list_needs(operator, kinds.resources, scopes), demands, scopes)
    remarks = [] if operator.is_clusterwide or operator.is_exact else [PATTERNS]
    return Findings(needs, [*remarks, *kinds.remarks])


async def ask_needs(
    client: Client, operator: OperatorOptions, demands: Iterable[Demand]
) -> Findings:
    """The needs by the kinds and the namespaces of the cluster, together with the demands."""
    kinds = choose_kinds((await scan(client)).resources, operator, is_all=True)
    exact: Collection[str | None] = {*select_specific_namespaces(operator.patterns)}
    if operator.is_clusterwide:
        exact = [None]
    elif not operator.is_exact:
        exact = await _list_namespaces(client, operator)
    needs = add_demands(list_needs(operator, kinds.resources, exact), demands, exact)
    return Findings(needs, kinds.remarks)


async def verify(client: Client, needs: Needs, account: Account | None) -> list[str]:
    """The missing rights and their purposes, line by line.

    Raises :class:`APIError` if the cluster does not say whether anything is missing.
    """
    subject = None if account is None else Subject.of_account(account.name, account.namespace)
    lines = []
    for place, rights in needs.items():
        where = "cluster-wide" if place is None else f"in the namespace {place!r}"
        purposes: dict[str, list[Right]] = {}
        for right in await review(client, [*rights], place, subject):
            purposes.setdefault(describe(rights[right]), []).append(right)
        for purpose, missing in purposes.items():
            for rule in make_rules(missing):
                names = "".join(f" named {name!r}" for name in rule.get("resourceNames", ()))
                lines.append(
                    f"Missing: {', '.join(rule['verbs'])} of {', '.join(rule['resources'])}{names} "
                    f"in the API group {rule['apiGroups'][0]!r}, {where}: {purpose}"
                )
    return lines


async def _list_namespaces(client: Client, operator: OperatorOptions) -> Collection[str | None]:
    selector = operator.settings.scanning.namespace_selector
    params = {} if selector is None else {"labelSelector": selector}
    names = [
        str(item["metadata"]["name"])
        async for page in list_objects(client, NAMESPACES, None, params=params)
        for item in page.items
    ]
    patterns = operator.patterns
    return {name for name in names if any(match_namespace(name, one) for one in patterns)}
