import pytest

from kopf_cogs.clients import errors
from kopf_cogs.clients.listing import list_objects
from kopf_cogs.structs.resources import Resource

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)


async def collect(pages):
    return [page async for page in pages]


async def test_all_at_once(server, client, resource, listed):
    server.script(listed(["a", "b"]))
    (page,) = await collect(list_objects(client, resource, chunk_size=0, params={"x": "y"}))
    assert [item["metadata"]["name"] for item in page.items] == ["a", "b"]
    assert page.resource_version == "10"
    assert page.quarantined == []
    assert server.requests[0].path == "/apis/kopf.dev/v1/kopfexamples"
    assert server.requests[0].query == {"x": "y"}


async def test_by_pages(server, client, resource, listed):
    server.script(listed(["a"], **{"continue": "x y"}), listed([], **{"continue": "z"}))
    server.script(listed(["b"], **{"continue": ""}))
    pages = await collect(list_objects(client, resource, "ns", chunk_size=1))
    names = [[item["metadata"]["name"] for item in page.items] for page in pages]
    assert names == [["a"], [], ["b"]]
    assert [request.query for request in server.requests] == [
        {"limit": "1"},
        {"limit": "1", "continue": "x y"},
        {"limit": "1", "continue": "z"},
    ]
    assert {r.path for r in server.requests} == {"/apis/kopf.dev/v1/namespaces/ns/kopfexamples"}


async def test_endless_pages_are_errors(server, client, resource, listed):
    server.script(*[listed(["a"], **{"continue": "same"}) for _ in range(3)])
    with pytest.raises(errors.APIResponseError, match="the next page"):
        await collect(list_objects(client, resource))
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"kind": "PodList", "apiVersion": "v1"}, ("v1", "Pod")),
        ({}, ("v1", "Pod")),
    ],
)
async def test_kinds_and_versions_are_added_to_items(server, client, payload, expected):
    meta = {"name": "x"}
    items = [{"metadata": meta}, {"metadata": meta, "kind": "Own", "apiVersion": "own/v1"}]
    server.script(server.reply(payload | {"metadata": {}, "items": items}))
    (page,) = await collect(list_objects(client, PODS))
    assert [(item["apiVersion"], item["kind"]) for item in page.items] == [
        expected,
        ("own/v1", "Own"),
    ]


async def test_kinds_are_taken_from_lists_if_unknown(server, client):
    items = [{"metadata": {"name": "x"}}]
    server.script(server.reply({"kind": "PodList", "metadata": {}, "items": items}))
    (page,) = await collect(list_objects(client, Resource("", "v1", "pods", namespaced=True)))
    assert page.items[0]["kind"] == "Pod"


@pytest.mark.parametrize(
    "payload",
    [
        {"metadata": {}, "items": None},
        {"metadata": None},
        {"metadata": {}},
    ],
)
async def test_a10_nulls_are_empty(server, client, resource, payload):
    server.script(server.reply(payload))
    (page,) = await collect(list_objects(client, resource))
    assert page.items == []


@pytest.mark.parametrize("payload", [None, [], {}, "text", 1, {"items": []}])
async def test_not_lists(server, client, resource, payload):
    server.script(server.reply(payload))
    with pytest.raises(errors.APIResponseError, match="not a list"):
        await collect(list_objects(client, resource))


async def test_a9_unlimited_lists_with_bombs_are_requested_by_chunks(server, client, resource):
    bomb = b'{"metadata":{"name":"bomb"},"spec":' + b"[" * 2000 + b"]" * 2000 + b"}"
    items = b'{"metadata":{},"items":[%s,%s]}' % (b'{"metadata":{"name":"x"}}', bomb)
    server.script(server.reply(items), server.reply(items))
    (page,) = await collect(list_objects(client, resource, chunk_size=0))
    assert len(page.items) == 1
    assert [remains.name for remains in page.quarantined] == ["bomb"]
    assert [request.query for request in server.requests] == [{}, {"limit": "100"}]


@pytest.mark.parametrize(
    "item",
    [
        None,
        {},
        "abc",
        {"metadata": None},
        {"metadata": {}},
        {"metadata": {"name": {"a": "b"}}},
        {"metadata": {"name": "poison", "resourceVersion": 1}},
        {"metadata": {"name": "poison", "annotations": {"a": 1}}},
        {"metadata": {"name": "poison", "annotations": ["a"]}},
    ],
    ids=str,
)
async def test_r19_senseless_items_are_kept_away_from_others(server, client, resource, item):
    items = [{"metadata": {"name": "a"}}, item, {"metadata": {"name": "b"}}]
    server.script(server.reply({"metadata": {}, "items": items}))
    (page,) = await collect(list_objects(client, resource))
    assert [item["metadata"]["name"] for item in page.items] == ["a", "b"]
    assert len(page.quarantined) == 1


@pytest.mark.parametrize(
    "payload",
    [
        {"metadata": {}, "items": "abc"},
        {"metadata": "abc", "items": []},
        {"metadata": {"resourceVersion": 1}, "items": []},
    ],
)
async def test_r19_senseless_lists_are_errors(server, client, resource, payload):
    server.script(server.reply(payload))
    with pytest.raises(errors.APIResponseError):
        await collect(list_objects(client, resource))


@pytest.mark.parametrize("depth", [500, 990])
async def test_r22_objects_are_kept_away_if_they_are_too_deep_to_be_processed(
    server, client, resource, listed, depth
):
    bomb = b'{"metadata":{"name":"bomb"},"spec":' + b"[" * depth + b"]" * depth + b"}"
    payload = b'{"metadata":{},"items":[{"metadata":{"name":"x"}},%s]}' % bomb
    server.script(server.reply(payload), server.reply(payload))
    (page,) = await collect(list_objects(client, resource))
    assert [item["metadata"]["name"] for item in page.items] == ["x"]
    assert [remains.name for remains in page.quarantined] == ["bomb"]
