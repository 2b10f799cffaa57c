from urllib.parse import quote

import pytest

OBJECTS = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
pytestmark = pytest.mark.usefixtures("crd")


@pytest.fixture
async def objects(sandbox, make_object):
    for number in range(10):
        labels = {"parity": "odd" if number % 2 else "even", f"n{number}": ""}
        await sandbox.create(make_object(f"x{number}", metadata={"labels": labels}))


def names(answer):
    return [item["metadata"]["name"] for item in answer.json["items"]]


async def test_list(client, objects):
    answer = await client.get(OBJECTS)
    assert names(answer) == [f"x{number}" for number in range(10)]
    assert answer.json["kind"] == "KopfExampleList"
    assert answer.json["apiVersion"] == "kopf.dev/v1"
    assert answer.json["items"][0]["kind"] == "KopfExample"
    assert answer.json["metadata"]["continue"] == ""


async def test_list_of_nothing(client):
    answer = await client.get(OBJECTS.replace("default", "absent"))
    assert answer.status == 200
    assert answer.json["items"] == []


async def test_pages(client, sandbox, objects, make_object):
    first = await client.get(f"{OBJECTS}?limit=4")
    assert names(first) == ["x0", "x1", "x2", "x3"]
    assert first.json["metadata"]["remainingItemCount"] == 6
    await sandbox.create(make_object("x3a"))
    await sandbox.delete("kex", "x5")
    await sandbox.patch("kex", "x6", {"spec": {"new": 1}})
    token = first.json["metadata"]["continue"]
    second = await client.get(f"{OBJECTS}?limit=4&continue={token}")
    assert names(second) == ["x4", "x5", "x6", "x7"]
    assert "spec" not in second.json["items"][2]
    version = first.json["metadata"]["resourceVersion"]
    assert second.json["metadata"]["resourceVersion"] == version
    token = second.json["metadata"]["continue"]
    third = await client.get(f"{OBJECTS}?limit=4&continue={token}")
    assert names(third) == ["x8", "x9"]
    assert third.json["metadata"]["continue"] == ""


async def test_expired_pages(client, sandbox, objects, make_object):
    first = await client.get(f"{OBJECTS}?limit=4")
    await sandbox.create(make_object("x3a"))
    sandbox.compact()
    token = first.json["metadata"]["continue"]
    answer = await client.get(f"{OBJECTS}?limit=4&continue={token}")
    assert answer.status == 410
    assert answer.json["reason"] == "Expired"
    token = answer.json["metadata"]["continue"]
    answer = await client.get(f"{OBJECTS}?limit=4&continue={token}")
    assert names(answer) == ["x3a", "x4", "x5", "x6"]


async def test_unreadable_token(client, objects):
    assert (await client.get(f"{OBJECTS}?limit=4&continue=nonsense")).status == 400


async def test_exact_version(client, sandbox, objects, make_object):
    listed = await client.get(OBJECTS)
    await sandbox.delete("kex", "x0")
    version = listed.json["metadata"]["resourceVersion"]
    query = f"resourceVersion={version}&resourceVersionMatch=Exact"
    assert (await client.get(f"{OBJECTS}?{query}")).json == listed.json
    sandbox.compact()
    answer = await client.get(f"{OBJECTS}?{query}")
    assert answer.status == 410
    answer = await client.get(f"{OBJECTS}?resourceVersion={version}")
    assert len(names(answer)) == 9


@pytest.mark.parametrize(
    "query",
    [
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=Exact&resourceVersion=0",
        "resourceVersionMatch=Other&resourceVersion=1",
    ],
)
async def test_contradicting_versions(client, query):
    answer = await client.get(f"{OBJECTS}?{query}")
    assert answer.status == 422
    assert answer.json["reason"] == "Invalid"


async def test_odd_limits(client, objects):
    assert len(names(await client.get(f"{OBJECTS}?limit=-1"))) == 10
    assert (await client.get(f"{OBJECTS}?limit=odd")).status == 400


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("parity=odd", 5),
        ("parity==odd", 5),
        ("parity!=odd", 5),
        ("parity in (odd, even)", 10),
        ("parity notin (odd)", 5),
        ("n1", 1),
        ("!n1", 9),
        ("parity=odd,n1", 1),
        ("absent!=x", 10),
        ("parity", 10),
        ("parity=,n1", 0),
    ],
)
async def test_label_selectors(client, objects, selector, expected):
    answer = await client.call("GET", f"{OBJECTS}?labelSelector={selector}")
    assert len(names(answer)) == expected


async def test_field_selectors(client, objects):
    assert names(await client.get(f"{OBJECTS}?fieldSelector=metadata.name=x1")) == ["x1"]
    assert len(names(await client.get(f"{OBJECTS}?fieldSelector=metadata.name!=x1"))) == 9
    assert names(await client.get(f"{OBJECTS}?fieldSelector=metadata.namespace=other")) == []
    answer = await client.get(f"{OBJECTS}?fieldSelector=spec.field=1")
    assert answer.status == 400
    assert answer.json["message"] == "field label not supported: spec.field"


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
    ],
)
async def test_bad_label_selectors(client, selector, message):
    answer = await client.get(f"{OBJECTS}?labelSelector={quote(selector)}")
    assert answer.status == 400
    assert answer.json["message"] == message


@pytest.mark.parametrize(
    ("selector", "names"), [("n>1", ["b"]), ("n<2", ["a"]), ("n>0", ["a", "b"]), ("n>9", [])]
)
async def test_numeric_selectors(client, sandbox, make_object, selector, names):
    await sandbox.create(make_object("a", metadata={"labels": {"n": "1"}}))
    await sandbox.create(make_object("b", metadata={"labels": {"n": "2"}}))
    await sandbox.create(make_object("c", metadata={"labels": {"n": "x"}}))
    answer = await client.get(f"{OBJECTS}?labelSelector={quote(selector)}")
    assert [item["metadata"]["name"] for item in answer.json["items"]] == names


async def test_long_lists_are_whole(client, sandbox, make_object):
    for number in range(1201):
        await sandbox.create(make_object(f"x{number:04}"))
    assert names(await client.get(OBJECTS)) == [f"x{number:04}" for number in range(1201)]


async def test_metadata_only(client, objects):
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    answer = await client.get(OBJECTS, accept)
    assert answer.json["kind"] == "PartialObjectMetadataList"
    assert set(answer.json["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_unknown_media_types(client):
    answer = await client.get(OBJECTS, "application/vnd.kubernetes.protobuf")
    assert answer.status == 406
    answer = await client.get(OBJECTS, "application/vnd.kubernetes.protobuf,application/json")
    assert answer.status == 200
