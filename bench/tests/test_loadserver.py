"""The load server must be a truthful API server where operators can tell: over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from bench.loadserver.api import CLUSTER_URL, NAMESPACED_URL, Api
from bench.loadserver.http import Connection
from bench.loadserver.store import Store

OBJECT_URL = NAMESPACED_URL + "/obj-000000"
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON = {"Content-Type": "application/json-patch+json"}


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    store = Store()
    store.reset(3)
    api = Api(store)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(api), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with aiohttp.ClientSession(url) as session:
        yield session
    server.close()


async def get(client: aiohttp.ClientSession, url: str) -> Any:
    async with client.get(url) as response:
        return await response.json()


async def patch(client: aiohttp.ClientSession, data: Any, headers: dict[str, str]) -> Any:
    async with client.patch(OBJECT_URL, data=json.dumps(data), headers=headers) as response:
        return response.status, await response.json()


async def next_event(response: aiohttp.ClientResponse) -> Any:
    return json.loads(await asyncio.wait_for(response.content.readline(), timeout=30))


async def test_lists_come_whole_and_in_pages(client: aiohttp.ClientSession) -> None:
    whole = await get(client, CLUSTER_URL)
    first = await get(client, CLUSTER_URL + "?limit=2")
    second = await get(client, f"{CLUSTER_URL}?limit=2&continue={first['metadata']['continue']}")
    assert len(whole["items"]) == 3
    assert first["items"] + second["items"] == whole["items"]
    assert "continue" not in second["metadata"]


async def test_pages_show_the_same_moment(client: aiohttp.ClientSession) -> None:
    whole = await get(client, CLUSTER_URL)
    first = await get(client, CLUSTER_URL + "?limit=1")
    async with client.patch(NAMESPACED_URL + "/obj-000001", data='{"spec":{"x":1}}'):
        pass
    second = await get(client, f"{CLUSTER_URL}?limit=5&continue={first['metadata']['continue']}")
    assert second["items"] == whole["items"][1:]
    assert second["metadata"] == whole["metadata"]


async def test_merge_patches_are_applied_and_watched(client: aiohttp.ClientSession) -> None:
    version = (await get(client, CLUSTER_URL))["metadata"]["resourceVersion"]
    data = {"metadata": {"annotations": {"a": "b", "example.com/owner": None}}}
    status, body = await patch(client, data, MERGE)
    assert status == 200
    assert body["metadata"]["annotations"]["a"] == "b"
    assert "example.com/owner" not in body["metadata"]["annotations"]
    # Even what happened between the listing and the watching.
    url = f"{CLUSTER_URL}?watch=true&resourceVersion={version}"
    async with client.get(url) as response:
        assert await next_event(response) == {"type": "MODIFIED", "object": body}


async def test_noop_patches_change_no_version(client: aiohttp.ClientSession) -> None:
    before = await get(client, OBJECT_URL)
    assert await patch(client, {"spec": {"counter": 0}}, MERGE) == (200, before)


async def test_json_patches_check_the_version(client: aiohttp.ClientSession) -> None:
    version = (await get(client, OBJECT_URL))["metadata"]["resourceVersion"]
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
    add = {"op": "add", "path": "/metadata/finalizers", "value": ["x"]}
    status, body = await patch(client, [test, add], JSON)
    assert (status, body["metadata"]["finalizers"]) == (200, ["x"])
    status, _ = await patch(client, [test, add], JSON)
    assert status == 422


async def test_finalizers_block_deletion(client: aiohttp.ClientSession) -> None:
    await patch(client, {"metadata": {"finalizers": ["x"]}}, MERGE)
    async with client.get(f"{CLUSTER_URL}?watch=true&resourceVersion=1001") as response:
        async with client.delete(OBJECT_URL):
            pass
        event = await next_event(response)
        assert event["type"] == "MODIFIED"
        assert event["object"]["metadata"]["deletionTimestamp"]
        await patch(client, [{"op": "remove", "path": "/metadata/finalizers/0"}], JSON)
        assert (await next_event(response))["type"] == "DELETED"
    async with client.get(OBJECT_URL) as response:
        assert response.status == 404


async def test_bursts_are_watched_entirely_and_counted(client: aiohttp.ClientSession) -> None:
    async with client.get(f"{CLUSTER_URL}?watch=true&resourceVersion=1000") as response:
        await get(client, "/_bench/burst?n=500")
        versions = [
            int((await next_event(response))["object"]["metadata"]["resourceVersion"])
            for _ in range(500)
        ]
    assert versions == list(range(1001, 1501))
    assert (await get(client, "/_bench/stats"))["watches"] == 1


async def test_the_gate_holds_lists_back(client: aiohttp.ClientSession) -> None:
    await get(client, "/_bench/gate")
    listing = asyncio.create_task(get(client, CLUSTER_URL))
    while (await get(client, "/_bench/stats"))["gated"] == 0:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert not listing.done()
    await get(client, "/_bench/open")
    assert len((await listing)["items"]) == 3
