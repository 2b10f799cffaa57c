"""Watch-streams: which changes are shown, and when.

The changes of an object always go in order. They can be late: all of them, or those of one object.
"""

from __future__ import annotations

import asyncio
import bisect
import json
from collections import deque
from collections.abc import Callable

from e2e.chaos.fake.errors import make_status
from e2e.chaos.fake.http import Connection
from e2e.chaos.fake.kinds import Json, Kind
from e2e.chaos.fake.store import Change, Key, Store

BOOKMARK_INTERVAL = 5.0
"""How often (in seconds) idle streams get bookmarks."""


class Visibility:
    """When the changes are shown to those who watch."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lag = 0.0
        self._lags: dict[str, float] = {}
        self._holds: list[Hold] = []

    def lag(self, seconds: float, name: str | None = None) -> None:
        """Show all changes so much later, or only those of the objects with that name."""
        if name is None:
            self._lag = seconds
        else:
            self._lags[name] = seconds
        self._store.notify()

    def hold(self, check: Callable[[Change], bool]) -> Hold:
        """Do not show the matching changes, nor any later changes of the same objects."""
        hold = Hold(self._store, check)
        self._holds.append(hold)
        return hold

    def get_delay(self, change: Change, now: float) -> float:
        """For how many seconds more the change is not shown; infinity if it is being held."""
        if any(hold.is_held(change) for hold in self._holds):
            return float("inf")
        lag = max(self._lag, self._lags.get(change.key[2], 0.0))
        return max(0.0, change.time + lag - now)


class Hold:
    """Some changes that are not shown until released."""

    def __init__(self, store: Store, check: Callable[[Change], bool]) -> None:
        self._store = store
        self._check = check
        self._is_released = False
        self.count = 0

    def is_held(self, change: Change) -> bool:
        return not self._is_released and self._check(change)

    def release(self) -> None:
        self._is_released = True
        self._store.notify()


def is_own(change: Change) -> bool:
    """Whether the change is made by the operator, not by the test."""
    return change.author == "client"


class WatchStream:
    """One stream for one kind, from its beginning to its end."""

    def __init__(
        self,
        store: Store,
        visibility: Visibility,
        connection: Connection,
        kind: Kind,
        namespace: str,
        *,
        bookmarks: bool,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self._store = store
        self._visibility = visibility
        self._connection = connection
        self._bookmarks = bookmarks
        self._pending: deque[Change] = deque()
        self._seen = 0  # the version up to which the history was looked through
        self._time = asyncio.get_running_loop().time
        self._shown_at = self._time()

    @property
    def is_fresh(self) -> bool:
        """Whether everything is shown that has happened."""
        return not self._pending and self._seen == self._store.version

    async def run(self, since: int, until: float | None) -> None:
        """Show the changes after the version, until the time by the monotonic clock."""
        await self._connection.send_head()
        if since < self._store.compacted:
            await self.send("ERROR", make_status(410, f"too old resource version: {since}"))
            await self._connection.send_end()
            return
        self._seen = since
        closed: asyncio.Task[object] = asyncio.create_task(self._connection.wait_closed())
        try:
            while not closed.done() and self._connection.is_open:
                if until is not None and self._time() >= until:
                    await self.end()
                    return
                news = self._store.news  # what comes while the earlier is sent, is not missed
                delay = await self._show()
                waiter = asyncio.create_task(self._wait_for(news))
                pool: set[asyncio.Task[object]] = {waiter, closed}
                await asyncio.wait(pool, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
                waiter.cancel()
        finally:
            closed.cancel()

    async def send(self, type: str, obj: Json) -> None:
        self._shown_at = self._time()
        line = json.dumps({"type": type, "object": obj}).encode() + b"\n"
        await self._connection.send_chunk(line)

    async def send_raw(self, data: bytes) -> None:
        await self._connection.send_chunk(data)

    async def expire(self) -> None:
        """Tell that the history is forgotten, so that the objects are to be listed again."""
        await self.send("ERROR", make_status(410, "The resourceVersion is too old"))
        await self.end()

    async def end(self) -> None:
        """End the stream properly, as servers do from time to time."""
        await self._connection.send_end()
        self._connection.close()

    def close(self) -> None:
        """Close the connection in the middle of the stream."""
        self._connection.close()

    def reset(self) -> None:
        self._connection.reset()

    async def _wait_for(self, news: asyncio.Event) -> None:
        """Wait until there is something to be shown, or what is held can be released."""
        await news.wait()
        while not (self._pending or self._look()):
            await self._store.news.wait()

    def _look(self) -> bool:
        """Find what is to be shown of what is new; get whether there is anything."""
        if self._seen >= self._store.version:
            return False
        history = self._store.history
        start = bisect.bisect_right(history, self._seen, key=lambda change: change.version)
        news = [change for change in history[start:] if self._matches(change.key)]
        self._pending.extend(news)
        self._seen = self._store.version
        return bool(news)

    async def _show(self) -> float:
        """Send what can be seen already; get for how many seconds to wait for the rest."""
        self._look()
        late: list[Change] = []
        delays = [BOOKMARK_INTERVAL]
        for change in self._pending:
            delay = self._visibility.get_delay(change, self._time())
            if delay > 0 or any(other.key == change.key for other in late):
                late.append(change)
                if delay > 0:  # otherwise, it waits for an earlier change of the same object
                    delays.append(delay)
            else:
                presented = {**change.object, "apiVersion": self.kind.api_version}
                await self.send(change.type, presented)
        self._pending = deque(late)
        if self._bookmarks and not late:
            await self._send_bookmark()
        return max(min(delays), 0.001)

    async def _send_bookmark(self) -> None:
        if self._time() >= self._shown_at + BOOKMARK_INTERVAL:
            metadata = {"resourceVersion": str(self._seen)}
            obj = {"kind": self.kind.kind, "apiVersion": self.kind.api_version}
            await self.send("BOOKMARK", {**obj, "metadata": metadata})

    def _matches(self, key: Key) -> bool:
        return key[0] == self.kind.key and self.namespace in ("", key[1])
