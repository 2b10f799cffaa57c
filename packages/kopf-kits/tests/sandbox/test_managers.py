import pytest

from .conftest import make_crd

OBJECTS = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
X = f"{OBJECTS}/x"


def fields(answer):
    return {
        (item["manager"], item["operation"], item.get("subresource", "")): item["fieldsV1"]
        for item in answer.json["metadata"].get("managedFields", ())
    }


@pytest.mark.usefixtures("crd")
class TestUpdates:
    async def test_creation(self, client, make_object):
        body = make_object(spec={"a": {"b": 1}, "c": [1]}, metadata={"labels": {"l": "m"}})
        answer = await client.post(f"{OBJECTS}?fieldManager=me", body)
        assert fields(answer) == {
            ("me", "Update", ""): {
                "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
                "f:spec": {".": {}, "f:a": {".": {}, "f:b": {}}, "f:c": {}},
            }
        }
        [entry] = answer.json["metadata"]["managedFields"]
        assert entry["apiVersion"] == "kopf.dev/v1"
        assert entry["fieldsType"] == "FieldsV1"
        assert entry["time"].endswith("Z")

    async def test_the_default_manager_is_the_user_agent(self, client, make_object):
        answer = await client.post(OBJECTS, make_object(spec={"a": 1}))
        assert list(fields(answer)) == [("tester", "Update", "")]

    async def test_changed_fields_change_hands(self, client, make_object):
        await client.post(f"{OBJECTS}?fieldManager=me", make_object(spec={"a": 1, "b": 1}))
        answer = await client.merge(f"{X}?fieldManager=you", {"spec": {"a": 2, "c": 1}})
        assert fields(answer) == {
            ("me", "Update", ""): {"f:spec": {".": {}, "f:b": {}}},
            ("you", "Update", ""): {"f:spec": {"f:a": {}, "f:c": {}}},
        }
        answer = await client.merge(f"{X}?fieldManager=you", {"spec": {"b": None}})
        assert fields(answer)["me", "Update", ""] == {"f:spec": {}}

    async def test_status_has_managers_of_its_own(self, client, make_object):
        await client.post(f"{OBJECTS}?fieldManager=me", make_object(spec={"a": 1}))
        answer = await client.merge(f"{X}/status?fieldManager=me", {"status": {"a": 1}})
        assert fields(answer)["me", "Update", "status"] == {"f:status": {".": {}, "f:a": {}}}
        assert fields(answer)["me", "Update", ""] == {"f:spec": {".": {}, "f:a": {}}}

    async def test_the_same_values_change_nothing(self, client, make_object):
        created = await client.post(f"{OBJECTS}?fieldManager=me", make_object(spec={"a": 1}))
        answer = await client.merge(f"{X}?fieldManager=you", {"spec": {"a": 1}})
        assert answer.json == created.json


@pytest.mark.usefixtures("crd")
class TestApply:
    async def test_creation_and_repetition(self, client, make_object):
        body = make_object(spec={"a": {"b": 1}}, metadata={"labels": {"l": "m"}})
        created = await client.apply(X, body)
        assert created.status == 201
        assert fields(created) == {
            ("me", "Apply", ""): {
                "f:metadata": {"f:labels": {"f:l": {}}},
                "f:spec": {"f:a": {".": {}, "f:b": {}}},
            }
        }
        again = await client.apply(X, body)
        assert again.status == 200
        assert again.json == created.json

    async def test_abandoned_fields_are_removed(self, client, make_object):
        await client.apply(X, make_object(spec={"a": 1, "b": {"c": 1, "d": 2}}))
        answer = await client.apply(X, make_object(spec={"b": {"c": 1}}))
        assert answer.json["spec"] == {"b": {"c": 1}}

    async def test_fields_of_others_stay(self, client, make_object):
        await client.apply(X, make_object(spec={"a": 1}))
        await client.merge(X, {"spec": {"b": 2}})
        answer = await client.apply(X, make_object(spec={}))
        assert answer.json["spec"] == {"b": 2}

    async def test_shared_fields_stay(self, client, make_object):
        await client.apply(X, make_object(spec={"a": 1}))
        answer = await client.apply(X, make_object(spec={"a": 1}), "you")
        assert len(fields(answer)) == 2
        answer = await client.apply(X, make_object(spec={}))
        assert answer.json["spec"] == {"a": 1}
        answer = await client.apply(X, make_object(), "you")
        assert answer.json.get("spec", {}) == {}

    async def test_conflicts(self, client, make_object):
        await client.apply(X, make_object(spec={"a": 1, "b": 1}))
        answer = await client.apply(X, make_object(spec={"a": 2}), "you")
        assert answer.status == 409
        assert answer.json["reason"] == "Conflict"
        assert answer.json["message"] == (
            'Apply failed with 1 conflict: conflict with "me": .spec.a'
        )
        assert answer.json["details"] == {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "me"',
                    "field": ".spec.a",
                }
            ]
        }
        answer = await client.apply(X, make_object(spec={"a": 2, "b": 2}), "you")
        assert answer.json["message"] == (
            'Apply failed with 2 conflicts: conflicts with "me":\n- .spec.a\n- .spec.b'
        )
        answer = await client.apply(X, make_object(spec={"a": 2}), "you", "&force=true")
        assert answer.json["spec"] == {"a": 2, "b": 1}
        assert fields(answer)["me", "Apply", ""] == {"f:spec": {"f:b": {}}}

    async def test_conflicts_with_updates(self, client, make_object):
        await client.post(f"{OBJECTS}?fieldManager=other", make_object(spec={"a": 1}))
        answer = await client.apply(X, make_object(spec={"a": 2}))
        assert answer.json["message"].endswith('conflict with "other" using kopf.dev/v1: .spec.a')

    async def test_status(self, client, make_object):
        await client.apply(X, make_object(spec={"a": 1}, status={"dropped": 1}))
        answer = await client.apply(f"{X}/status", make_object(status={"s": 1}))
        assert answer.json["status"] == {"s": 1}
        assert answer.json["spec"] == {"a": 1}
        assert set(fields(answer)) == {("me", "Apply", ""), ("me", "Apply", "status")}

    async def test_bad_requests(self, client, make_object):
        kind = "application/apply-patch+yaml"
        answer = await client.call("PATCH", X, make_object(), kind)
        assert answer.status == 422
        assert answer.json["details"]["causes"][0]["field"] == "fieldManager"
        managed = make_object(metadata={"managedFields": [{"manager": "me"}]})
        assert (await client.apply(X, managed)).status == 400
        assert (await client.apply(X, {"metadata": {"name": "x"}})).status == 400
        assert (await client.apply(X, make_object("y"))).status == 400

    async def test_yaml(self, client):
        text = "apiVersion: kopf.dev/v1\nkind: KopfExample\nmetadata: {name: x}\nspec: {a: 1}\n"
        assert (await client.apply(X, text)).json["spec"] == {"a": 1}


async def test_lists_with_keys(client, sandbox):
    item = {"type": "object", "properties": {"id": {"type": "string"}, "v": {"type": "integer"}}}
    items = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
             "items": item}  # fmt: skip
    names = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    spec = {"type": "object", "properties": {"items": items, "names": names}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    await sandbox.apply(make_crd(schema=schema))

    def make(*items, names=()):
        spec = {"items": [{"id": key, "v": value} for key, value in items], "names": list(names)}
        base = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "x"}}
        return {**base, "spec": spec}

    await client.apply(X, make(("a", 1), ("b", 1), names=["n"]))
    answer = await client.apply(X, make(("c", 1), names=["m"]), "you")
    assert [item["id"] for item in answer.json["spec"]["items"]] == ["a", "b", "c"]
    assert answer.json["spec"]["names"] == ["n", "m"]
    assert fields(answer)["you", "Apply", ""] == {
        "f:spec": {
            "f:items": {'k:{"id":"c"}': {".": {}, "f:id": {}, "f:v": {}}},
            "f:names": {'v:"m"': {}},
        }
    }
    answer = await client.apply(X, make(("b", 2), ("c", 2)))
    assert answer.json["message"].endswith('conflict with "you": .spec.items[id="c"].v')
    answer = await client.apply(X, make(("b", 2)))
    assert answer.json["spec"] == {"items": [{"id": "b", "v": 2}, {"id": "c", "v": 1}],
                                   "names": ["m"]}  # fmt: skip


async def test_containers_of_built_in_kinds(client):
    deployments = "/apis/apps/v1/namespaces/default/deployments/x"

    def make(*containers):
        labels = {"app": "x"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": list(containers)}}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}
        return {**head, "spec": spec}

    await client.apply(deployments, make({"name": "a", "image": "a:1"}))
    sidecar = make({"name": "b", "image": "b:1"})
    answer = await client.apply(deployments, sidecar, "you")
    containers = answer.json["spec"]["template"]["spec"]["containers"]
    assert [(item["name"], item["image"]) for item in containers] == [("a", "a:1"), ("b", "b:1")]
    answer = await client.apply(deployments, make({"name": "a", "image": "a:2"}))
    containers = answer.json["spec"]["template"]["spec"]["containers"]
    assert [(item["name"], item["image"]) for item in containers] == [("a", "a:2"), ("b", "b:1")]


@pytest.mark.usefixtures("crd")
async def test_what_is_not_managed_becomes_so_with_the_first_application(client, make_object):
    created = await client.post(OBJECTS, make_object())
    assert fields(created) == {}
    patched = await client.merge(X, {"spec": {"a": 1}})
    assert fields(patched) == {}
    applied = await client.apply(X, make_object(spec={"b": 1}))
    assert fields(applied) == {
        ("before-first-apply", "Update", ""): {"f:spec": {".": {}, "f:a": {}}},
        ("me", "Apply", ""): {"f:spec": {"f:b": {}}},
    }


@pytest.mark.usefixtures("crd")
async def test_managed_fields_are_reset_on_demand(client, make_object):
    await client.post(OBJECTS, make_object(spec={"a": 1}))
    answer = await client.merge(X, {"metadata": {"managedFields": [{}]}})
    assert fields(answer) == {}
