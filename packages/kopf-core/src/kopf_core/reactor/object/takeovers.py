"""Takeovers: a new leader requests objects before it handles them for the first time.

The stream of a follower can be late: it may not have brought the latest patches of the previous
leader. By the known state, such an object would be handled once more. So when an object needs
handling for the first time under a lease, its current state is requested before that. Objects that
need no handling, usually most of them, cost no requests, unless they have daemons or timers: these
begin after that request, too. If many objects are requested, they are listed once, and the first
ones do not wait for the rest. The wait for each reply is limited, so that an unreachable object
does not hold up the others.

No other replica can handle the object during the lease, so it is requested only once. States newer
than the first patch of the new leader are not requested at all: they are surely not late.
"""

import asyncio
import contextlib
import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from kopf_cogs.clients.errors import (
    APIConnectionError,
    APIError,
    APIForbiddenError,
    APINotFoundError,
    APIResponseError,
)
from kopf_cogs.clients.listing import Page, collect_selectors, list_objects
from kopf_cogs.clients.quarantine import is_sane
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.finalizers import is_deletion_blocked
from kopf_cogs.structs.keys import ObjectKey, object_key
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.versions import is_as_new, is_newer, parse_version
from kopf_core.engines.records.writes import AwaitChange
from kopf_core.intents.causes import ChangingCause, Reason
from kopf_core.intents.matching import may_be_interested
from kopf_core.intents.registries import ResourceHandlers
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.streams.work import DONE, Requeue, TurnResult

MANY = 50
"""How many objects are requested one by one. If there are more, they are listed."""

DOUBTS = (1.0, 60.0)
"""The first and the longest delay (in seconds) before a missing object is requested again.

An object is missing if the API does not know it, but the stream has not brought its deletion. Each
delay is twice as long as the previous one.
"""

PATIENCE = 0.5
"""How long to wait for a reply, as a share of the time in which the leader can act."""

T = TypeVar("T")
Detect = Callable[[Turn], ChangingCause]


class _Sight(enum.Enum):
    """The results of the request."""

    THERE = enum.auto()
    MISSING = enum.auto()
    """The API does not know it. Either its deletion is on its way, or the reply is wrong."""

    REPLACED = enum.auto()
    """There is another object with that name, so this one surely does not exist."""


@dataclass(slots=True)
class _NamespaceReads:
    """The requests for the objects of one stream: of one namespace, or of all namespaces."""

    namespace: str | None
    requested: int = 0
    newest: int = 0
    """The newest known version: older objects in the list have most likely come in the stream."""

    listed: dict[ObjectKey, RawBody | int] | None = None
    """The listed objects (or only their versions, if not newer); ``None`` before the list."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether the first request is answered: the list waits for it, so as not to slow it down."""


class Takeovers:
    """Requests the current states of objects before they are handled under a new lease."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        handlers: ResourceHandlers,
        settings: OperatorSettings,
        *,
        is_clusterwide: bool,
    ) -> None:
        self._client = client
        self._reader = client.without_limits()  # hanging requests must not hold up other objects
        self._resource = resource
        self._handlers = handlers
        self._settings = settings
        self._is_clusterwide = is_clusterwide
        self._term = 0
        self._written: str | None = None
        self._reads: dict[str | None, _NamespaceReads] = {}
        self._missing: dict[ObjectKey, int] = {}
        """How many times each object was missing."""

    async def verify(self, turn: Turn, detect: Detect) -> TurnResult | None:
        """Request the object, if it needs handling and its state can be older than the leadership.

        Return what to wait for, if the object is missing; ``None`` if the turn can go on.
        """
        self._follow_terms()
        turn.term = self._term
        sight = await self._prepare(turn, detect)
        if sight is _Sight.REPLACED:
            if turn.item.latest is not None:
                turn.memory.lose(turn.item.latest)
            return DONE
        return self._doubt(turn.item.key) if sight is _Sight.MISSING else None

    def is_late(self, turn: Turn) -> bool:
        """Whether the known state can be older than this leadership, and is not verified yet."""
        self._follow_terms()
        known = turn.item.latest
        return turn.term is None and known is not None and not self._is_current(turn, known)

    def notice(self, turn: Turn, result: TurnResult) -> None:
        """Remember the version after the first patch of this leader: newer states are not late."""
        if self._written is None and self._term == turn.term and isinstance(result, AwaitChange):
            self._written = result.version

    def _doubt(self, key: ObjectKey) -> TurnResult:
        """Request the missing object again later, or at its next event, unless that is its
        deletion.
        """
        first, longest = DOUBTS
        count = self._missing[key] = self._missing.get(key, -1) + 1
        delay = min(longest, first * 2 ** min(count, 30))
        return Requeue(at=self._client.clock.monotonic() + delay)

    async def _prepare(self, turn: Turn, detect: Detect) -> _Sight:
        """Make the state current if the object needs handling; return what was found."""
        known = turn.item.latest
        if known is None or self._is_current(turn, known) or not self._is_pending(detect(turn)):
            return _Sight.THERE
        return await self._look(turn, known)

    def _follow_terms(self) -> None:
        term = 0 if self._client.fence is None else self._client.fence.term
        if term != self._term:
            self._term, self._written = term, None
            self._reads.clear()
            self._missing.clear()

    def _is_current(self, turn: Turn, body: RawBody) -> bool:
        """Whether this state surely has all patches of the previous leader."""
        if turn.memory.write.floor is not None:
            return True
        return self._written is not None and is_as_new(body, self._written)

    def _is_pending(self, cause: ChangingCause) -> bool:
        """Whether anything will be called or sent for the object in this state."""
        handlers, persistence = self._handlers, self._settings.persistence
        if cause.reason in (Reason.GONE, Reason.FREE):
            return False
        if cause.reason is Reason.DELETE or handlers.reconciling:
            return True
        is_blocked = is_deletion_blocked(cause.body, persistence.finalizer)
        if is_blocked is not handlers.requires_finalizer(cause):
            return True
        if any(may_be_interested(handler, cause) for handler in handlers.spawning):
            return True
        if not handlers.is_interested(cause):
            return False
        if cause.reason in (Reason.CREATE, Reason.UPDATE):
            return True
        storage = persistence.progress_storage
        return any(storage.fetch(key=h.id, body=cause.body) for h in handlers.changing) or (
            cause.reason is Reason.RESUME and bool(handlers.select_changing(cause))
        )

    async def _look(self, turn: Turn, known: RawBody) -> _Sight:
        """Make the state current; return what was found. Raises :class:`APIError`."""
        reads, key = self._get_reads(known), turn.item.key
        reads.requested += 1
        reads.newest = max(reads.newest, parse_version(known) or 0)
        body = await self._find_listed(reads, key, known)
        if body is None:
            try:
                namespace = known["metadata"].get("namespace")
                body = await self._bound(namespace, lambda: self._get(known))
            finally:
                reads.answered.set()
        if body is None:
            return _Sight.MISSING
        if object_key(self._resource, body) != key:
            return _Sight.REPLACED
        self._missing.pop(key, None)
        turn.memory.write = turn.memory.write.looked_up(body)
        if body is not known and not is_newer(known, body):
            turn.item.latest, turn.item.type = self._handlers.form.apply(body), "MODIFIED"
        return _Sight.THERE

    async def _bound(self, namespace: str | None, read: Callable[[], Awaitable[T]]) -> T:
        """Wait for the reply, its retries included. Raises :class:`APIError` if it takes too long.

        Some time must be left to act before the next renewal of the lease. The wait for the budget
        of requests does not count, because it comes before the request.
        """
        await self._client.afford(self._resource.get_url(namespace=namespace))
        timeout = self._settings.leasing.renew_deadline * PATIENCE
        try:
            async with asyncio.timeout(timeout):
                return await read()
        except TimeoutError:
            text = f"it was not possible to look at the object in {timeout:g} seconds"
            raise APIConnectionError(text) from None

    async def _get(self, known: RawBody) -> RawBody | None:
        meta = known["metadata"]
        url = self._resource.get_url(namespace=meta.get("namespace"), name=meta["name"])
        try:
            body: RawBody = await self._reader.get(url)
        except APINotFoundError:
            return None
        except APIForbiddenError:
            return await self._find(meta.get("namespace"), meta["name"])
        if not is_sane(body):
            raise APIResponseError("the reply is not the object")
        return body

    async def _find(self, namespace: str | None, name: str) -> RawBody | None:
        """Find the object in a list: this needs only the right to list, which every watcher has."""
        params = {"fieldSelector": f"metadata.name={name}"}
        pages = list_objects(self._reader, self._resource, namespace, params=params)
        found: list[RawBody] = [body async for page in pages for body in page.items]
        return found[0] if found else None

    async def _find_listed(
        self, reads: _NamespaceReads, key: ObjectKey, known: RawBody
    ) -> RawBody | None:
        """The state of the object in the list; ``None`` if it is not in the list, or nothing is
        listed.

        The first objects do not wait for the list. Objects that are not in the list are requested.
        """
        if reads.requested <= MANY:
            return None
        async with reads.lock:
            if reads.listed is None:
                await reads.answered.wait()
                reads.listed = await self._list(reads)
        found = reads.listed.pop(key, None)
        if isinstance(found, int):
            return known if is_as_new(known, str(found)) else None
        return found

    def _get_reads(self, known: RawBody) -> _NamespaceReads:
        namespace = None if self._is_clusterwide else known["metadata"].get("namespace")
        return self._reads.setdefault(namespace, _NamespaceReads(namespace))

    async def _list(self, reads: _NamespaceReads) -> dict[ObjectKey, RawBody | int]:
        """List the objects. If that fails or takes too long, the unlisted objects are requested."""
        watching, listed = self._settings.watching, dict[ObjectKey, RawBody | int]()
        pages = list_objects(
            self._reader,
            self._resource,
            reads.namespace,
            chunk_size=watching.chunk_size,
            params=collect_selectors(watching, self._resource),
        )

        def turn_page() -> Awaitable[Page | None]:
            return anext(pages, None)

        with contextlib.suppress(APIError, TimeoutError):
            async with asyncio.timeout(self._settings.leasing.duration):
                while (page := await self._bound(reads.namespace, turn_page)) is not None:
                    for body in page.items:
                        version = parse_version(body)
                        if version is not None:
                            key = object_key(self._resource, body)
                            listed[key] = body if version > reads.newest else version
        return listed
