"""The roll: which members of the replicas are alive, as the coordinator knows them.

A member is alive while its Lease keeps changing, as observed here, by the local monotonic clock.
As with other leases, a member that cannot renew its Lease stops before it is found dead.
"""

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
from kopf_core.engines.leasing.lease_records import LeaseRecord, Observation

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

    @property
    def progress(self) -> tuple[int, bool]:
        """The confirmed round, and whether the Lease is released."""
        record = self.observation.record
        return self.confirmed, record is not None and not record.holder


class Roll:
    """Finds the living members and their rounds, with the settings of the coordinator."""

    def __init__(self, client: Client, settings: LeasingSettings, clock: Clock) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._members: dict[str, _Attendant] = {}

    async def call(self, named: Set[str]) -> Attendance:
        """Find the living members, and the rounds that they have confirmed.

        ``named`` has the members of the assignment, dead or alive.

        A member is dead if its Lease has not changed for long, as of the request: if this process
        is suspended meanwhile, the reply can be old. If a Lease is not there, people could
        have deleted it. Its member does not know that yet, and still works.

        If a change was noticed since the request, the reply can be older than that change.
        """
        began = self._clock.monotonic()
        url = LEASES.get_url(namespace=self._settings.namespace)
        selector = {"labelSelector": f"{MEMBERS}={self._settings.name}"}
        found, version = _parse(await self._client.get(url, params=selector, backoffs=()))
        found.pop(self._settings.name or "", None)  # it is the common Lease
        bodies = {self._get_member(name): body for name, body in found.items()}
        noticed = {name for name, one in self._members.items() if one.observation.since > began}
        for name in {*self._members, *bodies, *named} - noticed:
            self._observe(name, bodies.get(name))
        self.expect(named)
        living = {
            name: member.confirmed
            for name, member in self._members.items()
            if member.observation.is_held_by_other("", began)
        }
        return Attendance(living, self._members.keys() - living.keys(), version)

    def notice(self, lease: Mapping[str, Any], is_deleted: bool) -> bool:
        """Notice a change of the Lease of a member; return whether the known member does less now.

        Then its shards can be given to others sooner: it has ended its work in some, or in all.
        """
        name = self._get_member(lease["metadata"]["name"])
        known = self._members.get(name)
        before = None if known is None else known.progress
        self._observe(name, None if is_deleted else lease)
        return before is not None and before != self._members[name].progress

    def expect(self, named: Set[str]) -> None:
        """Since now, wait for the members of the assignment that have no Lease.

        People could have deleted their Leases. Other members without Leases are forgotten.
        """
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
        now = self._clock.monotonic()
        if name not in self._members:
            self._members[name] = _Attendant(Observation(duration=self._settings.duration))
        member = self._members[name]
        is_lost = body is None and member.version is not None
        member.version = None if body is None else body["metadata"].get("resourceVersion")
        if body is not None:
            member.observation.observe(LeaseRecord.parse(body), now)
            text = str((body["metadata"].get("annotations") or {}).get(CONFIRMED))
            member.confirmed = int(text) if re.fullmatch(r"[0-9]{1,18}", text) else 0
        elif is_lost or member.observation.record is None:
            # The member can have renewed the Lease after the latest look, and before the deletion.
            member.observation.observe(LeaseRecord(name), now)

    def _get_member(self, lease: str) -> str:
        return lease.removeprefix(f"{self._settings.name}-")

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


def _parse(reply: Any) -> tuple[dict[str, Mapping[str, Any]], str]:
    """The Leases by their names, and the version. Raises :class:`APIResponseError`."""
    try:
        leases = {str(body["metadata"]["name"]): body for body in reply["items"] or ()}
        return leases, str(reply["metadata"]["resourceVersion"])
    except (TypeError, KeyError):
        raise APIResponseError("the reply is not a list of leases") from None
