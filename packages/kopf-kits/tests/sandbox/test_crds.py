import asyncio

import pytest
from idleness import quiet
from virtual_time import jump

from .conftest import make_crd, make_schema

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"{CRDS}/kopfexamples.kopf.dev"
OBJECTS = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"


def conditions(crd):
    return {item["type"]: item["status"] for item in crd["status"]["conditions"]}


async def test_life_of_a_crd(client):
    answer = await client.post(CRDS, make_crd())
    assert answer.status == 201
    assert answer.json["status"]["storedVersions"] == ["v1"]
    assert answer.json["spec"]["names"]["listKind"] == "KopfExampleList"
    crd = (await client.get(CRD)).json
    assert conditions(crd) == {"NamesAccepted": "True", "Established": "True"}
    assert crd["status"]["acceptedNames"]["kind"] == "KopfExample"
    assert (await client.get(OBJECTS)).status == 200
    assert (await client.get("/apis/kopf.dev/v1")).json["resources"][0]["name"] == "kopfexamples"

    await client.post(OBJECTS, {"metadata": {"name": "x"}})
    await client.delete(CRD)
    assert (await client.get(CRD)).status == 404
    assert (await client.get(OBJECTS)).status == 404
    assert (await client.get("/apis/kopf.dev")).status == 404

    await client.post(CRDS, make_crd())
    assert (await client.get(OBJECTS)).json["items"] == []


async def test_deletion_waits_for_the_finalizers_of_the_objects(client, crd):
    await client.post(OBJECTS, {"metadata": {"name": "x", "finalizers": ["a/b"]}})
    answer = await client.delete(CRD)
    assert answer.json["metadata"]["deletionTimestamp"]
    assert (await client.get(f"{OBJECTS}/x")).json["metadata"]["deletionTimestamp"]
    answer = await client.post(OBJECTS, {"metadata": {"name": "y"}})
    assert answer.status == 403
    assert "terminating" in answer.json["message"]
    assert conditions((await client.get(CRD)).json)["Terminating"] == "True"
    await client.merge(f"{OBJECTS}/x", {"metadata": {"finalizers": None}})
    assert (await client.get(CRD)).status == 404


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"group": "other.dev"}, "metadata.name"),
        ({"group": "kopf"}, "spec.group"),
        ({"scope": "Global"}, "spec.scope"),
        ({"versions": []}, "spec.versions"),
        ({"versions": [{"name": "v1", "served": True, "storage": True}]},
         "spec.versions[0].schema.openAPIV3Schema"),
    ],
)  # fmt: skip
async def test_invalid_crds(client, change, field):
    crd = make_crd()
    crd["spec"].update(change)
    answer = await client.post(CRDS, crd)
    assert answer.status == 422
    assert field in [cause["field"] for cause in answer.json["details"]["causes"]]


async def test_names_which_are_taken(client, crd):
    other = make_crd()
    other["metadata"]["name"] = "others.kopf.dev"
    other["spec"]["names"] = {"plural": "others", "kind": "KopfExample"}
    await client.post(CRDS, other)
    found = (await client.get(f"{CRDS}/others.kopf.dev")).json
    assert conditions(found) == {"NamesAccepted": "False", "Established": "False"}
    assert (await client.get(OBJECTS.replace("kopfexamples", "others"))).status == 404


async def test_versions(client):
    crd = make_crd()
    [version] = crd["spec"]["versions"]
    crd["spec"]["versions"] = [
        {**version, "name": "v1beta1", "storage": False, "deprecated": True},
        {**version, "name": "v1"},
        {**version, "name": "v2alpha1", "storage": False, "served": False},
    ]
    await client.post(CRDS, crd)
    group = (await client.get("/apis/kopf.dev")).json
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v1"

    old = OBJECTS.replace("v1", "v1beta1")
    answer = await client.post(old, {"metadata": {"name": "x"}, "spec": {"a": 1}})
    assert answer.json["apiVersion"] == "kopf.dev/v1beta1"
    assert answer.headers["Warning"] == (
        '299 - "kopf.dev/v1beta1 KopfExample is deprecated; use kopf.dev/v1 KopfExample"'
    )
    assert (await client.get(f"{OBJECTS}/x")).json["apiVersion"] == "kopf.dev/v1"
    patched = await client.merge(f"{old}/x", {"spec": {"a": 2}})
    assert patched.json["apiVersion"] == "kopf.dev/v1beta1"
    query = "watch=1&timeoutSeconds=1"
    task = asyncio.gather(client.get(f"{old}?{query}"), client.get(f"{OBJECTS}?{query}"))
    await quiet()
    jump(1)
    watched = [answer.lines[0]["object"] for answer in await task]
    assert watched[0]["apiVersion"] == "kopf.dev/v1beta1"
    assert watched[1]["spec"] == {"a": 2}
    assert (await client.get(OBJECTS.replace("v1", "v2alpha1"))).status == 404


async def test_changed_storage_version(client):
    crd = make_crd()
    await client.post(CRDS, crd)
    await client.post(OBJECTS, {"metadata": {"name": "x"}})
    [version] = crd["spec"]["versions"]
    versions = [{**version, "storage": False}, {**version, "name": "v2"}]
    answer = await client.merge(CRD, {"spec": {"versions": versions}})
    assert answer.json["status"]["storedVersions"] == ["v1", "v2"]
    for name in ("v1", "v2"):
        answer = await client.get(OBJECTS.replace("v1", name) + "/x")
        assert answer.json["apiVersion"] == f"kopf.dev/{name}"


async def test_changed_schema(client, sandbox):
    await sandbox.apply(make_crd())
    await client.post(OBJECTS, {"metadata": {"name": "x"}, "spec": {"a": 1, "b": 2}})
    schema = make_schema(b={"type": "integer"}, c={"type": "string", "default": "d"})
    await sandbox.apply(make_crd(schema=schema))
    assert (await client.get(f"{OBJECTS}/x")).json["spec"] == {"b": 2, "c": "d"}


async def test_objects_survive_changes_of_names(client, sandbox):
    await sandbox.apply(make_crd())
    await client.post(OBJECTS, {"metadata": {"name": "x"}})
    await client.merge(CRD, {"spec": {"names": {"shortNames": ["kexy"]}}})
    assert (await client.get(f"{OBJECTS}/x")).status == 200
    [resource] = (await client.get("/apis/kopf.dev/v1")).json["resources"]
    assert resource["shortNames"] == ["kexy"]


async def test_pruning(client, sandbox):
    nested = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    await sandbox.apply(make_crd(schema=make_schema(
        a={"type": "integer"}, nested=nested, embedded=embedded,
        items={"type": "array", "items": {"type": "object", "properties": {
            "a": {"type": "string"}}}},
        map={"type": "object", "additionalProperties": {"type": "string"}})))  # fmt: skip
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "z", "x": 1}, "spec": {}}
    spec = {"a": 1, "b": 2, "nested": {"c": 3}, "items": [{"a": "x", "b": "y"}],
            "map": {"k": "v"}, "embedded": template}  # fmt: skip
    body = {"metadata": {"name": "x", "unknown": 1}, "spec": spec, "status": {"x": 1}, "extra": 1}
    answer = await client.post(OBJECTS, body)
    assert answer.json["spec"] == {
        "a": 1,
        "nested": {"c": 3},
        "items": [{"a": "x"}],
        "map": {"k": "v"},
        "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "z"}},
    }
    assert "status" not in answer.json
    assert "unknown" not in answer.json["metadata"]
    warnings = answer.headers.getall("Warning")
    assert '299 - "unknown field \\"spec.b\\""' in warnings
    assert '299 - "unknown field \\"spec.items[0].b\\""' in warnings
    assert '299 - "unknown field \\"status\\""' in warnings

    answer = await client.post(f"{OBJECTS}?fieldValidation=Strict", body)
    assert answer.status == 400
    assert 'strict decoding error: unknown field "' in answer.json["message"]
    body["metadata"]["name"] = "y"
    answer = await client.post(f"{OBJECTS}?fieldValidation=Ignore", body)
    assert "Warning" not in answer.headers


async def test_a_pruned_status_is_no_change(client, sandbox):
    await sandbox.apply(make_crd(schema=make_schema(), subresources={"status": {}}))
    created = (await client.post(OBJECTS, {"metadata": {"name": "x"}})).json
    answer = await client.merge(f"{OBJECTS}/x/status", {"status": {"a": 1}})
    assert answer.status == 200
    assert answer.json == created
    assert answer.headers["Warning"] == '299 - "unknown field \\"status\\""'


async def test_defaulting(client, sandbox):
    inner = {"type": "object", "default": {}, "properties": {
        "x": {"type": "integer", "default": 5}}}  # fmt: skip
    await sandbox.apply(make_crd(schema=make_schema(
        inner=inner, text={"type": "string", "default": "d"},
        maybe={"type": "string", "nullable": True, "default": "d"})))  # fmt: skip
    answer = await client.post(OBJECTS, {"metadata": {"name": "x"}, "spec": {}})
    assert answer.json["spec"] == {"inner": {"x": 5}, "text": "d", "maybe": "d"}
    body = {"metadata": {"name": "y"}, "spec": {"text": None, "maybe": None, "inner": {"x": 1}}}
    answer = await client.post(OBJECTS, body)
    assert answer.json["spec"] == {"inner": {"x": 1}, "text": "d", "maybe": None}
    answer = await client.post(OBJECTS, {"metadata": {"name": "z"}})
    assert "spec" not in answer.json


async def test_validation(client, sandbox):
    await sandbox.apply(
        make_crd(
            schema={
                "openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["needed"],
                            "properties": {
                                "needed": {"type": "string"},
                                "number": {"type": "integer", "minimum": 1},
                            },
                        }
                    },
                }
            }
        )
    )
    answer = await client.post(OBJECTS, {"metadata": {"name": "x"}})
    assert answer.status == 422
    assert answer.json["message"] == ('KopfExample.kopf.dev "x" is invalid: spec: Required value')
    assert answer.json["details"] == {
        "name": "x",
        "group": "kopf.dev",
        "kind": "KopfExample",
        "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec"}],
    }
    answer = await client.post(OBJECTS, {"metadata": {"name": "x"}, "spec": {"number": 0}})
    assert answer.json["message"] == (
        'KopfExample.kopf.dev "x" is invalid: [spec.needed: Required value, spec.number: Invalid '
        "value: 0: spec.number in body should be greater than or equal to 1]"
    )
    body = {"metadata": {"name": "x"}, "spec": {"needed": "a", "number": "b"}}
    answer = await client.post(OBJECTS, body)
    assert answer.json["details"]["causes"] == [
        {
            "reason": "FieldValueTypeInvalid",
            "message": 'Invalid value: "string": spec.number in body must be of type integer: '
            '"string"',
            "field": "spec.number",
        }
    ]


async def test_cluster_scope(client):
    crd = make_crd()
    crd["spec"]["scope"] = "Cluster"
    await client.post(CRDS, crd)
    objects = "/apis/kopf.dev/v1/kopfexamples"
    answer = await client.post(objects, {"metadata": {"name": "x"}})
    assert answer.status == 201
    assert "namespace" not in answer.json["metadata"]
    assert (await client.get(f"{objects}/x")).status == 200
    assert (await client.get(OBJECTS)).status == 404


async def test_rules_of_schemas(client, sandbox):
    rules = [
        {"rule": "self.low <= self.high", "message": "low must not be above high"},
        {"rule": "self.low == oldSelf.low", "message": "low is fixed", "fieldPath": ".low"},
    ]
    number = {"type": "integer"}
    schema = make_schema(low=number, high=number)
    schema["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] = rules
    await sandbox.apply(make_crd(schema=schema))
    body = {"metadata": {"name": "x"}, "spec": {"low": 2, "high": 1}}
    answer = await client.post(OBJECTS, body)
    assert answer.status == 422
    assert answer.json["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": "Invalid value: low must not be above high",
            "field": "spec",
        }
    ]
    body["spec"] = {"low": 1, "high": 2}
    assert (await client.post(OBJECTS, body)).status == 201
    answer = await client.merge(f"{OBJECTS}/x", {"spec": {"low": 2}})
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == ["spec.low"]
    answer = await client.merge(f"{OBJECTS}/x", {"spec": {"low": "x"}})
    assert "some validation rules were not checked" in answer.json["message"]


async def test_what_was_wrong_already_can_stay(client, sandbox):
    text = {"type": "string"}
    await sandbox.apply(make_crd(schema=make_schema(a=text, b=text)))
    await client.post(OBJECTS, {"metadata": {"name": "x"}, "spec": {"a": "long"}})
    await sandbox.apply(make_crd(schema=make_schema(a={**text, "maxLength": 2}, b=text)))
    assert (await client.merge(f"{OBJECTS}/x", {"spec": {"b": "c"}})).status == 200
    assert (await client.merge(f"{OBJECTS}/x", {"spec": {"a": "longer"}})).status == 422


async def test_used_versions_cannot_be_removed(client, sandbox):
    await sandbox.apply(make_crd())
    versions = [{**make_crd()["spec"]["versions"][0], "name": "v2"}]
    answer = await client.merge(CRD, {"spec": {"versions": versions}})
    assert answer.status == 422
    assert answer.json["details"]["causes"][0]["field"] == "status.storedVersions[0]"


async def test_k33_definitions_with_unique_items_are_refused(client):
    crd = make_crd()
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    items = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    schema["properties"] = {"list": items}
    answer = await client.post(CRDS, crd)
    assert answer.status == 422
    assert "properties[list].uniqueItems: Forbidden" in answer.json["message"]
