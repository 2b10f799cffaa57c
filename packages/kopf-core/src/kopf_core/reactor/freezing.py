"""Freezing: people take part in the peerings of operators, so that the operators pause."""

import logging
from collections.abc import Collection
from dataclasses import dataclass, field

from kopf_cogs.aiokits.clocks import Clock, SystemClock
from kopf_cogs.clients.discovery import scan
from kopf_cogs.clients.errors import APINotFoundError
from kopf_cogs.clients.listing import list_objects
from kopf_cogs.clients.session import Client
from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.namespaces import (
    NamespacePattern,
    match_namespace,
    select_specific_namespaces,
)
from kopf_cogs.structs.resources import NAMESPACES
from kopf_core.engines.peering import GROUPS, Peer, Place, make_record, select_resource, touch
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.errands import Access, run_errand

logger = logging.getLogger("kopf.peering")


class PeeringError(Exception):
    """There is no peering as requested, so there is nobody to be frozen or resumed."""

    expected = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Peerings:
    """Where the operators are to be frozen, and how to get there."""

    name: str
    settings: OperatorSettings
    registry: OperatorRegistry
    """Where the login handlers are, if there are any."""

    namespaces: Collection[NamespacePattern] = ()
    """Names or patterns. If there are none, the peering of the whole cluster is meant."""

    vault: Vault | None = None
    clock: Clock = field(default_factory=SystemClock)


async def freeze(peerings: Peerings, peer: Peer) -> Collection[Place]:
    """Take part as this peer; get where it is so. Raises :class:`PeeringError` if nowhere."""
    return await _write(peerings, peer.identity, make_record(peer))


async def resume(peerings: Peerings, identity: str) -> Collection[Place]:
    """Take part no more; get where it is so. Raises :class:`PeeringError` if nowhere."""
    return await _write(peerings, identity, None)


async def _write(peerings: Peerings, identity: str, record: object) -> Collection[Place]:
    access = Access(
        settings=peerings.settings,
        registry=peerings.registry,
        vault=peerings.vault,
        clock=peerings.clock,
    )
    return await run_errand(
        access, lambda client: _write_everywhere(client, peerings, identity, record)
    )


async def _write_everywhere(
    client: Client, peerings: Peerings, identity: str, record: object
) -> Collection[Place]:
    found = await scan(client, groups=GROUPS)
    is_clusterwide = not peerings.namespaces
    resource = select_resource(found.resources, clusterwide=is_clusterwide)
    if resource is None:
        kind = "ClusterKopfPeering" if is_clusterwide else "KopfPeering"
        raise PeeringError(f"There is no {kind} in the cluster: create its definition.")
    namespaces = [None] if is_clusterwide else await _find_namespaces(client, peerings.namespaces)
    places = [Place(resource, namespace, peerings.name) for namespace in namespaces]
    touched = [place for place in places if await _write_once(client, place, identity, record)]
    if not touched:
        where = ", ".join(repr(namespace) for namespace in peerings.namespaces)
        raise PeeringError(
            f"There is no {resource.kind} named {peerings.name!r}{' in ' if where else ''}{where}."
        )
    return touched


async def _write_once(client: Client, place: Place, identity: str, record: object) -> bool:
    try:
        await touch(client, place, {identity: record})
    except APINotFoundError:
        logger.debug(f"There is no peering {place}.")
        return False
    return True


async def _find_namespaces(
    client: Client, patterns: Collection[NamespacePattern]
) -> Collection[str]:
    """Those named, with no requests for them; and those matching the patterns, if there are any."""
    names = {*select_specific_namespaces(patterns)}
    if not all(pattern in names for pattern in patterns):
        async for page in list_objects(client, NAMESPACES, None):
            found = [item["metadata"]["name"] for item in page.items]
            names |= {n for n in found if any(match_namespace(n, p) for p in patterns)}
    return sorted(names)
