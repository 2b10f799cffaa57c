"""The floor: the same traffic and the same result by a client with no framework around it.

``python -m bench.floor events`` lists, watches, parses, and counts. With ``patch``, it also puts
an annotation of the size of a last-handled state onto every object it sees. With ``release``, it
puts a finalizer onto every object, and removes it when the object is being deleted.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import yarl

from bench.cells import Cells

URL = "/apis/kopf.dev/v1/kopfexamples"
NAMESPACED_URL = "/apis/kopf.dev/v1/namespaces/bench/kopfexamples"
PADDING = "x" * 700

loads: Callable[[bytes], Any]
if os.environ.get("BENCH_ORJSON") == "1":
    import orjson

    loads = orjson.loads

    def dumps(value: Any) -> bytes:
        return orjson.dumps(value)

else:
    import json

    loads = json.loads

    def dumps(value: Any) -> bytes:
        return json.dumps(value).encode()


class Floor:
    def __init__(self, session: aiohttp.ClientSession, server: str, mode: str) -> None:
        self.session = session
        self.server = server
        self.mode = mode
        self.cells = Cells(os.environ["BENCH_CELLS"])
        self.tasks: set[asyncio.Task[None]] = set()
        self.limit = asyncio.Semaphore(50)

    async def run(self) -> None:
        async with self.session.get(self.server + URL) as response:
            page = loads(await response.read())
        for item in page["items"]:
            self.handle(item)
        version = page["metadata"]["resourceVersion"]
        url = f"{self.server}{URL}?watch=true&resourceVersion={version}"
        async with self.session.get(url) as response:
            async for line in iter_lines(response):
                self.handle(loads(line)["object"])

    def handle(self, body: dict[str, Any]) -> None:
        if self.mode not in CHANGES:
            self.cells.count(body["spec"].get("sent"))
        elif (change := CHANGES[self.mode](body)) is not None:
            task = asyncio.create_task(self.patch(body, change))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def patch(self, body: dict[str, Any], change: dict[str, Any]) -> None:
        async with self.limit:  # as many as the connections: more of them only cost memory
            await self.patch_now(body, change)
            if self.mode == "patch" or "deletionTimestamp" in body["metadata"]:
                self.cells.count(None)

    async def patch_now(self, body: dict[str, Any], change: dict[str, Any]) -> None:
        url = yarl.URL(f"{self.server}{NAMESPACED_URL}/{body['metadata']['name']}", encoded=True)
        headers = {"Content-Type": "application/merge-patch+json"}
        data = dumps({"metadata": change})
        async with self.session.patch(url, data=data, headers=headers) as response:
            loads(await response.read())


def annotate(body: dict[str, Any]) -> dict[str, Any] | None:
    note = f"{body['spec']['counter']}{PADDING}"
    is_done = body["metadata"]["annotations"].get("floor") == note
    return None if is_done else {"annotations": {"floor": note}}


def release(body: dict[str, Any]) -> dict[str, Any] | None:
    """Add the finalizer, or remove it."""
    metadata = body["metadata"]
    is_deleted, is_held = "deletionTimestamp" in metadata, bool(metadata.get("finalizers"))
    if is_deleted != is_held:
        return None
    return {"finalizers": [] if is_deleted else ["kopf.dev/floor"]}


CHANGES = {"patch": annotate, "release": release}
"""The functions that make the changes of the metadata, by the mode."""


async def iter_lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


async def main(server: str, mode: str) -> None:
    timeout = aiohttp.ClientTimeout(total=None)
    trust = os.environ.get("BENCH_CA")
    context = ssl.create_default_context(cafile=trust) if trust else True
    connector = aiohttp.TCPConnector(limit=0, ssl=context)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        await Floor(session, server, mode).run()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(*sys.argv[1:]))
