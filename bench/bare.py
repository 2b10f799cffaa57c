"""A bare client of a real API server: the same traffic as that of the operators of ``beside``.

Usage: ``KUBECONFIG=... python -m bench.bare``. It lists and watches the objects, and notes each new
state of an object on the object, by one merge patch; ten at once. It keeps nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pathlib
import ssl
import tempfile
from typing import Any

import aiohttp
import yaml

from bench.floor import iter_lines

KIND = "/apis/kopf.dev/v1/kopfexamples"
NOTE = "bench.kopf.dev/handled"
MERGING = {"Content-Type": "application/merge-patch+json"}


def read_kubeconfig() -> tuple[str, ssl.SSLContext]:
    """The server's address, and how to be its admin."""
    config = yaml.safe_load(pathlib.Path(os.environ["KUBECONFIG"]).read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with tempfile.NamedTemporaryFile("wb") as file:  # only files can be loaded
        file.write(base64.b64decode(user["client-certificate-data"]) + b"\n")
        file.write(base64.b64decode(user["client-key-data"]))
        file.flush()
        context.load_cert_chain(file.name)
    return cluster["server"], context


class Client:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._limit = asyncio.Semaphore(10)

    async def run(self) -> None:
        async with self._session.get(KIND) as response:
            page = json.loads(await response.read())
        async with asyncio.TaskGroup() as group:
            for item in page["items"]:
                self._handle(group, item)
            params = {"watch": "true", "resourceVersion": page["metadata"]["resourceVersion"]}
            del page
            async with self._session.get(KIND, params=params) as response:
                async for line in iter_lines(response):
                    event = json.loads(line)
                    if event["type"] != "DELETED":
                        self._handle(group, event["object"])

    def _handle(self, group: asyncio.TaskGroup, body: dict[str, Any]) -> None:
        meta, note = body["metadata"], json.dumps({"spec": body["spec"]})
        if (meta.get("annotations") or {}).get(NOTE) != note:
            group.create_task(self._patch(meta["namespace"], meta["name"], note))

    async def _patch(self, namespace: str, name: str, note: str) -> None:
        url = f"/apis/kopf.dev/v1/namespaces/{namespace}/kopfexamples/{name}"
        payload = json.dumps({"metadata": {"annotations": {NOTE: note}}})
        async with (
            self._limit,
            self._session.patch(url, data=payload, headers=MERGING) as response,
        ):
            json.loads(await response.read())


async def main() -> None:
    server, context = read_kubeconfig()
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0, ssl=context)
    async with aiohttp.ClientSession(server, timeout=timeout, connector=connector) as session:
        await Client(session).run()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
