"""Applying of one wanted object: is it there already, exactly so? If not, make it so."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.clients.errors import APIConflictError
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.structs.bodies import Body, RawBody
from kopf_cogs.structs.managedfields import find_drift
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.errors import TemporaryError
from kopf_core.actions.loggers import AnyLogger
from kopf_core.engines.desired.children import Source
from kopf_core.engines.desired.driving import PassInterrupted
from kopf_core.engines.desired.ownership import (
    Badges,
    get_identity,
    is_in_reach,
    is_leaving,
    show,
)

FIGHTS_LIMIT = 5
"""How many times in a row others can change an object back before it is called a fight."""

FIGHT_DELAY = 60.0
"""How rarely (in seconds) to make passes when an object is fought for; and how long to remember."""


class UndeclaredKindError(Exception):
    """A reconciler wants an object of a kind that is not among its ``owns=``."""

    expected = True


class FinalizerNeededError(PassInterrupted):
    """The owner must be held by a finalizer first: the child is out of garbage collection."""


@dataclass(slots=True)
class Applier:
    """Applies what one reconciler wants for one object."""

    api: ObjectsAPI
    sources: Mapping[Resource, Source]
    badges: Badges
    owner: Body
    reconciler: str
    logger: AnyLogger
    fights: "Fights"
    force: bool = True
    is_held: bool = False
    """Whether the owner has our finalizer."""

    is_far: bool = False
    """Whether anything was applied out of reach of garbage collection."""

    wanted: set[Any] = field(default_factory=set)
    """What was wanted so far in this pass."""

    async def apply(self, body: Mapping[str, Any]) -> RawBody:
        """Make the object be as wanted, and get it as it is in the cluster.

        Raises :class:`UndeclaredKindError`, and the errors of the API if it refuses.
        """
        resource = await self.api.kinds.resolve_body(body)
        source = self._find_source(resource, body)
        child = self.badges.put_on(
            {"apiVersion": resource.api_version, "kind": resource.kind, **body},
            self.owner,
            namespaced=bool(resource.namespaced),
            reconciler=self.reconciler,
        )
        metadata = child["metadata"]
        namespace = metadata.get("namespace") if resource.namespaced else None
        if not is_in_reach(self.owner, namespace):
            if not self.is_held:
                raise FinalizerNeededError()
            self.is_far = True
        identity = get_identity(resource.kind, child)
        self.wanted.add(identity)
        live = source.find(namespace, metadata.get("name") or "")
        if live is not None and is_leaving(live):
            return live  # nothing can hold it; when it is gone, there will be another pass
        drift = () if live is None else find_drift(child, live, manager=self.api.manager)
        if drift is None and live is not None:
            return live
        self._check_fight(identity, child, live, ".".join(drift or ()))
        stored = await self._send(resource, child)
        source.put(stored)
        self.logger.info(f"Applied {show(stored)}" + (f": {'.'.join(drift)}." if drift else "."))
        return stored

    def _find_source(self, resource: Resource, body: Mapping[str, Any]) -> Source:
        for known, source in self.sources.items():
            if (known.group, known.plural) == (resource.group, resource.plural):
                return source
        raise UndeclaredKindError(
            f"{show(body)} is wanted, but its kind is not declared: add {resource.name!r} to owns=."
        )

    async def _send(self, resource: Resource, child: Mapping[str, Any]) -> RawBody:
        try:
            return await self.api.apply(child, kind=resource, force=self.force)
        except APIConflictError as e:
            if self.force:
                raise
            causes = [f"{cause.get('field')}: {cause.get('message')}" for cause in e.causes]
            raise TemporaryError(
                f"{show(child)} is also managed by others: {'; '.join(causes) or e}"
            ) from e

    def _check_fight(
        self, identity: Any, child: Mapping[str, Any], live: RawBody | None, drift: str
    ) -> None:
        """See if somebody else changes the object back every time."""
        if live is None or not drift or not self.badges.is_same_wish(child, live):
            self.fights.forget(identity)  # it is our own wish that has changed
        elif self.fights.count(identity):
            self.logger.warning(
                f"{show(child)} is changed back by others all the time: its field {drift!r} "
                f"({_name_managers(live, self.api.manager)}). It will be applied less often."
            )


class Fights:
    """How many times in a row the objects were changed back by others."""

    __slots__ = ("_clock", "_counts")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[Any, tuple[int, float]] = {}

    def count(self, identity: Any) -> bool:
        """Count one more time; get whether it is a fight since now."""
        now = self._clock.monotonic()
        count, latest = self._counts.get(identity, (0, now))
        count = count + 1 if now - latest <= 2 * FIGHT_DELAY else 1
        self._counts[identity] = count, now
        return count == FIGHTS_LIMIT

    def forget(self, identity: Any) -> None:
        self._counts.pop(identity, None)

    @property
    def is_on(self) -> bool:
        """Whether any of the objects is fought for now."""
        now = self._clock.monotonic()
        return any(
            count >= FIGHTS_LIMIT and now - latest <= FIGHT_DELAY
            for count, latest in self._counts.values()
        )


def _name_managers(live: RawBody, ours: str) -> str:
    metadata: Mapping[str, Any] = live["metadata"]
    entries = metadata.get("managedFields") or ()
    names = {str(entry.get("manager")) for entry in entries} - {ours}
    return "managers: " + ", ".join(sorted(names)) if names else "the managers are unknown"
