"""Informers: one watch-stream of one kind of objects, with any number of subscribers."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import NamedTuple, Protocol

from kopf_cogs.clients.errors import APIForbiddenError
from kopf_cogs.clients.reflector import Reflector, Traffic
from kopf_cogs.clients.session import Client
from kopf_cogs.clients.stream_state import KnownName
from kopf_cogs.configs.forms import WHOLE, Form
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import RawEvent
from kopf_cogs.structs.keys import ObjectKey, object_key
from kopf_cogs.structs.parts import ALL_OBJECTS, Part
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.versions import is_as_old


class Subscriber(Protocol):
    """A receiver of all objects of a kind, and of all their events."""

    @property
    def part(self) -> Part:
        """The objects that the subscriber needs, if the server can select them.

        Other objects can come nevertheless. When more objects are needed than before, renew the
        stream in the pool.
        """

    def on_event(self, key: ObjectKey, event: RawEvent) -> None:
        """Take an event. The object is shared with other subscribers, and must not be changed."""

    def on_listed(self) -> None:
        """A list has been reported to its end; this is called after each list."""

    def on_reversed(self) -> None:
        """The cluster was restored from a backup: versions are lower than before."""

    async def drain(self) -> None:
        """Wait until more events can be taken; nothing is read from the stream meanwhile."""


Place = tuple[Resource, str | None]
"""The kind, and the namespace where its objects are; or all namespaces."""


class StreamKey(NamedTuple):
    """The scope of a stream. Equal keys share one stream, for any number of subscribers."""

    resource: Resource
    namespace: str | None = None
    """``None`` for all namespaces, and for cluster-scoped resources."""

    selector: str | None = None
    """The label selector in addition to the selectors in the settings."""

    form: Form = WHOLE
    """The kept part of the objects. Each form has its own stream, so they never mix."""

    name: str | None = None
    """The only object to be watched; ``None`` for all of them."""

    @property
    def place(self) -> Place:
        return self.resource, self.namespace

    def __str__(self) -> str:
        place = f" in {self.namespace!r}" if self.namespace else ""
        name = f" {self.name!r}" if self.name else ""
        return f"{self.resource}{name}{place}"


OnForbidden = Callable[[StreamKey, APIForbiddenError], None]


class Informer:
    """One watch-stream and its subscribers, which are called in the order of their subscription."""

    def __init__(
        self,
        client: Client,
        stream: StreamKey,
        settings: OperatorSettings,
        *,
        on_forbidden: OnForbidden | None = None,
    ) -> None:
        self.stream = stream
        self.is_listed = False
        """Whether the first list has been reported to the subscribers to its end."""

        self._resource = stream.resource
        self._source: Informer | None = None
        self._since: str | None = None
        self._subscribers: tuple[Subscriber, ...] = ()
        self._reflector = Reflector(
            client,
            stream.resource,
            stream.namespace,
            settings=settings,
            sink=self,
            selector=stream.selector,
            form=stream.form,
            name=stream.name,
            choose_part=self._choose_part,
            on_reversed=self.on_reversed,
            on_forbidden=None if on_forbidden is None else partial(on_forbidden, stream),
        )

    @property
    def subscribers(self) -> Collection[Subscriber]:
        return self._subscribers

    @property
    def is_begun(self) -> bool:
        """Whether anything has been reported already, maybe not a whole list."""
        return self.is_listed or bool(self._reflector.known)

    @property
    def is_outdated(self) -> bool:
        """Whether another part was requested than is needed now."""
        return self._reflector.is_outdated

    @property
    def freshness(self) -> float:
        """The time of the last sign of life in the stream: monotonic, of the client's clock."""
        return (self._source or self._reflector).freshness

    @property
    def version(self) -> str | None:
        """The resource version up to which the stream has reported everything, if it was listed."""
        return (self._source or self._reflector).version

    @property
    def complaint(self) -> str | None:
        """The problem of the stream now, e.g. a missing permission; ``None`` if there is none."""
        return (self._source or self._reflector).complaint

    @property
    def problem(self) -> str | None:
        """The problem by which the stream brings nothing now; ``None`` if it can bring events."""
        return (self._source or self._reflector).problem

    @property
    def count(self) -> int:
        """The number of existing objects, as far as the stream knows."""
        return len(self._reflector.known)

    @property
    def traffic(self) -> Traffic:
        """The traffic of the stream so far."""
        return self._reflector.traffic

    @property
    def keys(self) -> Collection[ObjectKey]:
        """The keys of all existing objects, as far as the stream knows."""
        return [
            key if isinstance(key, str) else (self._resource, *key) for key in self._reflector.known
        ]

    @property
    def names(self) -> Iterator[tuple[KnownName, ObjectKey]]:
        """The keys of all existing objects, with the namespaces and names of the objects."""
        for key, name in self._reflector.names.items():
            yield name, key if isinstance(key, str) else (self._resource, *key)

    async def run(self) -> None:
        """Stream the events until cancelled. Can be run again after that."""
        self.is_listed = False
        await self._reflector.run()

    @contextlib.contextmanager
    def fed(self, source: "Informer", *, since: str | None) -> Iterator[None]:
        """Have no stream, but :meth:`take` the events of the source, which has more objects.

        With ``since``, all is known up to that version. Otherwise, the source lists everything.
        """
        self._source, self._since = source, since
        if since is None:
            self.is_listed = False
            self._reflector.begin_list()
        try:
            yield
        finally:
            self._source = None

    def take(self, event: RawEvent) -> bool:
        """Take an event of the source. Returns whether it is news."""
        if self._since is not None:
            if is_as_old(event["object"], self._since):
                return False
            if self._source is not None and self._source.is_listed:
                self._since = None
        self._reflector.take(event)
        return True

    def finish_list(self) -> None:
        """The source has listed everything."""
        if self.is_listed:
            self._since = None
            self.on_listed()
        else:
            self._reflector.finish_list(self.version)

    async def wait_for_emptiness(self) -> None:
        """Wait until the stream has reported the deletions of all known objects."""
        emptiness = _Emptiness(self)
        self.subscribe(emptiness)
        try:
            if self.count:
                await emptiness.reached.wait()
        finally:
            self.unsubscribe(emptiness)

    async def report_absence(self) -> None:
        """Report the deletions of all objects. Call this only while nothing else reports."""
        self._reflector.report_absence()
        await self.drain()

    def subscribe(self, subscriber: Subscriber, *, first: bool = False) -> None:
        """Report all later events to this subscriber, too."""
        others = self._subscribers
        self._subscribers = (subscriber, *others) if first else (*others, subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        self._subscribers = tuple(other for other in self._subscribers if other is not subscriber)

    def narrow(self, is_needed: Callable[[ObjectKey], bool]) -> None:
        """Request only the needed part, and forget the objects of others; nothing is listed."""
        if self._choose_part() != ALL_OBJECTS:
            for known, key in zip([*self._reflector.known], self.keys, strict=True):
                if not is_needed(key):
                    self._reflector.forget(known)
            if self.is_outdated:
                self._reflector.reconnect()

    def _choose_part(self) -> Part:
        """The objects that are enough for all subscribers."""
        parts = {subscriber.part for subscriber in self._subscribers}
        return parts.pop() if len(parts) == 1 else ALL_OBJECTS

    def on_event(self, event: RawEvent) -> None:
        key = object_key(self._resource, event["object"])
        for subscriber in self._subscribers:
            subscriber.on_event(key, event)

    def on_listed(self) -> None:
        self.is_listed = True
        for subscriber in self._subscribers:
            subscriber.on_listed()

    def on_reversed(self) -> None:
        for subscriber in self._subscribers:
            subscriber.on_reversed()

    async def drain(self) -> None:
        for subscriber in self._subscribers:
            await subscriber.drain()


class _Emptiness:
    """A subscriber that notices when there are no objects anymore."""

    part = ALL_OBJECTS

    def __init__(self, informer: Informer) -> None:
        self._informer = informer
        self.reached = asyncio.Event()

    def on_event(self, key: ObjectKey, event: RawEvent) -> None:
        if not self._informer.count:
            self.reached.set()

    def on_listed(self) -> None:
        """Do nothing: the deletions have been reported one by one."""

    def on_reversed(self) -> None:
        """Do nothing: versions do not matter here."""

    async def drain(self) -> None:
        """Do nothing: nothing is kept here."""
