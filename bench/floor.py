"""The floor: the same traffic and the same result by a client with no framework around it.

``python -m bench.floor events`` lists, watches, parses, and counts. With ``patch``, it also puts
an annotation of the size of a last-handled state onto every object it sees.
"""

from __future__ import annotations

import asyncio
import os
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
    def __init__(self, session: aiohttp.ClientSession, server: str, patching: bool) -> None:
        self.session = session
        self.server = server
        self.patching = patching
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
        if not self.patching:
            self.cells.count(body["spec"].get("sent"))
        elif body["metadata"]["annotations"].get("floor") != f"{body['spec']['counter']}{PADDING}":
            task = asyncio.create_task(self.patch(body))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def patch(self, body: dict[str, Any]) -> None:
        async with self.limit:  # as many as the connections: more of them only cost memory
            await self.patch_now(body)

    async def patch_now(self, body: dict[str, Any]) -> None:
        note = f"{body['spec']['counter']}{PADDING}"
        url = yarl.URL(f"{self.server}{NAMESPACED_URL}/{body['metadata']['name']}", encoded=True)
        headers = {"Content-Type": "application/merge-patch+json"}
        data = dumps({"metadata": {"annotations": {"floor": note}}})
        async with self.session.patch(url, data=data, headers=headers) as response:
            loads(await response.read())
        self.cells.count(None)


async def iter_lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


async def main(server: str, mode: str) -> None:
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        await Floor(session, server, patching=mode == "patch").run()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(*sys.argv[1:]))
