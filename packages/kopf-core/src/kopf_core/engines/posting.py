"""Kubernetes events: what has happened to objects, told to those who look at these objects.

Events are a courtesy. They are posted in the background, in order for each object,
and never hold or fail the handlers: what cannot be posted in time is dropped and counted.
"""
import asyncio
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kopf_cogs.clients.errors import APIError, APIForbiddenError
from kopf_cogs.clients.events import aggregate_event, post_event
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import ObjectReference, build_object_reference
from kopf_core.actions.context import Recorder, operator_var
from kopf_core.actions.loggers import objects_logger

logger = logging.getLogger('kopf.events')

MAX_PENDING = 10_000
"""How many events may wait before the new ones are dropped."""

MAX_WORKERS = 16
"""How many events are posted at once by default: a hanging API must not take all connections."""

MAX_REMEMBERED = 4_096
"""How many of the recent events are remembered in order to be aggregated."""

AGGREGATION_WINDOW = 600.0
"""For how long (in seconds) a repeated event is counted into the previous one."""

TYPES_BY_LEVEL = (
    (logging.DEBUG, 'Debug'), (logging.INFO, 'Normal'), (logging.WARNING, 'Warning'),
    (logging.ERROR, 'Error'),
)


@dataclass(frozen=True, slots=True)
class _Event:
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
        return (ref.get('uid'), ref.get('kind'), ref.get('namespace'), ref.get('name'))


@dataclass(slots=True)
class _Posted:
    """An event that exists in the cluster and can be counted up when it is repeated."""

    name: str
    namespace: str
    count: int
    since: float


class EventRecorder:
    """Posts the events of one operator. Can be used from any thread.

    A task exists only for the objects that have events to be posted, at most
    ``settings.posting.worker_limit`` of them at a time (16 by default).
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
        self._aggregates = True
        self._closed = False
        self.dropped = 0
        """How many events were not posted since the operator's start."""

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

    async def close(self, timeout: float) -> None:
        """Post what is left within the time, and drop the rest."""
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
                    f"The events API is too slow: {self.dropped} events are dropped so far.")
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
        task = asyncio.create_task(self._work(key), name=f'kopf-events-{key}')
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, key: Any) -> None:
        while True:
            queue = self._queues[key]
            while queue:
                event = queue[0]
                await self._post(event)
                queue.popleft()
                self._pending -= 1
            del self._queues[key]
            if not self._waiting:
                return
            key = self._waiting.popleft()

    async def _post(self, event: _Event) -> None:
        try:
            if not await self._count_up(event):
                await self._create(event)
        except APIError as e:
            self.dropped += 1
            logger.warning(f"Failed to post an event. Ignoring and continuing. "
                           f"Object: {_describe(event.ref)}. Error: {e}. "
                           f"Event: {event.type} {event.reason}: {event.message[:256]}")
        except Exception as e:
            self.dropped += 1
            logger.error(f"Failed to post an event: {type(e).__name__}: {e}")

    async def _create(self, event: _Event) -> None:
        created = await post_event(
            self._client, ref=event.ref, type=event.type, reason=event.reason,
            message=event.message, backoffs=event.backoffs)
        meta: Mapping[str, Any] = (created or {}).get('metadata') or {}
        if self._aggregates and meta.get('name'):
            self._recent[event.identity] = _Posted(
                meta['name'], meta.get('namespace') or '', 1, self._loop.time())
            if len(self._recent) > MAX_REMEMBERED:
                self._recent.popitem(last=False)

    async def _count_up(self, event: _Event) -> bool:
        """Whether the event is a repetition that was merely counted in the previous one."""
        posted = self._recent.get(event.identity)
        if posted is None:
            return False
        if not self._aggregates or self._loop.time() - posted.since > AGGREGATION_WINDOW:
            del self._recent[event.identity]
            return False
        try:
            await aggregate_event(
                self._client, namespace=posted.namespace, name=posted.name, count=posted.count + 1)
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


class EventPostingHandler(logging.Handler):
    """Makes Kubernetes events of the log messages about objects.

    The operator is taken from the context in which the message is logged.
    """

    def emit(self, record: logging.LogRecord) -> None:
        ref = getattr(record, 'k8s_ref', None)
        operator = operator_var.get(None)
        if ref is None or operator is None or getattr(record, 'k8s_skip', False):
            return
        posting = operator.settings.posting
        if not posting.enabled or not posting.loggers or record.levelno < posting.level:
            return
        operator.recorder.record(
            ref, type=_type_of_level(record.levelno), reason='Logging',
            message=self.format(record), backoffs=posting.logging_backoffs)


class EventLogging:
    """Posts the log messages as events while at least one operator runs in the process."""

    def __init__(self) -> None:
        self._handler = EventPostingHandler()
        self._users = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                objects_logger.addHandler(self._handler)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                objects_logger.removeHandler(self._handler)


event_logging = EventLogging()


def event(
        objs: Any,
        *,
        type: str,
        reason: str,
        message: str = '',
        backoffs: float | Iterable[float] | None = None,
) -> None:
    """Post an event about an object, or about each of several objects.

    ``backoffs`` are delays in seconds between the attempts to post it.
    It does nothing if posting is disabled, and for events themselves.
    """
    operator = operator_var.get(None)
    if operator is None:
        raise LookupError("Events can only be posted from inside of an operator.")
    for ref in _references(objs):
        operator.recorder.record(
            ref, type=type, reason=reason, message=message, backoffs=backoffs)


def info(
        objs: Any, *, reason: str, message: str = '',
        backoffs: float | Iterable[float] | None = None,
) -> None:
    """Post a normal event, unless ``settings.posting.level`` is higher than that."""
    _event_of_level(logging.INFO, objs, reason, message, backoffs)


def warn(
        objs: Any, *, reason: str, message: str = '',
        backoffs: float | Iterable[float] | None = None,
) -> None:
    """Post a warning event, unless ``settings.posting.level`` is higher than that."""
    _event_of_level(logging.WARNING, objs, reason, message, backoffs)


def exception(
        objs: Any, *, reason: str = '', message: str = '', exc: BaseException | None = None,
        backoffs: float | Iterable[float] | None = None,
) -> None:
    """Post an error event about an exception: by default, the one being handled now."""
    import sys
    exc = exc if exc is not None else sys.exc_info()[1]
    if exc is not None:
        reason = reason or type(exc).__name__
        message = f'{message} {exc}' if message else f'{exc}'
    _event_of_level(logging.ERROR, objs, reason, message, backoffs)


def _event_of_level(
        level: int, objs: Any, reason: str, message: str,
        backoffs: float | Iterable[float] | None,
) -> None:
    operator = operator_var.get(None)
    if operator is None or level >= operator.settings.posting.level:
        event(objs, type=_type_of_level(level), reason=reason, message=message, backoffs=backoffs)


def _type_of_level(level: int) -> str:
    return next((name for limit, name in TYPES_BY_LEVEL if level <= limit), 'Fatal')


def _references(objs: Any) -> Iterator[ObjectReference]:
    if isinstance(objs, Mapping):
        yield build_object_reference(objs)
    elif hasattr(objs, 'obj'):  # pykube-ng
        yield build_object_reference(objs.obj)
    elif hasattr(objs, 'to_dict'):  # models of the official client
        yield _reference_of_model(objs)
    else:
        for obj in objs:
            yield from _references(obj)


def _reference_of_model(obj: Any) -> ObjectReference:
    meta = getattr(obj, 'metadata', None)
    return build_object_reference({
        'apiVersion': getattr(obj, 'api_version', None),
        'kind': getattr(obj, 'kind', None),
        'metadata': {name: getattr(meta, name, None) for name in ('name', 'namespace', 'uid')},
    })


def _is_event(ref: ObjectReference) -> bool:
    """Events of events would be a chain reaction."""
    return ref.get('kind') == 'Event' and ref.get('apiVersion') in ('v1', 'events.k8s.io/v1')


def _describe(ref: ObjectReference) -> str:
    name = '/'.join(filter(None, (ref.get('namespace'), ref.get('name'))))
    return f"{ref.get('kind')} {name}"


__all__ = [
    'EventLogging', 'EventPostingHandler', 'EventRecorder', 'Recorder', 'event', 'event_logging',
    'exception', 'info', 'warn',
]
