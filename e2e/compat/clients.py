"""A minimal client of the API for the scripts of the cases, independent of both generations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Self

import aiohttp

from e2e.clusters import Cluster

from .definitions import API, CLUSTERED

MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The API has refused what a script wanted."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status


class Api:
    """Requests to the cluster as its admin."""

    def __init__(self, cluster: Cluster) -> None:
        self._url = cluster.url
        self._headers = cluster.make_headers()
        self._context = cluster.make_ssl_context()

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._context or True)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        self._session = aiohttp.ClientSession(
            connector=connector, headers=self._headers, timeout=timeout
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def request(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Make one request; the statuses from 400 on are raised as errors."""
        kind = MERGE if method == "PATCH" else "application/json"
        async with self._session.request(
            method,
            self._url + path,
            data=None if body is None else json.dumps(body),
            headers={} if body is None else {"Content-Type": kind},
        ) as response:
            answer: dict[str, Any] = await response.json(content_type=None)
            if response.status >= 400:
                raise ApiError(response.status, str(answer.get("message")))
            return answer

    async def ensure(self, path: str, body: dict[str, Any]) -> None:
        """Create what may exist already."""
        try:
            await self.request("POST", path, body)
        except ApiError as e:
            if e.status != 409:
                raise

    async def watch(self, path: str, version: str = "") -> AsyncIterator[dict[str, Any]]:
        """Yield the events since the version; by default, the first ones are of what exists."""
        while True:
            if not version:
                listed = await self.request("GET", path)
                version = listed["metadata"]["resourceVersion"]
                for item in listed["items"]:
                    yield {"type": "ADDED", "object": item}
            url = f"{self._url}{path}?watch=true&resourceVersion={version}"
            try:
                async with self._session.get(url) as response:
                    async for line in response.content:
                        event: dict[str, Any] = json.loads(line)
                        if event["type"] == "ERROR":
                            version = ""
                            break
                        version = event["object"]["metadata"]["resourceVersion"]
                        yield event
            except (aiohttp.ClientError, ValueError):
                version = ""
                await asyncio.sleep(0.1)


def make_path(plural: str, namespace: str, name: str | None = None, sub: str | None = None) -> str:
    """The path of the objects of the kind, or of one of them."""
    scope = "" if plural == CLUSTERED else f"/namespaces/{namespace}"
    return "/".join([f"{API}{scope}/{plural}", *(part for part in (name, sub) if part)])
