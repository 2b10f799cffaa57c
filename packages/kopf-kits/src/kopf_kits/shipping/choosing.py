"""The values of the chart for an operator: the rights that it needs, and its webhooks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

from kopf_cogs.clients.rights import Right, is_permitted, make_rules
from kopf_cogs.structs.namespaces import NamespaceName, select_specific_namespaces
from kopf_cogs.structs.resources import Resource
from kopf_core.intents.webhooks import WebhookHandler
from kopf_core.reactor.life.essentials import OperatorOptions
from kopf_core.reactor.life.needs import list_needs

from .rendering import render_chart

ANYWHERE = NamespaceName("default")
"""The stand-in for all namespaces: Kubernetes keeps events of cluster-scoped objects in it."""

NamespacedRight: TypeAlias = tuple[Right, bool]
"""A right, and whether it is in the namespaces of the operator, or for the whole cluster."""


def make_permissions(
    operator: OperatorOptions, kinds: Collection[Resource], more: Iterable[NamespacedRight] = ()
) -> dict[str, Any]:
    """The values about rights: the rights that the operator needs beyond the rules of the chart.

    ``more`` are the needed rights beside the rights for these kinds.

    The rights for kinds without namespaces are apart: roles of namespaces cannot permit these.
    """
    scopes = {*select_specific_namespaces(operator.patterns)} or {ANYWHERE}
    needs = list_needs(operator, kinds, scopes)
    local = {right for place in scopes for right in needs.get(place, ())}
    wide = {right for place in needs.keys() - scopes for right in needs[place]}
    for right, is_namespaced in more:
        (local if is_namespaced else wide).add(right)
    bodies = render_chart({"namespaces": [ANYWHERE]}, name="any", namespace=ANYWHERE)
    permitted = {body["kind"]: body["rules"] for body in bodies if "rules" in body}
    cluster_rules = _make_rules(wide, permitted["ClusterRole"])
    values: dict[str, Any] = {"rules": _make_rules(local, permitted["Role"])}
    values |= {"clusterRules": cluster_rules} if cluster_rules else {}
    return values | _choose_webhooks(operator)


def _make_rules(
    rights: Iterable[Right], permitted: Iterable[Mapping[str, Any]]
) -> list[dict[str, list[str]]]:
    return make_rules(
        [
            right
            for right in sorted(rights)
            if not any(is_permitted(one, right) for one in permitted)
        ]
    )


def _choose_webhooks(operator: OperatorOptions) -> dict[str, Any]:
    handlers = operator.registry.resource_handlers
    needed = {"conversions": True} if operator.registry.conversions else {}
    is_served = needed or any(isinstance(one, WebhookHandler) for one in handlers)
    return {"webhooks": {"enabled": True, **needed}} if is_served else {}
