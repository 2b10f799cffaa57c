import pytest

from kopf_cogs.structs.bodies import (
    Body,
    Meta,
    Spec,
    Status,
    build_object_reference,
    build_owner_reference,
)
from kopf_cogs.structs.dicts import replace_source

RAW = {
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "metadata": {
        "uid": "uid1",
        "name": "name1",
        "namespace": "ns1",
        "labels": {"l": "1"},
        "annotations": {"a/b": "2"},
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "deletionTimestamp": "2020-12-31T23:59:59Z",
    },
    "spec": {"x": 1},
    "status": {"y": 2},
}


def test_parts_of_the_body():
    body = Body(RAW)
    assert body == RAW
    assert body["spec"] is RAW["spec"]
    assert body.spec == {"x": 1}
    assert body.status == {"y": 2}
    assert body.meta == body.metadata == RAW["metadata"]
    assert body.meta.labels == {"l": "1"}
    assert body.meta.annotations == {"a/b": "2"}
    assert body.meta.uid == "uid1"
    assert body.meta.name == "name1"
    assert body.meta.namespace == "ns1"
    assert body.meta.creation_timestamp == "2020-01-01T00:00:00Z"
    assert body.meta.deletion_timestamp == "2020-12-31T23:59:59Z"


def test_parts_are_the_same_objects_every_time():
    body = Body(RAW)
    assert body.spec is body.spec
    assert body.status is body.status
    assert body.meta is body.metadata
    assert body.meta.labels is body.meta.labels
    assert body.meta.annotations is body.meta.annotations


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"metadata": None, "spec": None, "status": None},
        {"metadata": 1, "spec": "", "status": []},
    ],
)
def test_a10_absent_and_null_parts_are_empty(raw):
    body = Body(raw)
    assert body.spec == {}
    assert body.status == {}
    assert body.meta == {}
    assert body.meta.labels == {}
    assert body.meta.annotations == {}
    assert body.meta.labels.get("x") is None
    assert body.meta.uid is None
    assert body.meta.name is None
    assert body.meta.namespace is None
    assert body.meta.creation_timestamp is None
    assert body.meta.deletion_timestamp is None


def test_a10_null_labels_and_annotations_are_empty():
    body = Body({"metadata": {"labels": None, "annotations": None}})
    assert body.meta.labels == {}
    assert body.meta.annotations == {}


def test_parts_follow_the_replaced_body():
    body = Body(RAW)
    spec, labels, annotations = body.spec, body.meta.labels, body.meta.annotations
    replace_source(body, {"spec": {"x": 100}, "metadata": {"labels": {"l": "100"}}})
    assert spec == {"x": 100}
    assert labels == {"l": "100"}
    assert annotations == {}
    replace_source(body, Body(RAW))
    assert spec == {"x": 1}


def test_bodies_are_printed_as_dicts():
    body = Body({"spec": {"x": 1}})
    assert f"{body}" == repr(body) == str(body) == "{'spec': {'x': 1}}"
    assert f"{body.spec}" == "{'x': 1}"


def test_parts_are_constructed_of_bodies():
    body = Body(RAW)
    assert Spec(body) == {"x": 1}
    assert Status(body) == {"y": 2}
    assert Meta(body).name == "name1"


def test_object_references():
    assert build_object_reference(Body(RAW)) == {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "name": "name1",
        "uid": "uid1",
        "namespace": "ns1",
    }
    assert list(build_object_reference(RAW)) == ["apiVersion", "kind", "name", "uid", "namespace"]


@pytest.mark.parametrize("raw", [{}, {"metadata": None}, {"kind": None, "metadata": {"name": ""}}])
def test_references_to_unknown_objects_are_empty(raw):
    assert build_object_reference(Body(raw)) == {}


def test_owner_references():
    assert build_owner_reference(Body(RAW)) == {
        "controller": True,
        "blockOwnerDeletion": True,
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "name": "name1",
        "uid": "uid1",
    }


def test_owner_references_with_flags():
    ref = build_owner_reference(RAW, controller=None, block_owner_deletion=False)
    assert "controller" not in ref
    assert ref["blockOwnerDeletion"] is False
