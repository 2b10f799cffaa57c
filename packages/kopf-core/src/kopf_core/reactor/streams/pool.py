"""The pool of informers: it runs each watch-stream for as long as it has subscribers."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from kopf_cogs.clients.errors import APIForbiddenError, APINotFoundError
from kopf_cogs.clients.retries import Backoff
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.credentials import LoginError
from kopf_cogs.structs.keys import ObjectKey
from kopf_core.reactor.streams.feeds import Feed, Feeds, widen
from kopf_core.reactor.streams.informers import Informer, OnForbidden, StreamKey, Subscriber
from kopf_core.reactor.streams.stores import ObjectStore, Transform, without_managed_fields

logger = logging.getLogger("kopf.reactor.informers")

RESTART_BACKOFF = 0.1
"""The first delay (in seconds) before a stream that has ended is started again."""

LATENESS = 0.5
"""How much later (in seconds) the deletions of objects can come than that of their namespace."""


@dataclass(slots=True)
class _Stream:
    informer: Informer
    backoff: Backoff = field(default_factory=lambda: Backoff(RESTART_BACKOFF))
    task: asyncio.Task[None] | None = None
    ending: set["asyncio.Task[None]"] = field(default_factory=set)
    """Cancelled tasks that have not ended yet: the next task waits for them."""

    store: ObjectStore | None = None
    readers: int = 0
    """How many readers of the store have not released it yet."""

    complaint: str | None = None
    is_own: bool = False
    """Whether the informer has a watch-stream of its own, and no feed."""


class InformerPool:
    """Starts a watch when the first subscriber comes, and stops it when the last one has left.

    A watch that ends without being asked to is started again: an operator that is blind to some
    resources must not pretend to work. The pool calls ``on_lost`` when the API does not serve a
    needed resource. It calls ``on_interrupted`` when a stream has ended, and ``on_forbidden``,
    instead of a log message, when a stream is not permitted.
    """

    def __init__(
        self,
        client: Client,
        settings: OperatorSettings,
        *,
        on_lost: Callable[[], None] = lambda: None,
        on_interrupted: Callable[[StreamKey], None] = lambda _: None,
        on_forbidden: OnForbidden | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._on_lost = on_lost
        self._on_interrupted = on_interrupted
        self._on_forbidden = on_forbidden
        self._streams: dict[StreamKey, _Stream] = {}
        self._feeds = Feeds()
        self._left: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_suspended = False
        self._is_stopped = False

    @property
    def informers(self) -> Mapping[StreamKey, Informer]:
        """The informers of all subscribers, but not the informers of feeds."""
        feeds = self._feeds
        return {key: one.informer for key, one in self._streams.items() if key not in feeds}

    def find(self, key: StreamKey) -> Informer | None:
        stream = self._streams.get(key)
        return None if stream is None else stream.informer

    @property
    def is_suspended(self) -> bool:
        """Whether all watches are stopped for now."""
        return self._is_suspended

    async def wait_failed(self) -> None:
        """Wait for a failure that no restart can repair, and raise it."""
        await asyncio.shield(self._failed)

    def subscribe(self, key: StreamKey, subscriber: Subscriber, *, first: bool = False) -> Informer:
        """Report all objects and all their events to the subscriber.

        If the stream runs already, it lists everything again, for all of its subscribers.
        """
        stream = self._streams.get(key)
        if stream is None:
            stream = self._open(key, self._on_forbidden)
            self._feeds.add(key)
        stream.informer.subscribe(subscriber, first=first)
        is_late = stream.informer.is_begun or stream.informer.is_outdated
        if is_late and stream.task is not None:
            self._detach(stream)
        self._start(key, stream)
        return stream.informer

    def renew(self, key: StreamKey) -> None:
        """List everything anew, for all the subscribers of the stream, if it is there."""
        if (stream := self._streams.get(key)) is not None:
            self._abandon_feed(widen(key))
            self._detach(stream)
            self._start(key, stream)

    def narrow(self, key: StreamKey, is_needed: Callable[[ObjectKey], bool]) -> None:
        """Request fewer shards than before, if the stream is there. Nothing is listed anew."""
        if key in self._streams:
            self._streams[key].informer.narrow(is_needed)

    async def unsubscribe(self, key: StreamKey, subscriber: Subscriber) -> None:
        """Report nothing more to the subscriber; stop the watch if it was the last subscriber."""
        stream = self._streams.get(key)
        if stream is None:
            return
        stream.informer.unsubscribe(subscriber)
        if not stream.informer.subscribers:
            del self._streams[key]
            if self._feeds.remove(key):
                self._abandon_feed(widen(key))
            await self._cancel([stream])

    async def finish(self, key: StreamKey) -> None:
        """Stop the watch when all deletions are reported: the namespace of the objects is deleted.

        The stream of the namespaces can be faster than this one. If this one is too late, its
        objects are reported as deleted anyway, by their names only.
        """
        stream = self._streams.get(key)
        if stream is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LATENESS):
                await stream.informer.wait_for_emptiness()
        await self._cancel([stream])
        await stream.informer.report_absence()

    async def read(self, key: StreamKey, namespace: str | None, name: str) -> RawBody | None:
        """Request one object of the stream right now, in its form; ``None`` if it is absent."""
        url = key.resource.get_url(namespace=namespace, name=name)
        try:
            body = await self._client.get(url)
        except APINotFoundError:
            return None
        return key.form.apply(body)

    def acquire_store(
        self,
        key: StreamKey,
        *,
        transform: Transform | None = without_managed_fields,
    ) -> ObjectStore:
        """Keep the newest states of all objects until the store is released.

        All readers share the store; the first one decides which part of each object is kept. The
        store is the first subscriber: it has the new states before other subscribers are called.
        """
        stream = self._streams.get(key)
        if stream is not None and stream.store is not None:
            stream.readers += 1
            return stream.store
        store = ObjectStore(key.resource, transform=transform)
        informer = self.subscribe(key, store, first=True)
        store.follow(lambda: informer.version)
        stream = self._streams[key]
        stream.store, stream.readers = store, 1
        return store

    async def release_store(self, key: StreamKey) -> None:
        """Release the store, once for each time when it was acquired."""
        stream = self._streams.get(key)
        if stream is None or stream.store is None:
            return
        stream.readers -= 1
        if not stream.readers:
            store, stream.store = stream.store, None
            await self.unsubscribe(key, store)

    def find_store(self, key: StreamKey) -> ObjectStore | None:
        """The store of these objects, if any part has acquired it."""
        stream = self._streams.get(key)
        return None if stream is None else stream.store

    def reach(self, *, is_watching: bool) -> None:
        """Start or stop all watches. After a break, they list everything again."""
        self._is_suspended = not is_watching
        for wide in [] if is_watching else [*self._feeds]:
            self._abandon_feed(wide)
        for key, stream in self._streams.items():
            if is_watching:
                self._start(key, stream)
            else:
                self._detach(stream)

    async def settle(self) -> None:
        """Wait until the stopped streams have ended."""
        await self._wait(self._streams.values())

    async def stop(self, timeout: float | None = None) -> None:
        """Stop all streams for good, and start no others since then.

        Streams that do not end in so many seconds are left as they are.
        """
        self._is_stopped = True
        await self._cancel(self._streams.values(), timeout)

    def _open(self, key: StreamKey, on_forbidden: OnForbidden | None) -> _Stream:
        informer = Informer(self._client, key, self._settings, on_forbidden=on_forbidden)
        stream = self._streams[key] = _Stream(informer)
        return stream

    def _find_feed(self, key: StreamKey) -> Feed | None:
        """The feed for the stream; a new one if there are too many such streams by now."""
        wide = widen(key)
        if wide is None or not self._feeds.is_needed(wide):
            return None
        feed = self._feeds.get(wide)
        if feed is None:
            source = self._streams.get(wide) or self._open(wide, self._refuse_feed)
            feed = self._feeds[wide] = Feed(source.informer)
            logger.info(f"Watching {wide} cluster-wide, as there are many namespaces.")
            self.subscribe(wide, feed)
            self._restart(wide, [one for one in self._streams.values() if one.is_own])
        return feed

    def _refuse_feed(self, wide: StreamKey, exc: APIForbiddenError) -> None:
        title = f"Cannot watch {wide} cluster-wide, so each namespace has its own watch-stream"
        logger.warning(f"{title}: {exc}")
        self._feeds.refuse(wide)
        self._abandon_feed(wide)

    def _abandon_feed(self, wide: StreamKey | None) -> None:
        """Let the namespaces list everything anew: by their own streams, or by another feed."""
        feed = None if wide is None else self._feeds.pop(wide, None)
        if feed is None or wide is None:
            return
        source = self._streams[wide]
        source.informer.unsubscribe(feed)
        if not source.informer.subscribers:
            del self._streams[wide]
            self._detach(source)
            self._left |= source.ending
            for task in source.ending:
                task.add_done_callback(self._left.discard)
        self._restart(wide, [one for one in self._streams.values() if not one.is_own])

    def _restart(self, wide: StreamKey, streams: Collection[_Stream]) -> None:
        """Start these streams anew, if the feed is for them."""
        for stream in streams:
            key = stream.informer.stream
            if widen(key) == wide and stream.task is not None:
                self._detach(stream)
                self._start(key, stream)

    def _start(self, key: StreamKey, stream: _Stream) -> None:
        if stream.task is None and not self._is_suspended and not self._is_stopped:
            name = f"kopf-informer-{key.resource}-{key.namespace}"
            stream.task = asyncio.create_task(self._run(key, stream), name=name)
            stream.task.add_done_callback(lambda task: self._on_ended(key, stream, task))

    async def _run(self, key: StreamKey, stream: _Stream) -> None:
        """Run the informer; when it ends, run it again after growing delays."""
        while stream.ending:
            await asyncio.wait(stream.ending)
        while True:
            try:
                await self._stream(key, stream)
            except APINotFoundError:
                logger.debug(f"The resource {key} is gone, it is not watched for now.")
                self._on_lost()
            except LoginError as e:
                self._fail(e)
                return
            except Exception as e:
                self._complain(stream, f"The watch-stream for {key} has failed: {e!r}")
            if stream.informer.is_listed:
                stream.backoff.reset()
            self._interrupt(key)
            await asyncio.sleep(stream.backoff.advance())

    async def _stream(self, key: StreamKey, stream: _Stream) -> None:
        feed = self._find_feed(key)
        stream.is_own = feed is None
        if feed is None:
            await stream.informer.run()
        else:
            await feed.serve(key.namespace or "", stream.informer)

    def _interrupt(self, key: StreamKey) -> None:
        feed = self._feeds.get(key)
        for namespace in [key.namespace] if feed is None else feed.informers:
            self._on_interrupted(key._replace(namespace=namespace))

    def _on_ended(self, key: StreamKey, stream: _Stream, task: "asyncio.Task[None]") -> None:
        if stream.task is not task:
            return  # the task was detached
        stream.task = None
        if not self._failed.done():
            self._complain(stream, f"The watch-stream for {key} was cancelled; starting it again.")
            self._start(key, stream)

    def _fail(self, exc: Exception) -> None:
        if not self._failed.done():
            self._failed.set_exception(exc)

    async def _cancel(self, streams: Collection[_Stream], timeout: float | None = None) -> None:
        for stream in streams:
            self._detach(stream)
        await self._wait(streams, timeout)

    async def _wait(self, streams: Collection[_Stream], timeout: float | None = None) -> None:
        ending = {task for stream in streams for task in stream.ending} | self._left
        if ending:
            _, left = await asyncio.wait(ending, timeout=timeout)
            if left:
                names = ", ".join(sorted(task.get_name() for task in left))
                logger.warning(f"Some watch-streams do not end, and are left as they are: {names}.")

    def _detach(self, stream: _Stream) -> None:
        """Cancel the task of the stream. Another one can be started; it waits for the end of this
        one.
        """
        if stream.task is not None:
            task, stream.task = stream.task, None
            stream.ending.add(task)
            task.add_done_callback(stream.ending.discard)
            task.cancel()

    def _complain(self, stream: _Stream, text: str) -> None:
        """Log the problem: while it repeats, only at the debug level."""
        logger.log(logging.DEBUG if text == stream.complaint else logging.WARNING, text)
        stream.complaint = text
