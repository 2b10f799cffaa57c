"""Referenced objects: Kopf keeps only the objects that the fields of other objects name.

So an operator does not keep all Secrets of a cluster because of a few references. Kopf watches
a few referenced objects one by one. Many of them would take too many connections. Then Kopf watches
the metadata of the whole kind, and requests a referenced object when this object changes.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterator
from functools import partial
from typing import Any, Protocol

from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.retries import Backoff
from kopf_cogs.configs.forms import Form, FormError
from kopf_cogs.structs.bodies import RawBody, RawEvent
from kopf_cogs.structs.keys import ObjectKey, object_key
from kopf_cogs.structs.parts import ALL_OBJECTS
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.versions import is_same
from kopf_core.engines.desired.sources import Name, ObservedChange
from kopf_core.reactor.streams.informers import StreamKey
from kopf_core.reactor.streams.pool import InformerPool
from kopf_core.reactor.streams.stores import ObjectStore, Transform

logger = logging.getLogger("kopf.reactor.informers")

MANY = 100
"""The most objects of one kind that Kopf watches one by one: each of them takes a connection."""

READING_BACKOFF, READING_LIMIT = 1.0, 60.0
"""The shortest and the longest delay (in seconds) before the next attempt of a failed request."""

OnChange = Callable[[Resource, RawBody, ObservedChange], None]
OnListed = Callable[[Resource], None]


class References:
    """The references of holders to objects. Kopf counts the holders of each object."""

    def __init__(self) -> None:
        self._names: dict[Hashable, frozenset[Name]] = {}
        self._counts: Counter[Name] = Counter()

    def __iter__(self) -> Iterator[Name]:
        return iter([*self._counts])

    def put(self, holder: Hashable, names: frozenset[Name]) -> Collection[Name]:
        """Replace the references of the holder.

        Returns the names that have got their first holder, or have lost their last one.
        """
        before = self._names.pop(holder, frozenset())
        if names:
            self._names[holder] = names
        news = {name for name in names - before if name not in self._counts}
        self._counts.update(names - before)
        for name in before - names:
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]
                news.add(name)
        return news

    def __contains__(self, name: object) -> bool:
        return name in self._counts


class Kept(Protocol):
    """One referenced object. It can be absent from the cluster."""

    @property
    def store(self) -> ObjectStore: ...

    async def close(self) -> None: ...


class ReferencedView:
    """The referenced objects of one kind: their newest states, and whether Kopf knows the states.

    The key belongs to the stream that would have all objects of the kind.
    """

    def __init__(
        self,
        key: StreamKey,
        pool: InformerPool,
        *,
        transform: Transform,
        on_change: OnChange,
        on_listed: OnListed,
    ) -> None:
        self.resource = key.resource
        self._key = key
        self._pool = pool
        self._transform = transform
        self._on_change = on_change
        self._on_listed = on_listed
        self._references = References()
        self._namespaces: Collection[str | None] = ()
        self._kept: dict[Name, Kept] = {}
        self._crowds: dict[str | None, _MetadataWatch] = {}
        self._is_crowded = False
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def is_synced(self) -> bool:
        return all(one.store.is_synced for one in self._kept.values())

    @property
    def is_observed(self) -> bool:
        return bool(self._namespaces)

    def covers(self, namespace: str | None) -> bool:
        if not self.resource.namespaced:
            return True
        return namespace is not None and not {namespace, None}.isdisjoint(self._namespaces)

    def is_synced_in(self, namespace: str | None) -> bool:
        """Whether Kopf knows the states of all referenced objects of the namespace."""
        return all(
            one.store.is_synced
            for (space, _), one in self._kept.items()
            if space == namespace or not self.resource.namespaced
        )

    def knows(self, names: Collection[Name] | None) -> bool:
        if names is None:
            return self.is_synced
        wanted = {self._locate(name) for name in names if self.covers(name[0])}
        return all(name in self._kept and self._kept[name].store.is_synced for name in wanted)

    def find(self, namespace: str | None, name: str) -> RawBody | None:
        located = self._locate((namespace, name))
        kept = self._kept.get(located)
        return None if kept is None else kept.store.find(*located)

    def values(self) -> Iterator[RawBody]:
        for one in self._kept.values():
            yield from one.store.values()

    def refer(self, holder: Hashable, names: frozenset[Name]) -> None:
        """Follow these objects for the holder, and no others."""
        for name in self._references.put(holder, frozenset(map(self._locate, names))):
            self._follow(name)
        self._balance()

    def adjust(self, namespaces: Collection[str | None]) -> None:
        """Follow only the referenced objects in these namespaces."""
        self._namespaces = namespaces
        for name in {*self._references, *self._kept}:
            self._follow(name)
        self._balance()

    def stop(self) -> None:
        """Send no more requests, because the operator exits."""
        for one in self._kept.values():
            if isinstance(one, _ReadObject):
                one.stop()

    async def close(self) -> None:
        """Forget all objects, and stop following them."""
        self._references = References()
        self.adjust(())
        if self._closing:
            await asyncio.wait(self._closing)

    def _locate(self, name: Name) -> Name:
        return name if self.resource.namespaced else (None, name[1])

    def _follow(self, name: Name) -> None:
        """Begin to follow the object if it is wanted. Otherwise, stop following it."""
        is_wanted = name in self._references and bool(self._namespaces) and self.covers(name[0])
        if is_wanted and name not in self._kept:
            self._kept[name] = self._keep(name)
        elif not is_wanted and name in self._kept:
            self._close(self._kept.pop(name))

    def _keep(self, name: Name) -> Kept:
        if self._is_crowded:
            read = partial(self._pool.read, self._key, *name)
            store = ObjectStore(self.resource, transform=self._transform)
            return _ReadObject(store, read, self._on_change, self._on_listed)
        key = self._key._replace(namespace=name[0], name=name[1])
        return _WatchedObject(key, self._pool, self._transform, self._on_change, self._on_listed)

    def _balance(self) -> None:
        """Choose the way of following by the number of objects.

        The two limits differ, so that Kopf does not switch at each change of the number.
        """
        is_crowded = len(self._kept) > (MANY // 2 if self._is_crowded else MANY)
        if is_crowded is not self._is_crowded:
            self._is_crowded = is_crowded
            for name, former in [*self._kept.items()]:
                self._kept[name] = self._keep(name)
                self._kept[name].store.succeed(former.store)  # it can be deleted in between
                self._close(former)
        places = self._namespaces if self.resource.namespaced else (None,)
        wanted = {*places} if is_crowded else set()
        for namespace in [place for place in self._crowds if place not in wanted]:
            self._close(self._crowds.pop(namespace))
        for namespace in wanted - self._crowds.keys():
            key = self._key._replace(namespace=namespace, form=Form(is_metadata=True))
            self._crowds[namespace] = _MetadataWatch(key, self._pool, self._kept)

    def _close(self, one: "Kept | _MetadataWatch") -> None:
        task = asyncio.create_task(one.close(), name="kopf-unreferenced")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class _WatchedObject:
    """One object with a watch-stream of its own."""

    def __init__(
        self,
        key: StreamKey,
        pool: InformerPool,
        transform: Transform,
        on_change: OnChange,
        on_listed: OnListed,
    ) -> None:
        self._key = key
        self._pool = pool
        self._on_change = on_change
        self._on_listed = on_listed
        self.store = pool.acquire_store(key, transform=transform)
        pool.subscribe(key, self)

    async def close(self) -> None:
        await self._pool.unsubscribe(self._key, self)
        await self._pool.release_store(self._key)

    part = ALL_OBJECTS

    def on_event(self, key: ObjectKey, event: RawEvent) -> None:
        change = ObservedChange.GONE if event["type"] == "DELETED" else ObservedChange.OTHERS
        self._on_change(self._key.resource, event["object"], change)

    def on_listed(self) -> None:
        for body in self.store.take_vanished():
            self._on_change(self._key.resource, body, ObservedChange.GONE)
        self._on_listed(self._key.resource)

    def on_reversed(self) -> None:
        """Do nothing here: the store forgets the object, and the stream lists it again."""

    async def drain(self) -> None:
        """Do nothing here: this subscriber handles each event at once."""


class _ReadObject:
    """One object that Kopf requests after each change of the object."""

    def __init__(
        self,
        store: ObjectStore,
        read: Callable[[], Coroutine[Any, Any, RawBody | None]],
        on_change: OnChange,
        on_listed: OnListed,
    ) -> None:
        self.store = store
        self._read = read
        self._on_change = on_change
        self._on_listed = on_listed
        self._is_outdated = False
        self._reading: asyncio.Task[None] | None = None
        self.renew()

    @property
    def body(self) -> RawBody | None:
        """The known state of the object; ``None`` if the object is absent."""
        return next(iter(self.store.values()), None)

    def renew(self) -> None:
        """Request the object again, because the known state is not the newest one."""
        self._is_outdated = True
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._renew(), name="kopf-referenced")

    def stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    async def close(self) -> None:
        self.stop()

    async def _renew(self) -> None:
        backoff = Backoff(READING_BACKOFF, limit=READING_LIMIT)
        while self._is_outdated:
            self._is_outdated = False
            try:
                self._take(await self._read())
            except (APIError, FormError) as e:
                level = logging.DEBUG if backoff.failures else logging.WARNING
                title = f"A referenced object of {self.store.resource} cannot be read"
                logger.log(level, f"{title}, will be retried: {e}")
                self._is_outdated = True
                await asyncio.sleep(backoff.advance())

    def _take(self, body: RawBody | None) -> None:
        known, resource = self.body, self.store.resource
        if known is not None and (
            body is None or body["metadata"]["uid"] != known["metadata"]["uid"]
        ):
            self.store.on_event(object_key(resource, known), {"type": "DELETED", "object": known})
            self._on_change(resource, known, ObservedChange.GONE)
        if body is not None and (known is None or not is_same(known, body)):
            event: RawEvent = {"type": "MODIFIED", "object": body}
            self.store.on_event(object_key(resource, body), event)
            self._on_change(resource, body, ObservedChange.OTHERS)
        if not self.store.is_synced:
            self.store.on_listed()
            for gone in self.store.take_vanished():
                self._on_change(resource, gone, ObservedChange.GONE)
            self._on_listed(resource)


class _MetadataWatch:
    """A watch-stream with the metadata of all objects of a namespace or a cluster.

    Its events tell which of the referenced objects have changed.
    """

    def __init__(self, key: StreamKey, pool: InformerPool, kept: dict[Name, Kept]) -> None:
        self._key = key
        self._pool = pool
        self._kept = kept
        self._seen: set[Name] = set()
        pool.subscribe(key, self)

    async def close(self) -> None:
        await self._pool.unsubscribe(self._key, self)

    part = ALL_OBJECTS

    def on_event(self, key: ObjectKey, event: RawEvent) -> None:
        metadata = event["object"]["metadata"]
        name = metadata.get("namespace"), metadata["name"]
        one = self._kept.get(name)
        if isinstance(one, _ReadObject):
            self._seen.add(name)
            is_gone = event["type"] == "DELETED"
            if one.body is None or is_gone or not is_same(one.body, event["object"]):
                one.renew()

    def on_listed(self) -> None:
        """Request the objects that are not listed: they are deleted, or newer than the list."""
        seen, self._seen = self._seen, set()
        for name, one in self._kept.items():
            if (
                isinstance(one, _ReadObject)
                and name not in seen
                and self._key.namespace in (None, name[0])
            ):
                one.renew()

    def on_reversed(self) -> None:
        """Do nothing here: all versions differ after that, so Kopf requests all objects again."""

    async def drain(self) -> None:
        """Do nothing here: this subscriber handles each event at once."""
