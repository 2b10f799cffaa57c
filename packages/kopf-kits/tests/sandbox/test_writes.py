import asyncio

import pytest

OBJECTS = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
pytestmark = pytest.mark.usefixtures("crd")


async def test_creation(client, make_object):
    answer = await client.post(OBJECTS, make_object(spec={"a": 1}, status={"dropped": True}))
    meta = answer.json["metadata"]
    assert answer.status == 201
    assert answer.json["spec"] == {"a": 1}
    assert "status" not in answer.json
    assert meta["generation"] == 1
    assert meta["namespace"] == "default"
    assert len(meta["uid"]) == 36
    assert meta["creationTimestamp"].endswith("Z")
    assert int(meta["resourceVersion"]) > 0


async def test_custom_objects_must_name_their_kinds(client):
    answer = await client.call("POST", OBJECTS, {"metadata": {"name": "x"}})
    assert answer.status == 400
    assert "Object 'Kind' is missing in '" in answer.json["message"]
    answer = await client.call("POST", OBJECTS, {"kind": "KopfExample", "metadata": {"name": "x"}})
    assert answer.status == 400
    assert "(kopf.dev/v1)" in answer.json["message"]
    answer = await client.post(OBJECTS, {"kind": "Other", "metadata": {"name": "x"}})
    assert answer.status == 422
    answer = await client.post("/api/v1/namespaces", {"metadata": {"name": "x"}})
    assert answer.json["kind"] == "Namespace"
    answer = await client.post("/api/v1/namespaces", {"kind": "Pod", "metadata": {"name": "y"}})
    assert answer.status == 400


async def test_repeated_fields(client):
    path = "/api/v1/namespaces/default/configmaps"
    body = '{"metadata": {"name": "x"}, "data": {"a": "1"}, "data": {"a": "2"}}'
    answer = await client.call("POST", f"{path}?fieldValidation=Strict", body)
    assert answer.status == 400
    assert answer.json["message"].endswith('strict decoding error: duplicate field "data"')
    answer = await client.call("POST", path, body)
    assert answer.json["data"] == {"a": "2"}
    assert answer.headers["Warning"] == '299 - "duplicate field \\"data\\""'


async def test_unknown_media_types(client):
    assert (await client.call("POST", OBJECTS, "{}", "application/unknown")).status == 415
    assert (await client.get(OBJECTS, "application/unknown")).status == 406


async def test_short_finalizers_are_warned_about(client, make_object):
    answer = await client.post(OBJECTS, make_object(metadata={"finalizers": ["short"]}))
    assert answer.status == 201
    assert "prefer a domain-qualified finalizer name" in answer.headers["Warning"]


async def test_creation_of_existing(client, make_object):
    await client.post(OBJECTS, make_object())
    answer = await client.post(OBJECTS, make_object())
    assert answer.status == 409
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'kopfexamples.kopf.dev "x" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "x", "group": "kopf.dev", "kind": "kopfexamples"},
        "code": 409,
    }


async def test_generated_names(client, make_object):
    body = {"metadata": {"generateName": "prefix-"}}
    names = [(await client.post(OBJECTS, body)).json["metadata"]["name"] for _ in range(5)]
    assert len(set(names)) == 5
    assert all(name.startswith("prefix-") and len(name) == 12 for name in names)


async def test_creation_in_absent_namespace(client, make_object):
    answer = await client.post(OBJECTS.replace("default", "absent"), make_object())
    assert answer.status == 404
    assert answer.json["message"] == 'namespaces "absent" not found'


async def test_creation_with_a_version(client, make_object):
    answer = await client.post(OBJECTS, make_object(metadata={"resourceVersion": "5"}))
    assert answer.status == 500
    assert answer.json["message"] == "resourceVersion should not be set on objects to be created"


async def test_creation_in_another_namespace(client, make_object):
    answer = await client.post(OBJECTS, make_object(metadata={"namespace": "other"}))
    assert answer.status == 400
    assert answer.json["reason"] == "BadRequest"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"metadata": {}}, "metadata.name"),
        ({"metadata": {"name": "Bad_Name"}}, "metadata.name"),
        ({"metadata": {"name": "x", "labels": {"a/b/c": ""}}}, "metadata.labels"),
        ({"metadata": {"name": "x", "labels": {"a": "?"}}}, "metadata.labels"),
        ({"metadata": {"name": "x", "annotations": {"?": ""}}}, "metadata.annotations"),
        ({"metadata": {"name": "x", "annotations": {"a": "b" * 262144}}}, "metadata.annotations"),
        ({"metadata": {"name": "x", "finalizers": ["?"]}}, "metadata.finalizers"),
        (
            {"metadata": {"name": "x", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "y"}]}},
            "metadata.ownerReferences.uid",
        ),
    ],
)  # fmt: skip
async def test_invalid_metadata(client, body, field):
    answer = await client.post(OBJECTS, body)
    assert answer.status == 422
    assert answer.json["reason"] == "Invalid"
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == [field]


@pytest.mark.parametrize("labels", [{"a": 1}, "text", {"a": True}])
async def test_undecodable_labels(client, make_object, labels):
    answer = await client.post(OBJECTS, make_object(metadata={"labels": labels}))
    assert answer.status == 400
    assert "cannot unmarshal" in answer.json["message"]


@pytest.mark.parametrize("body", ["", "{", "[]", '"text"'])
async def test_unreadable_bodies(client, body):
    answer = await client.call("POST", OBJECTS, body)
    assert answer.status == 400
    assert answer.json["kind"] == "Status"


async def test_yaml_body(client):
    text = "apiVersion: kopf.dev/v1\nkind: KopfExample\nmetadata: {name: x}\n"
    answer = await client.call("POST", OBJECTS, text, "application/yaml")
    assert answer.status == 201


async def test_replacement(client, make_object):
    created = (await client.post(OBJECTS, make_object(spec={"a": 1}))).json
    answer = await client.put(f"{OBJECTS}/x", {**created, "spec": {"b": 2}})
    assert answer.status == 200
    assert answer.json["spec"] == {"b": 2}
    assert answer.json["metadata"]["generation"] == 2
    assert answer.json["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"]


async def test_replacement_of_stale(client, make_object):
    created = (await client.post(OBJECTS, make_object())).json
    await client.merge(f"{OBJECTS}/x", {"spec": {"a": 1}})
    answer = await client.put(f"{OBJECTS}/x", created)
    assert answer.status == 409
    assert answer.json["reason"] == "Conflict"
    assert answer.json["message"] == (
        'Operation cannot be fulfilled on kopfexamples.kopf.dev "x": the object has been '
        "modified; please apply your changes to the latest version and try again"
    )


async def test_replacement_without_version(client, make_object):
    await client.post(OBJECTS, make_object())
    answer = await client.put(f"{OBJECTS}/x", make_object())
    assert answer.status == 422
    assert answer.json["details"]["causes"][0]["field"] == "metadata.resourceVersion"


async def test_replacement_under_another_name(client, make_object):
    created = (await client.post(OBJECTS, make_object())).json
    created["metadata"]["name"] = "y"
    answer = await client.put(f"{OBJECTS}/x", created)
    assert answer.status == 400
    assert "(y) does not match the name on the URL (x)" in answer.json["message"]


async def test_replacement_of_another_uid(client, make_object):
    created = (await client.post(OBJECTS, make_object())).json
    created["metadata"]["uid"] = "another"
    answer = await client.put(f"{OBJECTS}/x", created)
    assert answer.status == 409
    assert "Precondition failed: UID in precondition: another" in answer.json["message"]


async def test_merge_patch(client, make_object):
    await client.post(OBJECTS, make_object(spec={"a": 1, "b": {"c": [1], "d": 2}}))
    patch = {"spec": {"a": None, "b": {"c": [2, {"x": None}], "n": {"m": None}}}}
    answer = await client.merge(f"{OBJECTS}/x", patch)
    assert answer.status == 200
    assert answer.json["spec"] == {"b": {"c": [2, {}], "d": 2, "n": {}}}


async def test_merge_patch_with_a_stale_version(client, make_object):
    created = (await client.post(OBJECTS, make_object())).json
    version = created["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "spec": {"a": 1}}
    assert (await client.merge(f"{OBJECTS}/x", patch)).status == 200
    assert (await client.merge(f"{OBJECTS}/x", patch)).status == 409


async def test_json_patch(client, make_object):
    created = (await client.post(OBJECTS, make_object(spec={"a": [1, 2]}))).json
    version = created["metadata"]["resourceVersion"]
    patch = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/metadata/finalizers", "value": ["a/b"]},
        {"op": "add", "path": "/spec/a/-", "value": 3},
        {"op": "remove", "path": "/spec/a/0"},
    ]
    answer = await client.json_patch(f"{OBJECTS}/x", patch)
    assert answer.status == 200
    assert answer.json["spec"] == {"a": [2, 3]}
    assert answer.json["metadata"]["finalizers"] == ["a/b"]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "remove", "path": "/spec/absent"},
        {"op": "replace", "path": "/absent/deeper", "value": 1},
        {"op": "add", "path": "/spec/absent/deeper", "value": 1},
    ],
)
async def test_json_patch_which_is_rejected(client, make_object, operation):
    await client.post(OBJECTS, make_object(spec={}))
    answer = await client.json_patch(f"{OBJECTS}/x", [operation])
    assert answer.status == 422
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }


async def test_patches_of_unknown_types(client, make_object):
    await client.post(OBJECTS, make_object())
    for kind in ("application/json", "application/strategic-merge-patch+json"):
        answer = await client.call("PATCH", f"{OBJECTS}/x", "{}", kind)
        assert answer.status == 415
        assert answer.json["reason"] == "UnsupportedMediaType"
        assert answer.json["message"].endswith(
            "application/json-patch+json, application/merge-patch+json, "
            "application/apply-patch+yaml"
        )


async def test_patch_of_absent(client):
    answer = await client.merge(f"{OBJECTS}/x", {})
    assert answer.status == 404
    assert answer.json["message"] == 'kopfexamples.kopf.dev "x" not found'
    assert answer.json["reason"] == "NotFound"


async def test_nothing_changes_with_nothing_to_change(client, sandbox, make_object):
    created = (await client.post(OBJECTS, make_object(spec={"a": 1}))).json
    version = created["metadata"]["resourceVersion"]
    for patch in ({}, {"spec": {"a": 1}}, {"spec": {"b": None}}, {"status": {"x": 1}}):
        answer = await client.merge(f"{OBJECTS}/x", patch)
        assert answer.status == 200
        assert answer.json == created
    answer = await client.put(f"{OBJECTS}/x", created)
    assert answer.json["metadata"]["resourceVersion"] == version
    answer = await client.get(f"{OBJECTS}?watch=1&resourceVersion={version}&timeoutSeconds=1")
    assert answer.text == ""


async def test_true_is_not_one(client, make_object):
    await client.post(OBJECTS, make_object(spec={"a": 1}))
    answer = await client.merge(f"{OBJECTS}/x", {"spec": {"a": True}})
    assert answer.json["spec"] == {"a": True}
    assert answer.json["metadata"]["generation"] == 2


async def test_generation_with_a_status_subresource(client, make_object):
    await client.post(OBJECTS, make_object(spec={"a": 1}))
    changes = [
        ("", {"metadata": {"labels": {"a": "b"}}}, 1),
        ("", {"status": {"a": "b"}}, 1),
        ("/status", {"status": {"a": "b"}}, 1),
        ("", {"spec": {"a": 2}}, 2),
        ("", {"metadata": {"generation": 100}}, 2),
    ]
    for sub, patch, generation in changes:
        answer = await client.merge(f"{OBJECTS}/x{sub}", patch)
        assert answer.json["metadata"]["generation"] == generation


async def test_status_is_written_only_via_the_subresource(client, make_object):
    await client.post(OBJECTS, make_object(spec={"a": 1}))
    answer = await client.merge(f"{OBJECTS}/x", {"status": {"x": 1}})
    assert "status" not in answer.json
    patch = {"status": {"x": 1}, "spec": {"a": 2}, "metadata": {"labels": {"a": "b"}}}
    answer = await client.merge(f"{OBJECTS}/x/status", patch)
    assert answer.json["status"] == {"x": 1}
    assert answer.json["spec"] == {"a": 1}
    assert "labels" not in answer.json["metadata"]
    answer = await client.merge(f"{OBJECTS}/x", {"spec": {"a": 3}})
    assert answer.json["status"] == {"x": 1}
    answer = await client.get(f"{OBJECTS}/x/status")
    assert answer.json["status"] == {"x": 1}
    replaced = {**answer.json, "status": {"y": 2}}
    assert (await client.put(f"{OBJECTS}/x/status", replaced)).json["status"] == {"y": 2}


async def test_status_is_an_ordinary_field_without_the_subresource(sandbox, client, make_object):
    from .conftest import make_crd

    await sandbox.apply(make_crd(subresources=None))
    answer = await client.post(OBJECTS, make_object(status={"a": 1}))
    assert answer.json["status"] == {"a": 1}
    answer = await client.merge(f"{OBJECTS}/x", {"status": {"a": 2}})
    assert answer.json["status"] == {"a": 2}
    assert answer.json["metadata"]["generation"] == 2
    answer = await client.merge(f"{OBJECTS}/x/status", {"status": {"a": 3}})
    assert answer.status == 404
    assert answer.json["reason"] == "NotFound"


async def test_dry_run(client, sandbox, make_object):
    answer = await client.post(f"{OBJECTS}?dryRun=All", make_object())
    assert answer.status == 201
    assert (await client.get(f"{OBJECTS}/x")).status == 404
    created = (await client.post(OBJECTS, make_object(spec={"a": 1}))).json
    answer = await client.merge(f"{OBJECTS}/x?dryRun=All", {"spec": {"a": 2}})
    assert answer.json["spec"] == {"a": 2}
    assert (await client.delete(f"{OBJECTS}/x?dryRun=All")).status == 200
    assert (await client.get(f"{OBJECTS}/x")).json == created
    assert (await client.post(f"{OBJECTS}?dryRun=Some", make_object())).status == 422


async def test_methods_which_are_not_allowed(client):
    for method, path in [("POST", f"{OBJECTS}/x"), ("PUT", OBJECTS), ("PATCH", OBJECTS),
                         ("POST", "/api/v1/pods"), ("DELETE", "/api/v1/namespaces")]:  # fmt: skip
        answer = await client.call(method, path, {})
        assert answer.status == 405
        assert answer.json["reason"] == "MethodNotAllowed"


@pytest.mark.parametrize(
    "path",
    [
        "/apis/kopf.dev/v1/unknown",
        "/apis/kopf.dev/v2/kopfexamples",
        "/apis/unknown.dev/v1",
        "/apis/unknown.dev/v1/things",
        "/unknown",
        "/api/v1/namespaces/default/pods/x/unknown",
    ],
)
async def test_unknown_paths(client, path):
    answer = await client.get(path)
    assert answer.status == 404
    assert (await client.get("/api/v1/unknown")).json["reason"] == "NotFound"
    if "pods" not in path:
        assert answer.text == "404 page not found\n"
        assert answer.headers["Content-Type"].startswith("text/plain")


async def test_concurrent_patches_are_all_there(client, make_object):
    await client.post(OBJECTS, make_object())
    patches = [{"metadata": {"annotations": {f"k{n}": ""}}} for n in range(50)]
    await asyncio.gather(*(client.merge(f"{OBJECTS}/x", patch) for patch in patches))
    answer = await client.get(f"{OBJECTS}/x")
    assert len(answer.json["metadata"]["annotations"]) == 50
