"""The roll: which members of the replicas are alive, as the coordinator knows them.

A member is alive while its Lease keeps changing, as observed here, by the local monotonic clock.
As with other leases, a member that cannot renew its Lease stops before it is found dead.
"""

import asyncio
import math
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.clients.errors import APIConflictError, APINotFoundError, APIResponseError
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import LeasingSettings
from kopf_cogs.structs.resources import LEASES
from kopf_cogs.structs.versions import parse_version
from kopf_core.engines.leasing.lease_records import LeaseRecord, Observation, as_mapping

MEMBERS = "kopf.dev/members-of"
"""The label of the common Lease, and of the Leases of members: the name that the replicas share."""

CONFIRMED = "kopf.dev/confirmed-round"
"""The annotation of the Lease of a member: the latest round that it has followed."""


class Attendance(NamedTuple):
    """The living and the dead members, as of one look."""

    living: Mapping[str, int]
    """The rounds that the living have confirmed."""

    dead: Set[str]

    version: str
    """The version of the list of their Leases."""

    def is_about(self, members: Set[str]) -> bool:
        """Whether the look is about all these members; some could have come after it."""
        return members <= self.living.keys() | self.dead


@dataclass(slots=True)
class _Attendant:
    observation: Observation
    confirmed: int = 0
    version: str | None = None
    """The resource version of the Lease; ``None`` if there is no Lease."""


class Roll:
    """Finds the living members and their rounds, with the settings of the coordinator."""

    def __init__(self, client: Client, settings: LeasingSettings, clock: Clock) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._members: dict[str, _Attendant] = {}
        self._named: Set[str] = frozenset()
        self._calling = asyncio.Lock()
        """It keeps replies in the order of requests: an old reply after a new one is no news."""

    async def call(self) -> Attendance:
        """Find the living members, and the rounds that they have confirmed.

        A member is dead if its Lease has not changed for long, as of the request: if this process
        is suspended meanwhile, the reply can be old. If a Lease is not there, people could
        have deleted it. Its member does not know that yet, and still works.
        """
        async with self._calling:
            return await self._call()

    async def _call(self) -> Attendance:
        began = self._clock.monotonic()
        url = LEASES.get_url(namespace=self._settings.namespace)
        selector = {"labelSelector": f"{MEMBERS}={self._settings.name}"}
        found, version = _parse_list(await self._client.get(url, params=selector, backoffs=()))
        bodies = {member: body for name, body in found.items() if (member := self._parse(name))}
        for member in {*self._members, *bodies}:
            self._observe(member, bodies.get(member))
        self.expect(self._named)
        living = {
            name: member.confirmed
            for name, member in self._members.items()
            if member.observation.is_held_by_other("", began)
        }
        return Attendance(living, self._members.keys() - living.keys(), version)

    def announce(self, lease: Mapping[str, Any]) -> bool:
        """Notice that a stream has brought this state of a Lease; return whether to look soon.

        The coordinator looks soon if the member seems to have ended its work in any shards.
        """
        name = self._parse(lease["metadata"]["name"])
        if name is None:
            return False
        member, record = self._find(name), LeaseRecord.parse(lease)
        now, version = self._clock.monotonic(), parse_version(lease) or 0
        if not member.observation.announce(record, now, version):
            return False
        member.version = member.version or f"{version}"
        known = member.observation.record
        has_ended = known is not None and bool(known.holder) and not record.holder
        return has_ended or (known is not None and _parse_confirmed(lease) > member.confirmed)

    def expect(self, named: Set[str]) -> None:
        """Since now, wait for these members of the assignment, even if they have no Leases.

        People could have deleted their Leases. Other members without Leases are forgotten.
        """
        self._named = named
        for name in named - self._members.keys():
            self._observe(name, None)
        for name in [*self._members.keys() - named]:
            if self._members[name].version is None:
                del self._members[name]

    def get_left(self, names: Iterable[str]) -> float:
        """After how many seconds some of these members is dead if nothing changes."""
        now = self._clock.monotonic()
        members = (self._members[name] for name in names if name in self._members)
        return min((one.observation.get_left("", now) for one in members), default=math.inf)

    def _observe(self, name: str, body: Mapping[str, Any] | None) -> None:
        member, now = self._find(name), self._clock.monotonic()
        is_lost = body is None and member.version is not None
        member.version = None if body is None else body["metadata"].get("resourceVersion")
        if body is not None:
            record, version = LeaseRecord.parse(body), parse_version(body) or 0
            member.observation.observe(record, now, version)
            member.confirmed = _parse_confirmed(body)
        elif is_lost or member.observation.record is None:
            # The member can have renewed the Lease after the latest look, and before the deletion.
            member.observation.observe(LeaseRecord(name), now)

    def _find(self, name: str) -> _Attendant:
        if name not in self._members:
            self._members[name] = _Attendant(Observation(duration=self._settings.duration))
        return self._members[name]

    def _parse(self, lease: str) -> str | None:
        """The member of this Lease; ``None`` if it is the common Lease, or is not ours."""
        prefix = f"{self._settings.name}-"
        return lease.removeprefix(prefix) if lease.startswith(prefix) else None

    async def bury(self, members: Set[str]) -> None:
        """Delete the Leases of these members, unless they have changed since the look."""
        versions = {name: one.version for name, one in self._members.items() if name in members}
        for name, version in versions.items():
            if version is not None:
                await self._delete(f"{self._settings.name}-{name}", version)

    async def _delete(self, name: str, version: str) -> None:
        url = LEASES.get_url(namespace=self._settings.namespace, name=name)
        payload = {"preconditions": {"resourceVersion": version}}
        try:
            await self._client.request("DELETE", url, payload=payload, backoffs=())
        except (APINotFoundError, APIConflictError):
            pass


def _parse_list(reply: Any) -> tuple[dict[str, Mapping[str, Any]], str]:
    """The Leases by their names, and the version. Raises :class:`APIResponseError`."""
    try:
        leases = {str(body["metadata"]["name"]): body for body in reply["items"] or ()}
        return leases, str(reply["metadata"]["resourceVersion"])
    except (TypeError, KeyError):
        raise APIResponseError("the reply is not a list of leases") from None


def _parse_confirmed(lease: Mapping[str, Any]) -> int:
    text = str(as_mapping(lease["metadata"].get("annotations")).get(CONFIRMED))
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else 0
