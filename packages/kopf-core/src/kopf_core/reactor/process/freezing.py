"""Freezing: people take part in the peerings of operators, so that the operators pause."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.aiokits.surroundings import get_clock
from kopf_cogs.clients.discovery import scan
from kopf_cogs.clients.errors import APINotFoundError
from kopf_cogs.clients.listing import list_objects
from kopf_cogs.clients.rights import hint_at_role
from kopf_cogs.clients.session import Client
from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.namespaces import (
    NamespacePattern,
    match_namespace,
    select_specific_namespaces,
)
from kopf_cogs.structs.resources import NAMESPACES, Resource
from kopf_core.engines.peering.peering_objects import GROUPS, PeeringObject, select_resource, touch
from kopf_core.engines.peering.peers import Peer, make_record, parse_records
from kopf_core.engines.peering.roster import Roster
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.process.errands import Access, run_errand

logger = logging.getLogger("kopf._core.engines.peering")

DOCS = "https://nolar.github.io/kopf/peering.html#set-up"


class PeeringError(Exception):
    """There is no such peering, so there are no operators to be frozen or resumed."""

    expected = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Peerings:
    """The peerings of the operators to be frozen, and the means to reach them."""

    name: str
    settings: OperatorSettings
    registry: OperatorRegistry
    """The registry with the login handlers, if there are any."""

    namespaces: Collection[NamespacePattern] = ()
    """Names or patterns. Without any, it is the peering of the whole cluster."""

    vault: Vault | None = None
    clock: Clock = field(default_factory=get_clock)


@dataclass(frozen=True, slots=True)
class Gathering:
    """A peering object that was written to, and its other living members."""

    place: PeeringObject
    others: Collection[Peer]
    """The members that seem to be alive: operators, and other people."""


async def freeze(peerings: Peerings, peer: Peer) -> Collection[Gathering]:
    """Join the peerings as this peer; return them. Raises :class:`PeeringError` without any."""
    return await _write(peerings, peer.identity, make_record(peer))


async def resume(peerings: Peerings, identity: str) -> Collection[Gathering]:
    """Leave the peerings; return them. Raises :class:`PeeringError` without any."""
    return await _write(peerings, identity, None)


async def _write(peerings: Peerings, identity: str, record: object) -> Collection[Gathering]:
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
) -> Collection[Gathering]:
    resource = await _find_resource(client, is_clusterwide=not peerings.namespaces)
    namespaces: Collection[str | None] = [None]
    if peerings.namespaces:
        namespaces = await _find_namespaces(client, peerings.namespaces)
    places = [PeeringObject(resource, namespace, peerings.name) for namespace in namespaces]
    bodies = {place: await _write_once(client, place, identity, record) for place in places}
    if not any(bodies.values()):
        raise PeeringError(_describe_absence(peerings, resource))
    for place, body in bodies.items():
        if body is None and place.namespace in peerings.namespaces:
            logger.warning(f"There is no {resource.kind} named {place}; it is skipped.")
    return [
        Gathering(place, _find_others(body, identity, peerings.clock))
        for place, body in bodies.items()
        if body is not None
    ]


async def _find_resource(client: Client, *, is_clusterwide: bool) -> Resource:
    found = await scan(client, groups=GROUPS)
    resource = select_resource(found.resources, clusterwide=is_clusterwide)
    if resource is not None:
        return resource
    for error in found.broken_groups.values():
        raise PeeringError(f"The peerings cannot be found: {error}{hint_at_role(error)}")
    kind = "ClusterKopfPeering" if is_clusterwide else "KopfPeering"
    raise PeeringError(f"There is no {kind} in the cluster: create its definition, see {DOCS}")


def _describe_absence(peerings: Peerings, resource: Resource) -> str:
    """Say which peering is absent, and where else the operators can be."""
    text = f"There is no {resource.kind} named {peerings.name!r}"
    if not peerings.namespaces:
        return f"{text}. For operators that serve some namespaces (-n), name those: -n NAMESPACE."
    where = ", ".join(repr(namespace) for namespace in peerings.namespaces)
    return f"{text} in {where}. For operators that serve the whole cluster (-A), use -A."


def _find_others(body: RawBody, identity: str, clock: Clock) -> Collection[Peer]:
    """The other living members, by the times of their records: there is no time to watch them."""
    records = parse_records(cast("Mapping[str, Any]", body).get("status"))
    peers = {key: peer for key, peer in records.peers.items() if key != identity}
    roster = Roster()
    roster.see(peers, now=clock.monotonic(), today=clock.now())
    return roster.alive


async def _write_once(
    client: Client, place: PeeringObject, identity: str, record: object
) -> RawBody | None:
    try:
        return await touch(client, place, {identity: record})
    except APINotFoundError:
        return None


async def _find_namespaces(
    client: Client, patterns: Collection[NamespacePattern]
) -> Collection[str]:
    """The named namespaces, with no requests; and the matching ones, if there are patterns."""
    names = {*select_specific_namespaces(patterns)}
    if not all(pattern in names for pattern in patterns):
        async for page in list_objects(client, NAMESPACES, None):
            found = [item["metadata"]["name"] for item in page.items]
            names |= {n for n in found if any(match_namespace(n, p) for p in patterns)}
    return sorted(names)
