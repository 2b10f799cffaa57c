"""A gateway between operators and the API server, where single requests can be stopped or refused.

It speaks plain HTTP with operators, and forwards everything on behalf of the cluster's admin.
So, the faults and the journal are there with any cluster, not only with the sandbox.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from e2e.clusters import Cluster

WRITING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
SKIPPED = frozenset({"host", "connection", "transfer-encoding", "content-length", "keep-alive"})
"""The headers that are about connections, not about requests; there are other connections."""


@dataclass(slots=True)
class Request:
    """One request of operators; the status is that of the API server, or of the fault."""

    method: str
    path: str
    body: bytes
    query: str = ""
    status: int | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_write(self) -> bool:
        is_aside = self.path.endswith("/events") or "/authorization.k8s.io/" in self.path
        return self.method in WRITING and not is_aside


class Stop:
    """The point where the matching request with this number (from 0) is held for ever.

    With ``commit_first``, the API server has done what it was told to, but nobody knows of it.
    """

    def __init__(self, match: Callable[[Request], bool], number: int, commit_first: bool) -> None:
        self.commit_first = commit_first
        self.reached = asyncio.Event()
        self._match = match
        self._left = number

    def takes(self, request: Request) -> bool:
        if self.reached.is_set() or not self._match(request):
            return False
        self._left -= 1
        return self._left < 0


class Gateway:
    """The requests of operators, in the order of their arrival, and what becomes of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._session: aiohttp.ClientSession
        self._closing: asyncio.Event
        self._serving: set[asyncio.Task[Any]] = set()
        self.url = ""
        self.requests: list[Request] = []
        self.stop: Stop | None = None
        self.refuse: Callable[[Request], int | None] = lambda request: None
        """Which status to reply with instead of forwarding; 0 is for no reply at all."""

        self.precede: Callable[[Request], Any] | None = None
        """What to do (a coroutine function) before a write is forwarded."""

    def find_writes(self, since: int = 0) -> list[str]:
        return [f"{r.method} {r.name}" for r in self.requests[since:] if r.is_write]

    def write_kubeconfig(self, path: pathlib.Path) -> pathlib.Path:
        cluster = {"name": "it", "cluster": {"server": self.url}}
        context = {"name": "it", "context": {"cluster": "it", "user": "it"}}
        user = {"name": "it", "user": {}}
        config = {"current-context": "it", "clusters": [cluster], "contexts": [context]}
        path.write_text(json.dumps({**config, "users": [user]}), encoding="utf-8")
        return path

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Gateway]:
        self._closing = asyncio.Event()
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(app, shutdown_timeout=0, access_log=None)
        connector = aiohttp.TCPConnector(ssl=self._cluster.make_ssl_context() or True, limit=0)
        headers = self._cluster.make_headers()
        self._session = aiohttp.ClientSession(
            headers=headers, connector=connector, auto_decompress=False
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            self._closing.set()
            await asyncio.gather(*self._serving, return_exceptions=True)
            await self._session.close()
            await runner.cleanup()

    async def _serve(self, incoming: web.Request) -> web.StreamResponse:
        request = Request(
            incoming.method, incoming.path, await incoming.read(), incoming.query_string
        )
        self.requests.append(request)
        refused = self.refuse(request)
        if refused is not None:
            return self._refuse(incoming, request, refused)
        if self.precede is not None and request.is_write:
            await self.precede(request)
        stop = self.stop if self.stop is not None and self.stop.takes(request) else None
        forwarding = asyncio.create_task(self._forward(incoming, request, stop))
        closing = asyncio.create_task(self._closing.wait())
        self._serving |= {forwarding, closing}
        await asyncio.wait([forwarding, closing], return_when=asyncio.FIRST_COMPLETED)
        for task in (forwarding, closing):
            task.cancel()
        [outcome, _] = await asyncio.gather(forwarding, closing, return_exceptions=True)
        self._serving -= {forwarding, closing}
        if isinstance(outcome, web.StreamResponse):
            return outcome
        return self._refuse(incoming, request, 0)

    async def _forward(
        self, incoming: web.Request, request: Request, stop: Stop | None
    ) -> web.StreamResponse:
        if stop is not None and not stop.commit_first:
            await self._hold(stop)
        async with self._session.request(
            incoming.method,
            f"{self._cluster.url}{incoming.rel_url}",
            data=request.body or None,
            headers={k: v for k, v in incoming.headers.items() if k.lower() not in SKIPPED},
            timeout=aiohttp.ClientTimeout(total=None),
        ) as response:
            request.status = response.status
            if stop is not None:
                await response.read()
                await self._hold(stop)
            return await self._pass(incoming, response)

    async def _pass(
        self, incoming: web.Request, response: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        headers = {k: v for k, v in response.headers.items() if k.lower() not in SKIPPED}
        outgoing = web.StreamResponse(status=response.status, headers=headers)
        await outgoing.prepare(incoming)
        async for chunk in response.content.iter_any():
            await outgoing.write(chunk)
        await outgoing.write_eof()
        return outgoing

    async def _hold(self, stop: Stop) -> None:
        stop.reached.set()
        await self._closing.wait()  # until the operator is killed, and the test is over
        raise ConnectionAbortedError

    def _refuse(self, incoming: web.Request, request: Request, status: int) -> web.StreamResponse:
        request.status = request.status or status
        if not status:
            if incoming.transport is not None:
                incoming.transport.abort()
            return web.Response()
        reason = {403: "Forbidden", 409: "Conflict", 422: "Invalid", 429: "TooManyRequests"}
        body = {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": status,
            "reason": reason.get(status, "InternalError"),
            "message": "It is a fault of the test.",
        }
        return web.json_response(body, status=status)
