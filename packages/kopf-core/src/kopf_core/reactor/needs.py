"""Needs: all the rights that an operator needs for what is declared in it. And what is missing."""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping

from kopf_cogs.clients.rights import Right, find_ungranted, format_role
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.namespaces import select_specific_namespaces
from kopf_cogs.structs.resources import CRDS, EVENTS, LEASES, NAMESPACES, Resource
from kopf_core.engines.peering.places import GROUPS as PEERING_GROUPS
from kopf_core.intents.admission import WebhookHandler
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.essentials import Essentials, OperatorOptions
from kopf_core.reactor.refusals import list_rights

logger = logging.getLogger("kopf.reactor.rights")

WATCHING = ("list", "watch")
KEEPING = ("create", "patch")
MAX_NAMESPACES = 10
"""In how many of the namespaces the rights are reviewed: usually, these are the same in all."""

Needs = Mapping[str | None, Collection[Right]]
"""The rights by namespaces; ``None`` stands for the cluster scope, and for all namespaces."""


async def review_rights(essentials: Essentials) -> None:
    """Once, when all kinds are known, tell of all the missing rights in one line. Never ends."""
    await essentials.insights.known.wait()
    insights = essentials.insights
    needs = list_needs(essentials.options, insights.resources, insights.namespaces)
    client = essentials.free_client
    found = await asyncio.gather(
        *(find_ungranted(client, rights, namespace) for namespace, rights in needs.items())
    )
    missing = {place: rights for place, rights in zip(needs, found, strict=True) if rights}
    if missing:
        name = essentials.settings.name or "operator"
        roles = " --- ".join(
            format_role(name, namespace, rights) for namespace, rights in missing.items()
        )
        logger.warning(f"The operator lacks rights for what is declared in it. Add them: {roles}")
    await asyncio.Event().wait()


def list_needs(
    options: OperatorOptions,
    resources: Collection[Resource],
    namespaces: Collection[str | None],
) -> Needs:
    """Everything that is needed, whether it is granted or not."""
    places = sorted(namespace for namespace in namespaces if namespace is not None)
    scopes = [None] if None in namespaces else places[:MAX_NAMESPACES]
    needs: dict[str | None, dict[Right, None]] = {}
    for resource, right in _list_rights(options.registry, options.settings, resources):
        for scope in scopes if resource.namespaced else [None]:
            needs.setdefault(scope, {})[right] = None
    for right in _list_observed(options):
        needs.setdefault(None, {})[right] = None
    leasing = options.settings.leasing
    if leasing.name is not None and leasing.namespace is not None:
        for verb in ("get", "create", "update"):
            right = Right(LEASES.group, LEASES.plural, verb)
            needs.setdefault(leasing.namespace, {})[right] = None
    return needs


def _list_rights(
    registry: OperatorRegistry, settings: OperatorSettings, resources: Collection[Resource]
) -> Iterator[tuple[Resource, Right]]:
    for resource in sorted(resources, key=lambda one: (one.group, one.plural)):
        handlers = registry.get_resource_handlers(resource)
        verbs: list[str] = []
        if handlers:
            yield from ((resource, right) for right in list_rights(resource, handlers))
        for reconciler in registry.reconcilers:
            is_owned = any(selector.check(resource) for selector in reconciler.owns)
            is_related = any(selector.check(resource) for selector in reconciler.related)
            verbs += WATCHING if is_owned or is_related else ()
            verbs += KEEPING if is_owned else ()
            verbs += ["delete"] if is_owned and reconciler.prune else []
        if resource.group in PEERING_GROUPS and _is_peering(resource, settings):
            verbs += [*WATCHING, "patch"]
        yield from ((resource, Right(resource.group, resource.plural, verb)) for verb in verbs)
    if settings.posting.enabled:
        yield from ((EVENTS, Right(EVENTS.group, EVENTS.plural, verb)) for verb in KEEPING)


def _is_peering(resource: Resource, settings: OperatorSettings) -> bool:
    plural = "clusterkopfpeerings" if settings.peering.clusterwide else "kopfpeerings"
    return resource.plural == plural and not settings.peering.standalone


def _list_observed(options: OperatorOptions) -> Iterator[Right]:
    """What is looked at, or kept, for the whole cluster."""
    settings, patterns = options.settings, options.namespaces
    kinds = [] if settings.scanning.disabled else [CRDS]
    if len({*select_specific_namespaces(patterns)}) < len({*patterns}) and kinds:
        kinds.append(NAMESPACES)
    yield from (Right(kind.group, kind.plural, verb) for kind in kinds for verb in WATCHING)
    if settings.admission.managed is not None:
        hooks = [h for h in options.registry.resource_handlers if isinstance(h, WebhookHandler)]
        for type in sorted({str(hook.type) for hook in hooks}):
            for verb in (*WATCHING, *KEEPING):
                yield Right("admissionregistration.k8s.io", f"{type}webhookconfigurations", verb)
