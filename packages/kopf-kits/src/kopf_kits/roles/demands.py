"""Demands: the rights for the work besides the handling of the declared kinds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from kopf_cogs.clients.objects import APPLYING_VERBS
from kopf_cogs.clients.rights import Right
from kopf_cogs.structs.definitions import definition_of
from kopf_cogs.structs.resources import CRDS
from kopf_core.reactor.life.needs import Needs
from kopf_core.reactor.process.cluster_secrets import KubeconfigSecrets
from kopf_kits.definitions.policies import API_VERSION, PLURALS, make_policies
from kopf_kits.webhooks.services import WebhookServiceServer
from kopf_kits.webhooks.shared import SECRETS

from .usage import Usage


class Demand(NamedTuple):
    """One right, its purpose, and whether it is in the namespaces of the operator."""

    right: Right
    namespaced: bool
    purpose: str
    place: str | None = None
    """The only namespace of the right, wherever the objects of the operator are."""


def list_used(usage: Usage) -> Iterator[Demand]:
    """The rights for the own requests of handlers.

    All rights for one resource have the same users, so that they are one rule of the role.
    """
    resources: dict[tuple[str, str, bool], set[str]] = {}
    for (right, namespaced), its_users in usage.used.items():
        key = right.group, right.resource, namespaced
        resources.setdefault(key, set()).update(its_users)
    for right, namespaced in sorted(usage.used):
        for user in sorted(resources[right.group, right.resource, namespaced]):
            yield Demand(right, namespaced, f"{user} uses them")


def list_served(server: object, namespace: str) -> Iterator[Demand]:
    """The rights of the webhook server for its certificate; by default, in this namespace."""
    if isinstance(server, WebhookServiceServer) and server.folder is None:
        place = server.namespace or namespace
        for verb, name in (("get", server.secret), ("update", server.secret), ("create", "")):
            right = Right(SECRETS.group, SECRETS.plural, verb, name)
            yield Demand(right, True, "The certificate of the webhooks is kept", place)


def list_kubeconfigs(sources: Iterable[KubeconfigSecrets], namespace: str) -> Iterator[Demand]:
    """The rights to read the kubeconfigs of clusters; by default, in this namespace."""
    for place in sorted({source.namespace or namespace for source in sources}):
        for verb in ("list", "watch"):
            right = Right(SECRETS.group, SECRETS.plural, verb)
            yield Demand(right, True, "The kubeconfigs of clusters are read", place)


def list_applied(models: Iterable[type]) -> Iterator[Demand]:
    """The rights of the operator to apply the definitions of the models, and their policies.

    The operator lists the stored objects when a definition changes: the change can break them.
    """
    definitions = {d.name: d for model in models if (d := definition_of(model)) is not None}
    if definitions:
        for verb in ("get", *APPLYING_VERBS):
            right = Right(CRDS.group, CRDS.plural, verb)
            yield Demand(right, False, "The definitions are applied")
    for one in definitions.values():
        right = Right(one.group, one.plural, "list")
        yield Demand(right, False, "Stored objects are compared with the definition")
    policies = [policy for some in make_policies(models).values() for policy in some]
    for plural in dict.fromkeys(PLURALS[policy["kind"]] for policy in policies):
        for verb in APPLYING_VERBS:
            right = Right(API_VERSION.partition("/")[0], plural, verb)
            yield Demand(right, False, "The policies are applied")


def add_demands(needs: Needs, demands: Iterable[Demand], scopes: Collection[str | None]) -> Needs:
    """The needs together with all demands of other rights.

    A needed right keeps its own purposes: others would split it from the rule of its resource.
    """
    result = {place: {right: [*why] for right, why in its.items()} for place, its in needs.items()}
    for right, namespaced, purpose, place in demands:
        for scope in [place] if place is not None else scopes if namespaced else [None]:
            if right not in needs.get(scope, ()):
                result.setdefault(scope, {}).setdefault(right, []).append(purpose)
    return result
