"""Feeds: one cluster-wide watch-stream in place of many streams of namespaces.

A stream takes a connection and a request that never ends. Thousands of namespaces with a stream for
each of them would take all connections of an operator, and much memory of the API server. So, for
many namespaces, Kopf watches the kind in the whole cluster, and drops the objects of other
namespaces. The informers of the namespaces and their subscribers see no difference.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping

from kopf_cogs.structs.bodies import RawEvent
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.parts import ALL_OBJECTS
from kopf_cogs.structs.versions import is_as_old
from kopf_core.reactor.streams.informers import Informer, StreamKey

MANY_NAMESPACES = 100
"""The most namespaces in which Kopf watches a kind by one stream for each namespace."""


def widen(key: StreamKey) -> StreamKey | None:
    """The stream that has these objects in all namespaces; ``None`` if there can be no feed."""
    if key.namespace is None or key.name is not None:
        return None
    return key._replace(namespace=None)


class Feeds(dict[StreamKey, "Feed"]):
    """All feeds, by their cluster-wide streams; and for which streams they are needed.

    The two limits differ, so that Kopf does not switch at each change of the number.
    """

    def __init__(self) -> None:
        super().__init__()
        self._spaces: Counter[StreamKey | None] = Counter()
        self._refused: set[StreamKey] = set()

    def add(self, key: StreamKey) -> None:
        """There is one more stream."""
        self._spaces[widen(key)] += 1

    def remove(self, key: StreamKey) -> bool:
        """There is one stream less. Returns whether its feed is not needed since then."""
        wide = widen(key)
        self._spaces[wide] -= 1
        return wide is not None and wide in self and not self.is_needed(wide)

    def refuse(self, wide: StreamKey) -> None:
        """There must be no such feed: the cluster-wide stream is not permitted."""
        self._refused.add(wide)

    def is_needed(self, wide: StreamKey) -> bool:
        limit = MANY_NAMESPACES // 2 if wide in self else MANY_NAMESPACES
        return wide not in self._refused and self._spaces[wide] > limit


class Feed:
    """Passes the events of a cluster-wide stream to the informers of namespaces.

    * A namespace that comes before the first list gets its objects from this list.
    * A namespace that comes later has its own stream first. It is one of the *newcomers* until
      its own stream has brought everything that the feed has brought.
    """

    part = ALL_OBJECTS
    """The subscribers of the informers drop the objects of other shards."""

    def __init__(self, source: Informer) -> None:
        self._source = source
        self._members: dict[str, Informer] = {}
        self._newcomers: dict[str, _Newcomer] = {}
        self._undrained: dict[str, Informer] = {}

    @property
    def informers(self) -> Mapping[str, Informer]:
        """The informers that have no streams of their own now, by their namespaces."""
        return self._members

    async def serve(self, namespace: str, informer: Informer) -> None:
        """Keep the informer of the namespace informed until cancelled."""
        with contextlib.ExitStack() as stack:
            if self._source.is_begun:
                with self._welcome(namespace, informer) as newcomer:
                    await newcomer.catch_up()
                stack.enter_context(informer.fed(self._source, since=newcomer.version))
            else:
                stack.enter_context(informer.fed(self._source, since=None))
            self._members[namespace] = informer
            stack.callback(self._members.pop, namespace)
            stack.callback(self._undrained.pop, namespace, None)
            await asyncio.Event().wait()

    @contextlib.contextmanager
    def _welcome(self, namespace: str, informer: Informer) -> "Iterator[_Newcomer]":
        newcomer = self._newcomers[namespace] = _Newcomer(informer)
        informer.subscribe(newcomer)
        try:
            yield newcomer
        finally:
            informer.unsubscribe(newcomer)
            del self._newcomers[namespace]

    def on_event(self, key: ObjectKey, event: RawEvent) -> None:
        namespace = event["object"]["metadata"].get("namespace") or ""
        if (member := self._members.get(namespace)) is not None:
            if member.take(event):
                self._undrained[namespace] = member
        elif (newcomer := self._newcomers.get(namespace)) is not None:
            newcomer.miss(event)

    def on_listed(self) -> None:
        for namespace, member in [*self._members.items()]:
            member.finish_list()
            self._undrained[namespace] = member

    def on_reversed(self) -> None:
        for member in [*self._members.values()]:
            member.on_reversed()

    async def drain(self) -> None:
        while self._undrained:
            _, member = self._undrained.popitem()
            await member.drain()


class _Newcomer:
    """A namespace with its own stream, until this stream has brought all missed events."""

    part = ALL_OBJECTS
    """All the objects that the feed passes, so that nothing is missed."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer
        self._caught_up = asyncio.Event()
        self._own: asyncio.Task[None] | None = None
        self._missed: RawEvent | None = None
        self._is_doubtful = True

    @property
    def version(self) -> str | None:
        return self._informer.version

    def miss(self, event: RawEvent) -> None:
        """Remember the latest event that the feed does not pass. The own stream has it, too.

        A deletion without a version was not seen by any stream: list the namespace anew.
        """
        if event["object"]["metadata"].get("resourceVersion") is not None:
            self._missed = event
        elif self._own is not None:
            self._is_doubtful = True
            self._own.cancel()

    async def catch_up(self) -> None:
        """Run the own stream for as long as it is behind the feed. Raises its errors."""
        while not self._is_level:
            self._caught_up.clear()
            self._is_doubtful = False
            self._own = asyncio.create_task(self._informer.run(), name="kopf-newcomer")
            waiting = asyncio.create_task(self._caught_up.wait(), name="kopf-newcomer-waits")
            try:
                await asyncio.wait({self._own, waiting}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _cancel(self._own, waiting)
            if not self._own.cancelled():
                self._own.result()

    def on_event(self, key: ObjectKey, event: RawEvent) -> None:
        """Do nothing here: the other subscribers take the event."""

    def on_listed(self) -> None:
        """Do nothing here: see the draining, which is the next step."""

    def on_reversed(self) -> None:
        """Do nothing here: the other subscribers know what to do."""

    async def drain(self) -> None:
        if self._is_level:
            self._caught_up.set()

    @property
    def _is_level(self) -> bool:
        """Whether the own stream has brought all that the feed has brought."""
        if self._is_doubtful or not self._informer.is_listed:
            return False
        return self._missed is None or is_as_old(self._missed["object"], self.version)


async def _cancel(*tasks: "asyncio.Task[object]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
