import pytest

OBJECTS = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
pytestmark = pytest.mark.usefixtures("crd")


async def test_deletion_of_free_object(client, make_object):
    created = (await client.post(OBJECTS, make_object())).json
    answer = await client.delete(f"{OBJECTS}/x")
    assert answer.status == 200
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": "x",
            "group": "kopf.dev",
            "kind": "kopfexamples",
            "uid": created["metadata"]["uid"],
        },
    }
    assert (await client.get(f"{OBJECTS}/x")).status == 404
    assert (await client.delete(f"{OBJECTS}/x")).status == 404


async def test_deletion_with_finalizers(client, make_object):
    created = await client.post(OBJECTS, make_object(metadata={"finalizers": ["a/b", "c/d"]}))
    version = created.json["metadata"]["resourceVersion"]
    answer = await client.delete(f"{OBJECTS}/x")
    meta = answer.json["metadata"]
    assert answer.status == 200
    assert meta["deletionTimestamp"].endswith("Z")
    assert meta["deletionGracePeriodSeconds"] == 0
    assert meta["generation"] == 2
    again = await client.delete(f"{OBJECTS}/x")
    assert again.json == answer.json

    answer = await client.merge(f"{OBJECTS}/x", {"metadata": {"finalizers": ["c/d"]}})
    assert answer.json["metadata"]["finalizers"] == ["c/d"]
    patch = [{"op": "remove", "path": "/metadata/finalizers/0"}]
    answer = await client.json_patch(f"{OBJECTS}/x", patch)
    assert answer.status == 200
    assert "finalizers" not in answer.json["metadata"]
    assert (await client.get(f"{OBJECTS}/x")).status == 404

    watch = f"{OBJECTS}?watch=1&resourceVersion={version}&timeoutSeconds=1"
    events = (await client.get(watch)).lines
    assert [event["type"] for event in events] == ["MODIFIED", "MODIFIED", "DELETED"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert len(set(versions)) == 3
    assert events[2]["object"]["metadata"]["deletionTimestamp"]


async def test_no_new_finalizers_while_being_deleted(client, make_object):
    await client.post(OBJECTS, make_object(metadata={"finalizers": ["a/b"]}))
    await client.delete(f"{OBJECTS}/x")
    answer = await client.merge(f"{OBJECTS}/x", {"metadata": {"finalizers": ["a/b", "c/d"]}})
    assert answer.status == 422
    cause, *_ = answer.json["details"]["causes"]
    assert cause["reason"] == "FieldValueForbidden"
    assert cause["field"] == "metadata.finalizers"
    assert 'found new finalizers []string{"c/d"}' in cause["message"]


async def test_the_deletion_timestamp_is_not_for_clients(client, make_object):
    stamp = "2020-01-01T00:00:00Z"
    answer = await client.post(OBJECTS, make_object(metadata={"deletionTimestamp": stamp}))
    assert "deletionTimestamp" not in answer.json["metadata"]
    answer = await client.merge(f"{OBJECTS}/x", {"metadata": {"deletionTimestamp": stamp}})
    assert answer.status == 422
    await client.merge(f"{OBJECTS}/x", {"metadata": {"finalizers": ["a/b"]}})
    await client.delete(f"{OBJECTS}/x")
    answer = await client.merge(f"{OBJECTS}/x", {"metadata": {"deletionTimestamp": None}})
    assert answer.json["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
async def test_preconditions(client, make_object, field):
    created = (await client.post(OBJECTS, make_object())).json
    answer = await client.delete(f"{OBJECTS}/x", {"preconditions": {field: "123"}})
    assert answer.status == 409
    assert answer.json["reason"] == "Conflict"
    assert "in the precondition (123) does not match" in answer.json["message"]
    options = {"preconditions": {field: created["metadata"][field]}}
    assert (await client.delete(f"{OBJECTS}/x", options)).status == 200


async def test_bad_policies(client, make_object):
    await client.post(OBJECTS, make_object())
    for options in ({"propagationPolicy": "Other"},
                    {"propagationPolicy": "Orphan", "orphanDependents": True}):  # fmt: skip
        assert (await client.delete(f"{OBJECTS}/x", options)).status == 422


async def test_deletion_of_a_collection(client, make_object):
    for name in "abc":
        labels = {"name": name}
        await client.post(OBJECTS, make_object(name, metadata={"labels": labels}))
    answer = await client.delete(f"{OBJECTS}?labelSelector=name+in+(a,b)")
    assert answer.status == 200
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["a", "b"]
    answer = await client.get(OBJECTS)
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["c"]


async def test_eternal_namespaces(client):
    answer = await client.delete("/api/v1/namespaces/default")
    assert answer.status == 403
    assert answer.json["reason"] == "Forbidden"


async def test_pods_are_deleted_gracefully_if_they_are_on_nodes(sandbox, client):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
    pods = "/api/v1/namespaces/default/pods"
    spec = {"containers": [{"name": "main", "image": "image"}]}
    await sandbox.create({**pod, "spec": spec})
    answer = await client.delete(f"{pods}/x")
    assert answer.json["kind"] == "Pod"
    assert (await client.get(f"{pods}/x")).status == 404

    await sandbox.create({**pod, "spec": {**spec, "nodeName": "node"}})
    answer = await client.delete(f"{pods}/x")
    assert answer.json["metadata"]["deletionGracePeriodSeconds"] == 30
    assert (await client.get(f"{pods}/x")).status == 200
    await client.delete(f"{pods}/x", {"gracePeriodSeconds": 0})
    assert (await client.get(f"{pods}/x")).status == 404
