"""A recording proxy between an operator and the API server: what an operator asks the API for."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

import aiohttp
import yaml
from aiohttp import web

from e2e.clusters import Cluster

PASSED = ("content-type", "accept")
HUGE = 2**28


@dataclasses.dataclass(frozen=True)
class Request:
    """A request that changes something."""

    method: str
    path: str
    kind: str
    body: Any
    status: int


class Proxy:
    """Serves on a port of its own over plain HTTP, and forwards everything to the cluster.

    ``on_activity`` is called on everything but the idling of the watch-streams.
    """

    def __init__(self, cluster: Cluster, on_activity: Callable[[], None]) -> None:
        self._cluster = cluster
        self._on_activity = on_activity
        self.requests: list[Request] = []
        self.watched: set[str] = set()
        """The paths that are being watched, or have been since the last reset."""
        self.running = 0
        """How many requests are being served now, not counting the watch-streams."""

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._cluster.make_ssl_context() or True)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._cluster.make_headers(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        application = web.Application(client_max_size=HUGE)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            application, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await self._session.close()

    def write_kubeconfig(self, path: Path) -> None:
        """Tell the operator to come here."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "compat", "cluster": {"server": self.url}}],
            "users": [{"name": "compat", "user": {"token": "compat"}}],
            "contexts": [{"name": "compat", "context": {"cluster": "compat", "user": "compat"}}],
            "current-context": "compat",
        }
        path.write_text(yaml.safe_dump(content), encoding="utf-8")

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        query = parse_qs(request.query_string)
        is_watching = query.get("watch", ["false"])[0] in ("true", "1")
        if not is_watching:
            self.running += 1
        try:
            return await self._forward(request, is_watching)
        except (aiohttp.ClientError, ConnectionError):
            return web.Response(status=502)
        finally:
            if not is_watching:
                self.running -= 1
                self._on_activity()

    async def _forward(self, request: web.Request, is_watching: bool) -> web.StreamResponse:
        payload = await request.read()
        headers = {key: val for key, val in request.headers.items() if key.lower() in PASSED}
        headers["Accept-Encoding"] = "identity"
        async with self._session.request(
            request.method,
            self._cluster.url + request.path_qs,
            data=payload or None,
            headers=headers,
        ) as response:
            kind = response.headers.get("Content-Type", "application/json")
            if is_watching:
                self.watched.add(request.path)
                return await self._stream(request, response, kind)
            # Questions about rights are asked by the new generation only. They change nothing.
            if request.method != "GET" and "/authorization.k8s.io/" not in request.path:
                self._record(request, payload, response.status)
            body = await response.read()
            return web.Response(status=response.status, body=body, headers={"Content-Type": kind})

    async def _stream(
        self, request: web.Request, response: aiohttp.ClientResponse, kind: str
    ) -> web.StreamResponse:
        stream = web.StreamResponse(status=response.status, headers={"Content-Type": kind})
        await stream.prepare(request)
        async for chunk in response.content.iter_any():
            self._on_activity()
            await stream.write(chunk)
        await stream.write_eof()
        return stream

    def _record(self, request: web.Request, payload: bytes, status: int) -> None:
        kind = request.headers.get("Content-Type", "").removeprefix("application/")
        body = json.loads(payload) if payload else None
        self.requests.append(Request(request.method, request.path, kind, body, status))


async def wait_until(condition: Callable[[], bool], timeout: float, interval: float = 0.03) -> bool:
    """Wait until the condition is met; tells whether it is, before the time is out."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while not condition():
        if loop.time() > deadline:
            return False
        await asyncio.sleep(interval)
    return True
