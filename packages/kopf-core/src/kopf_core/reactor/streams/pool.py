"""The pool of informers: which watch-streams run now, whoever needs them."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from kopf_cogs.clients.errors import APIForbiddenError, APINotFoundError
from kopf_cogs.clients.retries import Backoff
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.credentials import LoginError
from kopf_core.reactor.streams.informers import Informer, StreamKey, Subscriber
from kopf_core.reactor.streams.stores import ObjectStore, Transform, without_managed_fields

logger = logging.getLogger("kopf.reactor.informers")

RESTART_BACKOFF = 0.1
"""The first delay (in seconds) before a stream that has ended is started again."""


@dataclass(slots=True)
class _Stream:
    informer: Informer
    backoff: Backoff = field(default_factory=lambda: Backoff(RESTART_BACKOFF))
    task: asyncio.Task[None] | None = None
    ending: set["asyncio.Task[None]"] = field(default_factory=set)
    """Those cancelled, but not ended yet: there must be never more than one at work."""

    store: ObjectStore | None = None
    readers: int = 0
    """How many of those who have asked for the store still need it."""

    complaint: str | None = None


class InformerPool:
    """Starts a watch when the first subscriber comes, and stops it when the last one has left.

    A watch that has ended for whatever reason, but was not asked to, is started again:
    an operator that is blind to some of the resources must not pretend to work.
    ``on_lost`` is told when a resource is not served by the API, though somebody needs it.
    ``on_interrupted`` is told of every stream that has ended.
    ``on_forbidden`` is told of those that are not permitted, instead of the log.
    """

    def __init__(
        self,
        client: Client,
        settings: OperatorSettings,
        *,
        on_lost: Callable[[], None] = lambda: None,
        on_interrupted: Callable[[StreamKey], None] = lambda _: None,
        on_forbidden: Callable[[StreamKey, APIForbiddenError], None] | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._on_lost = on_lost
        self._on_interrupted = on_interrupted
        self._on_forbidden = on_forbidden
        self._streams: dict[StreamKey, _Stream] = {}
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_suspended = False
        self._is_stopped = False

    @property
    def informers(self) -> Mapping[StreamKey, Informer]:
        return {key: stream.informer for key, stream in self._streams.items()}

    @property
    def is_suspended(self) -> bool:
        """Whether nothing is watched for now."""
        return self._is_suspended

    async def wait_failed(self) -> None:
        """Wait for a failure that no restart can help with, and raise it."""
        await asyncio.shield(self._failed)

    def subscribe(self, key: StreamKey, subscriber: Subscriber, *, first: bool = False) -> Informer:
        """Tell the subscriber of all objects there are, and of whatever happens to them.

        If the stream is there already, it lists everything anew, for all of its subscribers.
        """
        stream = self._streams.get(key)
        if stream is None:
            informer = Informer(self._client, key, self._settings, on_forbidden=self._on_forbidden)
            stream = self._streams[key] = _Stream(informer)
        stream.informer.subscribe(subscriber, first=first)
        if stream.informer.is_begun and stream.task is not None:
            self._detach(stream)
        self._start(key, stream)
        return stream.informer

    async def unsubscribe(self, key: StreamKey, subscriber: Subscriber) -> None:
        """Tell the subscriber nothing anymore, and stop the watch if nobody else needs it."""
        stream = self._streams.get(key)
        if stream is None:
            return
        stream.informer.unsubscribe(subscriber)
        if not stream.informer.subscribers:
            del self._streams[key]
            await self._cancel([stream])

    def acquire_store(
        self,
        key: StreamKey,
        *,
        transform: Transform | None = without_managed_fields,
    ) -> ObjectStore:
        """Keep the newest states of all the objects, until the store is released.

        The store is shared by all those who read it; the first of them says what is kept.
        It goes before other subscribers: what they are told of, is in the store already.
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
        """The store is not needed by one of those who have acquired it."""
        stream = self._streams.get(key)
        if stream is None or stream.store is None:
            return
        stream.readers -= 1
        if not stream.readers:
            store, stream.store = stream.store, None
            await self.unsubscribe(key, store)

    def find_store(self, key: StreamKey) -> ObjectStore | None:
        """The store of these objects, if anybody has asked to keep it."""
        stream = self._streams.get(key)
        return None if stream is None else stream.store

    def reach(self, *, is_watching: bool) -> None:
        """Watch or not. After a break, everything is listed anew: it shows what was not seen."""
        self._is_suspended = not is_watching
        for key, stream in self._streams.items():
            if is_watching:
                self._start(key, stream)
            else:
                self._detach(stream)

    async def settle(self) -> None:
        """Wait until those streams that are stopped have ended."""
        await self._wait(self._streams.values())

    async def stop(self, timeout: float | None = None) -> None:
        """Stop all the streams for good: no others are started since then.

        Those that do not end in so many seconds are left as they are.
        """
        self._is_stopped = True
        await self._cancel(self._streams.values(), timeout)

    def _start(self, key: StreamKey, stream: _Stream) -> None:
        if stream.task is None and not self._is_suspended and not self._is_stopped:
            name = f"kopf-informer-{key.resource}-{key.namespace}"
            stream.task = asyncio.create_task(self._run(key, stream), name=name)
            stream.task.add_done_callback(lambda task: self._on_ended(key, stream, task))

    async def _run(self, key: StreamKey, stream: _Stream) -> None:
        """Run the informer, and run it again after growing delays when it ends."""
        while stream.ending:
            await asyncio.wait(stream.ending)
        while True:
            try:
                await stream.informer.run()
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
            self._on_interrupted(key)
            await asyncio.sleep(stream.backoff.advance())

    def _on_ended(self, key: StreamKey, stream: _Stream, task: "asyncio.Task[None]") -> None:
        if stream.task is not task:
            return  # it was asked to
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
        ending = {task for stream in streams for task in stream.ending}
        if ending:
            _, left = await asyncio.wait(ending, timeout=timeout)
            if left:
                names = ", ".join(sorted(task.get_name() for task in left))
                logger.warning(f"Some watch-streams do not end, and are left as they are: {names}.")

    def _detach(self, stream: _Stream) -> None:
        """Cancel the task of the stream, so that another one can be started after it."""
        if stream.task is not None:
            task, stream.task = stream.task, None
            stream.ending.add(task)
            task.add_done_callback(stream.ending.discard)
            task.cancel()

    def _complain(self, stream: _Stream, text: str) -> None:
        """Log the problem, but only once while it repeats."""
        logger.log(logging.DEBUG if text == stream.complaint else logging.WARNING, text)
        stream.complaint = text
