"""The fake API itself: connections, requests, and what the tests do with objects."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Callable
from typing import Any, Self

from e2e.chaos.fake.errors import Refusal
from e2e.chaos.fake.executor import Executor
from e2e.chaos.fake.faults import Action, Exchange, Hook, Hooks
from e2e.chaos.fake.http import Connection, Reply, Request
from e2e.chaos.fake.journal import PATIENCE, Check, Entry, Journal
from e2e.chaos.fake.kinds import BUILTINS, CRDS, KEX, NAMESPACES, Json, Kind
from e2e.chaos.fake.routing import route
from e2e.chaos.fake.store import Change, Key, Store, merging, read_clock
from e2e.chaos.fake.watching import Hold, Visibility, WatchStream

NAMESPACE = "default"


class FakeAPI:
    """A Kubernetes API on a local port: ``async with FakeAPI() as api``."""

    def __init__(self, *kinds: Kind, now: Callable[[], datetime.datetime] = read_clock) -> None:
        self.kinds: list[Kind] = [*BUILTINS, *(kinds or [KEX])]
        self.store = Store(now)
        self.journal = Journal()
        self.visibility = Visibility(self.store)
        self.streams: list[WatchStream] = []
        self.url = ""
        self.token: str | None = None
        """The only valid token; none if any are accepted."""

        self._hooks = Hooks()
        self._executor = Executor(self.store, self.kinds)
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: dict[Connection, None] = {}  # in order: the order of resets matters
        self._server: asyncio.Server | None = None
        self.store.create(_key(NAMESPACES, "", NAMESPACE), _body(NAMESPACES), author="test")
        for kind in kinds or [KEX]:
            self._publish(kind)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=2**24)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # What goes wrong.

    def on(self, check: Check, action: Action, *, times: float = float("inf")) -> Hook:
        """Take over the matching requests: all of them, or only the first few."""
        return self._hooks.add(check, action, times=times)

    def clear_hooks(self) -> None:
        self._hooks.clear()

    def hold(self, check: Callable[[Change], bool]) -> Hold:
        """Do not show the matching changes in the streams until released."""
        return self.visibility.hold(check)

    def lag(self, seconds: float, name: str | None = None) -> None:
        """Show changes later: all of them, or only those of one object."""
        self.visibility.lag(seconds, name)

    def stale_lists(self, kind: Kind, version: int | None) -> None:
        """List the objects as they were at the version, until set to nothing."""
        self._executor.stale[kind.key] = version

    def travel(self, version: int) -> None:
        """Restore a backup: what was later has never happened.

        All connections are broken off, as the API servers are restarted for that. So no change
        that was on its way gets to the restored objects.
        """
        self.store.restore(version)
        for connection in [*self._connections]:
            connection.reset()

    # What is there.

    def define(self, kind: Kind) -> None:
        """Add a kind, or replace it by a changed one."""
        self.kinds[:] = [
            other for other in self.kinds if (other.key, other.version) != (kind.key, kind.version)
        ]
        self.kinds.append(kind)
        self._publish(kind)

    def undefine(self, kind: Kind) -> None:
        """Remove the kind with all its objects; its streams are ended."""
        self.kinds.remove(kind)
        self.store.delete(_key(CRDS, "", f"{kind.plural}.{kind.group}"), author="test")
        for key in [key for key in self.store.objects if key[0] == kind.key]:
            self.store.change(
                key, merging({"metadata": {"finalizers": None}}), status=None, author="test"
            )
            if key in self.store.objects:
                self.store.delete(key, author="test")
        for stream in [*self.streams]:
            if stream.kind.key == kind.key:
                stream.close()

    def _publish(self, kind: Kind) -> None:
        key = _key(CRDS, "", f"{kind.plural}.{kind.group}")
        if key in self.store.objects:
            body = kind.define()
            self.store.change(key, merging({"spec": body["spec"]}), status=None, author="test")
        else:
            self.store.create(key, kind.define(), author="test")

    def create(self, name: str = "one", *, kind: Kind = KEX, **body: Any) -> Json:
        key = _key(kind, NAMESPACE if kind.namespaced else "", name)
        return self.store.create(key, {**_body(kind), **body}, author="test")

    def patch(self, patch: Json, name: str = "one", *, kind: Kind = KEX) -> Json:
        """Change the object with no regard to what is a subresource and what is not."""
        key = _key(kind, NAMESPACE if kind.namespaced else "", name)
        return self.store.change(key, merging(patch), status=None, author="test")

    def delete(self, name: str = "one", *, kind: Kind = KEX) -> Json:
        key = _key(kind, NAMESPACE if kind.namespaced else "", name)
        return self.store.delete(key, author="test")

    def find(self, name: str = "one", *, kind: Kind = KEX) -> Json | None:
        return self.store.objects.get(_key(kind, NAMESPACE if kind.namespaced else "", name))

    async def until(
        self, check: Callable[[Json], Any], name: str = "one", *, kind: Kind = KEX
    ) -> Json:
        """Wait until the object exists and is as wanted."""
        try:
            async with asyncio.timeout(PATIENCE):
                while (found := self.find(name, kind=kind)) is None or not check(found):
                    await self.store.news.wait()
        except TimeoutError:
            raise AssertionError(
                f"It has never been so. The object is:\n{found}\nThe requests were:\n{self.journal}"
            ) from None
        return found

    async def until_gone(self, name: str = "one", *, kind: Kind = KEX) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while (found := self.find(name, kind=kind)) is not None:
                    await self.store.news.wait()
        except TimeoutError:
            raise AssertionError(
                f"It is still there:\n{found}\nThe requests were:\n{self.journal}"
            ) from None

    async def until_watched(self, kind: Kind = KEX, *, count: int = 1) -> list[WatchStream]:
        """Wait until there are so many open streams for the kind."""
        async with asyncio.timeout(PATIENCE):
            while len(found := self.get_streams(kind)) < count:
                await self.store.news.wait()
        return found

    def get_streams(self, kind: Kind = KEX) -> list[WatchStream]:
        return [stream for stream in self.streams if stream.kind.key == kind.key]

    # How requests are served.

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = Connection(reader, writer)
        self._connections[connection] = None
        try:
            while connection.is_open and (request := await connection.receive()) is not None:
                await self._serve(request, connection)
        except asyncio.CancelledError:
            pass  # asyncio complains of cancelled servers' tasks otherwise
        finally:
            self._tasks.discard(task)
            del self._connections[connection]
            with contextlib.suppress(OSError):
                connection.close()

    async def _serve(self, request: Request, connection: Connection) -> None:
        target = route(request, self.kinds)
        entry = self.journal.add(request, target)
        exchange = Exchange(
            entry,
            connection,
            _execute=lambda: self._execute(entry),
            _serve=lambda: self._reply(entry, connection),
        )
        action = self._hooks.take(entry)
        await (exchange.serve() if action is None else action(exchange))
        self.journal.notify()

    def _execute(self, entry: Entry) -> Reply:
        try:
            self._authenticate(entry.request)
            status, payload = self._executor.execute(entry.request, entry.target)
        except Refusal as e:
            status, payload = e.code, e.body
        entry.is_committed = True
        entry.status = status
        entry.version = (payload.get("metadata") or {}).get("resourceVersion")
        self.journal.notify()
        return Reply.make(status, payload)

    async def _reply(self, entry: Entry, connection: Connection) -> None:
        if entry.verb != "watch":
            await connection.send(self._execute(entry).encode())
            return
        try:
            self._authenticate(entry.request)
            since = int(entry.request.query.get("resourceVersion") or 0)
            if since > self.store.version:
                raise Refusal(504, f"Too large resource version: {since}", "Timeout")
        except Refusal as e:
            entry.status = e.code
            self.journal.notify()
            await connection.send(Reply.make(e.code, e.body).encode())
            return
        await self._watch(entry, connection, since)

    async def _watch(self, entry: Entry, connection: Connection, since: int) -> None:
        kind, query = entry.target.kind, entry.request.query
        assert kind is not None
        stream = WatchStream(
            self.store,
            self.visibility,
            connection,
            kind,
            entry.target.namespace,
            bookmarks=query.get("allowWatchBookmarks") in ("true", "1"),
        )
        limit = query.get("timeoutSeconds")
        until = None if limit is None else asyncio.get_running_loop().time() + float(limit)
        entry.is_committed = True
        entry.status = 200
        self.streams.append(stream)
        self.store.notify()
        try:
            await stream.run(since, until)
        finally:
            self.streams.remove(stream)
            self.store.notify()

    def _authenticate(self, request: Request) -> None:
        given = request.headers.get("authorization")
        if self.token is not None and given != f"Bearer {self.token}":
            raise Refusal(401, "Unauthorized")


def _key(kind: Kind, namespace: str, name: str) -> Key:
    return kind.key, namespace, name


def _body(kind: Kind) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}}
