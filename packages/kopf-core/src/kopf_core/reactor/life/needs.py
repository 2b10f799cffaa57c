"""Needs: all rights that an operator needs for its handlers and options; and the missing ones."""

import asyncio
import json
import logging
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from kopf_cogs.clients.rights import Right, find_ungranted, make_role
from kopf_cogs.configs.settings import LeasingSettings, OperatorSettings
from kopf_cogs.structs.resources import (
    CRDS,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOK,
    NAMESPACES,
    VALIDATING_WEBHOOK,
    Resource,
)
from kopf_cogs.structs.selectors import Selector
from kopf_core.engines.peering.peering_objects import GROUPS as PEERING_GROUPS
from kopf_core.intents.registries import OperatorRegistry, ResourceHandlers
from kopf_core.reactor.life.essentials import Essentials, OperatorOptions
from kopf_core.reactor.shape.servable import find_obstacle
from kopf_core.reactor.streams.refusals import list_rights

logger = logging.getLogger("kopf.reactor.rights")

WATCHING = ("list", "watch")
KEEPING = ("create", "patch")
MAX_NAMESPACES = 10
"""The number of namespaces where the rights are reviewed: usually, all have the same."""

Needs = Mapping[str | None, Mapping[Right, Collection[str]]]
"""The rights by namespaces, and the purposes of each right; ``None`` stands for the cluster scope,
and for all namespaces."""


class Need(NamedTuple):
    """One right in all namespaces where objects of the kind are."""

    kind: Resource
    right: Right
    purpose: str


async def review_rights(essentials: Essentials) -> None:
    """Once, when all kinds are known, log all missing rights in one line. Never ends."""
    await essentials.insights.known.wait()
    insights = essentials.insights
    namespaces = sorted(insights.namespaces, key=lambda name: name or "")[:MAX_NAMESPACES]
    needs = list_needs(essentials.options, insights.resources, namespaces)
    client = essentials.free_client
    found = await asyncio.gather(
        *(find_ungranted(client, rights, namespace) for namespace, rights in needs.items())
    )
    missing = {place: rights for place, rights in zip(needs, found, strict=True) if rights}
    if missing:
        name = f"{essentials.settings.name or 'operator'}-missing"  # replaces no other role
        roles = [make_role(name, namespace, rights) for namespace, rights in missing.items()]
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": roles})
        text = "The operator lacks rights for what is declared in it. Add them:"
        logger.warning(f"{text} {manifest}")
    await asyncio.Event().wait()


def list_needs(
    options: OperatorOptions,
    resources: Collection[Resource],
    namespaces: Collection[str | None],
) -> Needs:
    """All needed rights, granted or not."""
    settings = options.settings
    scopes = [None] if None in namespaces else sorted(filter(None, namespaces))
    needs: dict[str | None, dict[Right, dict[str, None]]] = {}

    def add(scope: str | None, right: Right, purpose: str) -> None:
        needs.setdefault(scope, {}).setdefault(right, {})[purpose] = None

    for kind, right, purpose in _list_kinds(options.registry, settings, resources):
        for scope in scopes if kind.namespaced else [None]:
            add(scope, right, purpose)
        if settings.posting.enabled:
            for verb in KEEPING:
                event = Right(EVENTS.group, EVENTS.plural, verb)
                for scope in scopes if kind.namespaced or None in scopes else ["default"]:
                    add(scope, event, "Events are posted")
    for right, purpose in _list_observed(options):
        add(None, right, purpose)
    if settings.leasing.name is not None and settings.leasing.namespace is not None:
        for right in _list_leasing(settings.leasing):
            add(settings.leasing.namespace, right, "The leader is elected")
    if settings.sharding.name is not None and settings.sharding.namespace is not None:
        for verb in ("get", *WATCHING, "create", "update", "delete"):  # their names are random
            right = Right(LEASES.group, LEASES.plural, verb)
            add(settings.sharding.namespace, right, "Replicas share the objects")
    if settings.sharding.ring is not None and settings.sharding.namespace is not None:
        for verb in ("get", "create", "update"):  # their names are random
            right = Right(LEASES.group, LEASES.plural, verb)
            add(settings.sharding.namespace, right, "This operator is a shard of a ring")
    return needs


def _list_kinds(
    registry: OperatorRegistry, settings: OperatorSettings, resources: Collection[Resource]
) -> Iterator[Need]:
    chosen = {selector: selector.resolve(resources).resources for selector in registry.selectors}
    for kind in sorted(resources, key=lambda one: (one.group, one.plural, one.version)):
        selectors = {selector for selector, kinds in chosen.items() if kind in kinds}
        handlers = registry.get_resource_handlers(kind, selectors.__contains__)
        if handlers and find_obstacle(kind, handlers) is None:
            yield from _list_handled(kind, handlers)
            if settings.sharding.ring is not None:
                yield from _need(kind, ["patch"], "Objects are given back to the sharder")
        yield from _list_reconciled(kind, selectors, registry, settings)
        if kind.group in PEERING_GROUPS and _is_peering(kind, settings):
            yield from _need(kind, [*WATCHING, "patch"], "Other operators are seen, and see this")


def _list_handled(kind: Resource, handlers: ResourceHandlers) -> Iterator[Need]:
    writing = (*handlers.reconciling, *handlers.changing, *handlers.spawning)
    every = (*writing, *handlers.watching, *handlers.indexing)
    for right in list_rights(kind, handlers):
        for handler in every if right.verb in WATCHING else writing:
            yield Need(kind, right, str(handler))


def _list_reconciled(
    kind: Resource,
    selectors: Collection[Selector],
    registry: OperatorRegistry,
    settings: OperatorSettings,
) -> Iterator[Need]:
    reading = ["get"] if settings.watching.referenced_only else []
    for reconciler in registry.reconcilers:
        if any(selector in selectors for selector in reconciler.owns):
            pruning = ["delete"] if reconciler.prune else []
            yield from _need(kind, [*WATCHING, *KEEPING, *pruning], f"{reconciler} owns them")
        if any(selector in selectors for selector in reconciler.related):
            yield from _need(kind, [*WATCHING, *reading], f"{reconciler} depends on them")


def _need(kind: Resource, verbs: Collection[str], purpose: str) -> Iterator[Need]:
    yield from (Need(kind, Right(kind.group, kind.plural, verb), purpose) for verb in verbs)


def _is_peering(kind: Resource, settings: OperatorSettings) -> bool:
    plural = "clusterkopfpeerings" if settings.peering.clusterwide else "kopfpeerings"
    return kind.plural == plural and not settings.peering.standalone


def _list_leasing(settings: LeasingSettings) -> Iterator[Right]:
    name = settings.name or ""
    for verb, its_name in (("get", name), ("update", name), ("create", "")):
        yield Right(LEASES.group, LEASES.plural, verb, its_name)


def _list_observed(options: OperatorOptions) -> Iterator[tuple[Right, str]]:
    """The rights for resources that are watched or maintained for the whole cluster."""
    settings = options.settings
    kinds = [] if settings.scanning.disabled else [(CRDS, "New and changed kinds are noticed")]
    if not (options.is_clusterwide or options.is_exact) and kinds:
        kinds.append((NAMESPACES, "New namespaces are noticed"))
    for kind, purpose in kinds:
        for verb in WATCHING:
            yield Right(kind.group, kind.plural, verb), purpose
    if settings.admission.managed is not None:
        if options.registry.conversions:
            for verb in ("get", "patch"):
                right = Right(CRDS.group, CRDS.plural, verb)
                yield right, "The webhook of conversions is kept in the definitions"
        for kind in (VALIDATING_WEBHOOK, MUTATING_WEBHOOK):  # undeclared ones are removed
            for verb in (*WATCHING, *KEEPING):
                right = Right(kind.group, kind.plural, verb)
                yield right, "The configurations of webhooks are kept"
