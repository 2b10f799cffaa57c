import asyncio
import json

import aiohttp
import pytest

from kopf_kits.sandbox import ClusterOptions, Sandbox
from kopf_kits.sandbox.store.views import object_view
from kopf_kits.sandbox.verbs.watches import Watch, WatchOptions

from .conftest import make_crd

OBJECTS = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
ALL = "/apis/kopf.dev/v1/kopfexamples"


class Stream:
    """A watch-stream which is read line by line."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> dict:
        return json.loads(await self.response.content.readline())

    async def types(self, count: int) -> list[tuple[str, str]]:
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


@pytest.fixture
async def watch(client, crd):
    opened = []

    async def open(path: str) -> Stream:
        response = await client.session.get(path)
        assert response.status == 200
        opened.append(response)
        return Stream(response)

    yield open
    for response in opened:
        response.close()


async def test_events_as_they_happen(client, watch, make_object):
    stream = await watch(f"{OBJECTS}?watch=true")
    await client.post(OBJECTS, make_object())
    await client.merge(f"{OBJECTS}/x", {"spec": {"a": 1}})
    await client.delete(f"{OBJECTS}/x")
    events = [await stream.next() for _ in range(3)]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert events[2]["object"]["spec"] == {"a": 1}


async def test_existing_objects_first(client, watch, make_object):
    await client.post(OBJECTS, make_object("a"))
    await client.post(OBJECTS, make_object("b"))
    for query in ("watch=1", "watch=1&resourceVersion=0"):
        stream = await watch(f"{OBJECTS}?{query}")
        assert await stream.types(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_from_a_version_of_a_list(client, watch, make_object):
    await client.post(OBJECTS, make_object("a"))
    listed = (await client.get(OBJECTS)).json
    await client.post(OBJECTS, make_object("b"))
    stream = await watch(
        f"{OBJECTS}?watch=1&resourceVersion={listed['metadata']['resourceVersion']}"
    )
    await client.post(OBJECTS, make_object("c"))
    assert await stream.types(2) == [("ADDED", "b"), ("ADDED", "c")]


async def test_other_namespaces_are_not_seen(sandbox, client, watch, make_object):
    await sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    local = await watch(f"{OBJECTS}?watch=1")
    everything = await watch(f"{ALL}?watch=1")
    await client.post(OBJECTS.replace("default", "other"), make_object("a"))
    await client.post(OBJECTS, make_object("b"))
    assert await local.types(1) == [("ADDED", "b")]
    assert await everything.types(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_selectors_turn_modifications_into_additions_and_deletions(
    client, watch, make_object
):
    stream = await watch(f"{OBJECTS}?watch=1&labelSelector=a%3Db")
    await client.post(OBJECTS, make_object())
    await client.merge(f"{OBJECTS}/x", {"metadata": {"labels": {"a": "b"}}})
    await client.merge(f"{OBJECTS}/x", {"spec": {"a": 1}})
    gone = await client.merge(f"{OBJECTS}/x", {"metadata": {"labels": {"a": "c"}}})
    events = [await stream.next() for _ in range(3)]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    meta = events[2]["object"]["metadata"]
    assert meta["labels"] == {"a": "b"}
    assert meta["resourceVersion"] == gone.json["metadata"]["resourceVersion"]


async def test_one_object(client, watch, make_object):
    by_field = await watch(f"{OBJECTS}?watch=1&fieldSelector=metadata.name%3Db")
    by_path = await watch("/apis/kopf.dev/v1/watch/namespaces/default/kopfexamples/b")
    for name in "abc":
        await client.post(OBJECTS, make_object(name))
    assert await by_field.types(1) == [("ADDED", "b")]
    assert await by_path.types(1) == [("ADDED", "b")]


async def test_timeout_ends_the_stream(client, crd):
    answer = await client.get(f"{OBJECTS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true")
    assert answer.status == 200
    [bookmark] = answer.lines
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "KopfExample"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) > 0


async def test_changes_at_the_end_come_before_the_last_bookmark(sandbox, client, crd, make_object):
    """Clients go on from the bookmark: they would never get an earlier change."""
    endpoint = sandbox.cluster.registry.find("kopfexamples")
    view = object_view(endpoint).watched()
    query = {"allowWatchBookmarks": "true"}
    watch = Watch(endpoint, None, view, WatchOptions.parse(endpoint, query, None, 0))
    ending = asyncio.ensure_future(anext(watch.stream(60)))
    await asyncio.sleep(0)  # the stream has begun to wait, and its time is over
    endpoint.resource.store.put(("default", "x"), make_object())
    events = [json.loads(line) for line in (await ending).splitlines()]
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]


async def test_bookmarks_come_regularly(make_object):
    async with Sandbox(options=ClusterOptions(bookmark_interval=0.01)) as sandbox:
        await sandbox.apply(make_crd())
        async with (
            aiohttp.ClientSession(sandbox.url) as session,
            session.get(f"{ALL}?watch=1&allowWatchBookmarks=1") as response,
        ):
            assert await Stream(response).types(2) == [("BOOKMARK", ""), ("BOOKMARK", "")]


async def test_initial_events_end(client, watch, make_object):
    await client.post(OBJECTS, make_object("a"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1"
    stream = await watch(f"{OBJECTS}?{query}")
    assert await stream.types(1) == [("ADDED", "a")]
    bookmark = await stream.next()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize(
    "query", ["sendInitialEvents=true", "resourceVersionMatch=NotOlderThan&resourceVersion=1"]
)
async def test_contradicting_options(client, crd, query):
    answer = await client.get(f"{OBJECTS}?watch=1&{query}")
    assert answer.status == 422
    assert answer.json["details"]["causes"][0]["field"] == "resourceVersionMatch"


async def test_compacted_versions_are_gone(sandbox, client, crd, make_object):
    created = (await client.post(OBJECTS, make_object())).json
    version = created["metadata"]["resourceVersion"]
    await client.merge(f"{OBJECTS}/x", {"spec": {"a": 1}})
    sandbox.compact()
    answer = await client.get(f"{OBJECTS}?watch=1&resourceVersion={version}&timeoutSeconds=5")
    assert answer.status == 200
    [event] = answer.lines
    assert event["type"] == "ERROR"
    assert event["object"]["code"] == 410
    assert event["object"]["reason"] == "Expired"
    assert event["object"]["message"].startswith(f"too old resource version: {version} (")


async def test_history_is_bounded(make_object):
    async with Sandbox(options=ClusterOptions(history=3)) as sandbox:
        await sandbox.apply(make_crd())
        first = await sandbox.create(make_object())
        for number in range(5):
            last = await sandbox.patch("kex", "x", {"spec": {"a": number}})
        async with aiohttp.ClientSession(sandbox.url) as session:
            for obj, expected in ((first, "ERROR"), (last, "ADDED")):
                version = obj["metadata"]["resourceVersion"]
                url = f"{OBJECTS}?watch=1&resourceVersion={version}"
                async with session.get(url) as response:
                    if obj is last:
                        await sandbox.create(make_object("y"))
                    assert (await Stream(response).next())["type"] == expected


async def test_streams_end_with_the_resource(sandbox, client, watch):
    stream = await watch(f"{ALL}?watch=1")
    await sandbox.delete("crd", "kopfexamples.kopf.dev")
    assert await stream.response.content.read() == b""


async def test_all_watchers_get_the_same(client, watch, make_object):
    streams = await asyncio.gather(*(watch(f"{ALL}?watch=1") for _ in range(20)))
    await client.post(OBJECTS, make_object())
    events = await asyncio.gather(*(stream.next() for stream in streams))
    assert all(event == events[0] for event in events)


async def test_versions_from_the_future(client, watch, crd, make_object):
    answer = await client.get(f"{OBJECTS}?resourceVersion=1000000")
    assert answer.status == 504
    assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert (await client.get(f"{OBJECTS}?resourceVersion=abc")).status == 400
    assert (await client.get(f"{OBJECTS}?watch=1&resourceVersion=abc")).status == 500
