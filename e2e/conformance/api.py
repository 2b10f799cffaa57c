"""A plain client of the API: no retries, no conversions, no caches between it and the server."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp

from e2e.clusters import Cluster

from .normal import ABSENT, pick

TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
PATIENCE = 60.0  # seconds to wait for what must come
ROOTS = {
    **dict.fromkeys(["deployments", "statefulsets"], "/apis/apps/v1"),
    "jobs": "/apis/batch/v1",
    "cronjobs": "/apis/batch/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
    "mutatingwebhookconfigurations": "/apis/admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations": "/apis/admissionregistration.k8s.io/v1",
    "plains": "/apis/conformance.kopf.dev/v1",
    "stricts": "/apis/conformance.kopf.dev/v1",
}
CLUSTER_SCOPED = {
    "namespaces",
    "customresourcedefinitions",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
}


@dataclasses.dataclass(frozen=True)
class Reply:
    """A response of the server, read in full."""

    code: int
    body: Any
    headers: Mapping[str, str]

    def __getitem__(self, path: str) -> Any:
        return pick(self.body, path)

    @property
    def ok(self) -> bool:
        return self.code < 300

    @property
    def name(self) -> str:
        return str(self["metadata.name"])

    @property
    def version(self) -> str:
        return str(self["metadata.resourceVersion"])

    @property
    def warnings(self) -> list[str]:
        return [v for k, v in self.headers.items() if k.lower() == "warning"]

    def show(self, *paths: str) -> Any:
        """Show the code and the requested fields; of failures and texts, everything."""
        if isinstance(self.body, str):
            return {"code": self.code, "text": self.body}
        if isinstance(self.body, dict) and self.body.get("kind") == "Status":
            status = {k: v for k, v in self.body.items() if k not in ("kind", "apiVersion", "code")}
            return {"code": self.code, **{k: v for k, v in status.items() if v}}
        return {"code": self.code, **{path: self[path] for path in paths}}


class Watch:
    """A stream of events, some of which are taken."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        super().__init__()
        self._response = response
        self.code = response.status

    async def next(self, patience: float = PATIENCE) -> dict[str, Any] | None:
        """Get the next event, or None if the stream has ended or nothing comes."""
        try:
            line = await asyncio.wait_for(self._response.content.readline(), patience)
        except TimeoutError:
            return {"type": "(nothing comes)"}
        event: dict[str, Any] | None = json.loads(line) if line.strip() else None
        return event

    async def until(self, type: str, name: str | None = None) -> list[dict[str, Any]]:
        """Get the events up to the one of the type (and of the object), if it comes."""
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
            same_name = name is None or pick(event, "object.metadata.name") == name
            if (event["type"] == type and same_name) or "object" not in event:
                break
        return events

    async def rest(self) -> list[dict[str, Any]]:
        """Get all events until the stream ends."""
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
            if "object" not in event:
                break
        return events


def brief(events: list[dict[str, Any]], *paths: str) -> list[Any]:
    """Show the types of the events with the names of their objects, or with other fields."""
    chosen = paths or ("metadata.name",)
    shown = []
    for event in events:
        values = [pick(event.get("object"), path) for path in chosen]
        shown.append([event["type"], *(value for value in values if value is not ABSENT)])
    return shown


class Api:
    """The API of a cluster, with a namespace of its own for each behaviour.

    The resources can be named by their plurals alone, and are in the own namespace then;
    or they are named by their whole paths.
    """

    def __init__(self, cluster: Cluster, session: aiohttp.ClientSession) -> None:
        super().__init__()
        self.cluster = cluster
        self.session = session
        self.namespace = f"conformance-{secrets.token_hex(4)}"

    def path(self, what: str) -> str:
        if what.startswith("/"):
            return what
        plural = what.partition("/")[0]
        root = ROOTS.get(plural, "/api/v1")
        if plural in CLUSTER_SCOPED:
            return f"{root}/{what}"
        return f"{root}/namespaces/{self.namespace}/{what}"

    async def request(
        self,
        method: str,
        what: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Reply:
        data = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        sent = {"Content-Type": "application/json"} if data is not None else {}
        sent |= {"Accept": "application/json", **(headers or {})}
        strings = {key: str(value) for key, value in (params or {}).items()}
        async with self.session.request(
            method, f"{self.cluster.url}{self.path(what)}", data=data, headers=sent, params=strings
        ) as response:
            text = await response.text()
            is_json = text and "json" in response.headers.get("Content-Type", "")
            return Reply(response.status, json.loads(text) if is_json else text, response.headers)

    async def create(self, what: str, body: Any, **params: Any) -> Reply:
        return await self.request("POST", what, body, params=params)

    async def get(self, what: str, **params: Any) -> Reply:
        return await self.request("GET", what, params=params)

    async def put(self, what: str, body: Any, **params: Any) -> Reply:
        return await self.request("PUT", what, body, params=params)

    async def delete(self, what: str, body: Any = None, **params: Any) -> Reply:
        return await self.request("DELETE", what, body, params=params)

    async def patch(self, what: str, body: Any, kind: str = "merge", **params: Any) -> Reply:
        headers = {"Content-Type": TYPES.get(kind, kind)}
        return await self.request("PATCH", what, body, headers=headers, params=params)

    async def make(self, what: str, body: Any = None, name: str = "x") -> Reply:
        """Create an object that has to be there for something else: it must succeed."""
        whole = {**(body or {})}
        whole["metadata"] = {"name": name, **whole.get("metadata", {})}
        reply = await self.create(what, {**KINDS.get(what, {}), **whole})
        assert reply.ok, f"{what} cannot be created: {reply.body}"
        return reply

    @contextlib.asynccontextmanager
    async def watch(self, what: str, **params: Any) -> AsyncIterator[Watch]:
        query = {"watch": "true", **{key: str(value) for key, value in params.items()}}
        url = f"{self.cluster.url}{self.path(what)}"
        timeout = aiohttp.ClientTimeout(total=None)
        async with self.session.get(url, params=query, timeout=timeout) as response:
            yield Watch(response)

    async def seen(self, what: str, reply: Reply) -> Reply:
        """Wait until the server's own cache has the version of the reply.

        A server applies a change to its cached object first. If that object is out of date, the
        server tries again with the stored one, and calls the webhooks again.
        """
        await self.get(what, resourceVersion=reply.version)
        return reply

    async def settle(self, what: str, path: str, value: Any, patience: float = PATIENCE) -> Reply:
        """Wait until the field of the object has the value; its absence, for those gone."""
        deadline = asyncio.get_running_loop().time() + patience
        while True:
            reply = await self.get(what)
            settled = not reply.ok if value is ABSENT and not path else reply[path] == value
            if settled or asyncio.get_running_loop().time() > deadline:
                return reply
            await asyncio.sleep(0.05)


KINDS: dict[str, dict[str, Any]] = {
    "plains": {"apiVersion": "conformance.kopf.dev/v1", "kind": "Plain"},
    "stricts": {"apiVersion": "conformance.kopf.dev/v1", "kind": "Strict"},
    "customresourcedefinitions": {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
    },
}


@contextlib.asynccontextmanager
async def connect(cluster: Cluster) -> AsyncIterator[aiohttp.ClientSession]:
    """Open a session with the credentials of the cluster."""
    context: ssl.SSLContext | bool = cluster.make_ssl_context() or False
    connector = aiohttp.TCPConnector(limit=0, ssl=context)
    timeout = aiohttp.ClientTimeout(total=60)
    headers = cluster.make_headers()
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, headers=headers
    ) as session:
        yield session
