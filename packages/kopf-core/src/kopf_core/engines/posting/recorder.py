"""The recorder of events: posts them in the background, in order for each object."""

import asyncio
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from kopf_cogs.clients.errors import APIError, APIForbiddenError
from kopf_cogs.clients.events import aggregate_event, post_event
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import ObjectReference

logger = logging.getLogger("kopf._core.engines.posting")

MAX_PENDING = 10_000
"""How many events can wait before new ones are dropped."""

MAX_WORKERS = 16
"""How many events are posted at once by default: a hanging API must not take all connections."""

MAX_REMEMBERED = 4_096
"""How many recent events are remembered in order to be aggregated."""

AGGREGATION_WINDOW = 600.0
"""For how long (in seconds) a repeated event is counted into the previous one."""


class _Event(NamedTuple):
    ref: ObjectReference
    type: str
    reason: str
    message: str
    backoffs: float | Iterable[float]

    @property
    def identity(self) -> tuple[Any, ...]:
        return (*self.object_identity, self.type, self.reason, self.message)

    @property
    def object_identity(self) -> tuple[Any, ...]:
        ref = self.ref
        return (ref.get("uid"), ref.get("kind"), ref.get("namespace"), ref.get("name"))


@dataclass(slots=True)
class _Posted:
    """An event in the cluster that is counted up when it is repeated."""

    name: str
    namespace: str
    count: int
    since: float


class EventRecorder:
    """Posts the events of one operator. Can be used from any thread.

    Only objects with events to be posted have tasks, at most ``settings.posting.worker_limit`` of
    them at a time (16 by default).
    """

    def __init__(self, client: Client, settings: OperatorSettings) -> None:
        self._client = client
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._queues: dict[Any, deque[_Event]] = {}
        self._waiting: deque[Any] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._recent: OrderedDict[Any, _Posted] = OrderedDict()
        self._pending = 0
        self._refusals: dict[str | None, str] = {}
        self._aggregates = True
        self._closed = False
        self.dropped = 0
        """The number of events that were dropped since the start of the operator."""

        self.posted = 0
        """The number of events that were posted since then, including repeated ones."""

    def record(
        self,
        ref: ObjectReference,
        *,
        type: str,
        reason: str,
        message: str,
        backoffs: float | Iterable[float] | None = None,
    ) -> None:
        """Take an event to be posted soon. Returns at once."""
        if not self._settings.posting.enabled or _is_event(ref) or self._closed:
            return
        if backoffs is None:
            backoffs = self._settings.posting.default_backoffs
        event = _Event(ref, type, reason, message, backoffs)
        if threading.get_ident() == self._thread:
            self._put(event)
        else:
            try:
                self._loop.call_soon_threadsafe(self._put, event)
            except RuntimeError:
                self.dropped += 1  # the loop is closed, the operator has exited

    @property
    def is_busy(self) -> bool:
        """Whether there are events to be posted."""
        return bool(self._queues)

    async def close(self, timeout: float) -> None:
        """Post the remaining events within the time, and drop the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._pending:
            logger.warning(f"{self._pending} events are not posted: the operator is exiting.")

    def _put(self, event: _Event) -> None:
        if self._pending >= MAX_PENDING:
            self.dropped += 1
            if self.dropped == 1 or self.dropped % 1000 == 0:
                logger.warning(
                    f"The events API is too slow: {self.dropped} events are dropped so far."
                )
            return
        self._pending += 1
        key = event.object_identity
        queue = self._queues.get(key)
        if queue is not None:
            queue.append(event)
            return
        self._queues[key] = deque([event])
        limit = self._settings.posting.worker_limit or MAX_WORKERS
        if len(self._tasks) >= limit:
            self._waiting.append(key)
        else:
            self._spawn(key)

    def _spawn(self, key: Any) -> None:
        task = asyncio.create_task(self._work(key), name=f"kopf-events-{key}")
        self._tasks.add(task)

    async def _work(self, key: Any) -> None:
        try:
            await self._post_all(key)
            while self._waiting:
                await self._post_all(self._waiting.popleft())
        finally:  # at once: the next event must not wait for a worker that has ended
            self._tasks.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _post_all(self, key: Any) -> None:
        queue = self._queues[key]
        while queue:
            await self._post(queue[0])
            queue.popleft()
            self._pending -= 1
        del self._queues[key]

    async def _post(self, event: _Event) -> None:
        try:
            if not await self._count_up(event):
                await self._create(event)
            self.posted += 1
            if self._refusals:
                self._refusals.pop(event.ref.get("namespace"), None)
        except APIError as e:
            self.dropped += 1
            logger.log(
                logging.WARNING if self._is_news(event, e) else logging.DEBUG,
                f"Failed to post an event. Ignoring and continuing. "
                f"Object: {_describe(event.ref)}. Error: {e}. "
                f"Event: {event.type} {event.reason}: {event.message[:256]}",
            )
        except Exception as e:
            self.dropped += 1
            logger.error(f"Failed to post an event: {type(e).__name__}: {e}")

    def _is_news(self, event: _Event, exc: APIError) -> bool:
        """Whether the error is news: if events are forbidden in a place, they all are."""
        if not isinstance(exc, APIForbiddenError):
            return True
        namespace = event.ref.get("namespace")
        is_same = self._refusals.get(namespace) == str(exc)
        self._refusals[namespace] = str(exc)
        return not is_same

    async def _create(self, event: _Event) -> None:
        created = await post_event(
            self._client,
            ref=event.ref,
            type=event.type,
            reason=event.reason,
            message=event.message,
            backoffs=event.backoffs,
        )
        meta: Mapping[str, Any] = (created or {}).get("metadata") or {}
        if self._aggregates and meta.get("name"):
            self._recent[event.identity] = _Posted(
                meta["name"], meta.get("namespace") or "", 1, self._loop.time()
            )
            if len(self._recent) > MAX_REMEMBERED:
                self._recent.popitem(last=False)

    async def _count_up(self, event: _Event) -> bool:
        """Count the event into the previous one, if it repeats that one; return whether it does."""
        posted = self._recent.get(event.identity)
        if posted is None:
            return False
        if not self._aggregates or self._loop.time() - posted.since > AGGREGATION_WINDOW:
            del self._recent[event.identity]
            return False
        try:
            await aggregate_event(
                self._client, namespace=posted.namespace, name=posted.name, count=posted.count + 1
            )
        except APIForbiddenError:
            logger.debug("No permission to patch events: repeated events are posted as new ones.")
            self._aggregates = False
            self._recent.clear()
            return False
        except APIError:
            del self._recent[event.identity]  # expired or gone: start a new series
            return False
        posted.count += 1
        return True


def _is_event(ref: ObjectReference) -> bool:
    """Whether the object is an event itself: events about events would be a chain reaction."""
    return ref.get("kind") == "Event" and ref.get("apiVersion") in ("v1", "events.k8s.io/v1")


def _describe(ref: ObjectReference) -> str:
    name = "/".join(filter(None, (ref.get("namespace"), ref.get("name"))))
    return f"{ref.get('kind')} {name}"
