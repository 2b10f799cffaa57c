import json

import pytest

from kopf_cogs.clients.quarantine import Quarantined, identify, split_list

META = {
    "annotations": {"name": "wrong", "x": '{"metadata": {"name": "wrong"}}'},
    "labels": {"uid": "wrong"},
    "managedFields": [{"name": "wrong"}, "name", ["uid"], 1, None, True],
    "name": 'a"b\\й',
    "namespace": "ns",
    "ownerReferences": [{"name": "wrong", "uid": "wrong", "controller": True}],
    "resourceVersion": "123",
    "uid": "uid1",
    "generation": 5,
}
OBJ = {"apiVersion": "v1", "kind": "X", "metadata": META, "spec": {"metadata": {"name": "no"}}}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("ascii_", [True, False])
def test_identity_of_objects(separators, ascii_):
    raw = json.dumps(OBJ, separators=separators, ensure_ascii=ascii_).encode()
    assert identify(raw) == Quarantined(None, "ns", 'a"b\\й', "uid1", "123")


def test_identity_of_events():
    raw = json.dumps({"type": "ADDED", "object": OBJ}).encode()
    assert identify(raw) == Quarantined("ADDED", "ns", 'a"b\\й', "uid1", "123")


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"1", b"]", b'{"metadata": []}', b'"x"', b"<"])
def test_no_identity(raw):
    assert identify(raw) == Quarantined(None, None, None, None, None)


def test_lists_are_split():
    bomb = b'{"metadata":{"name":"bomb"},"spec":' + b"[" * 2000 + b"]" * 2000 + b"}"
    raw = b'{"kind":"XList","apiVersion":"v1","items":[{"a":[{}]},%s,{"b":{}}],' % bomb
    raw += b'"metadata":{"resourceVersion":"5","continue":"abc","remainingItemCount":1}}'
    envelope, rejected = split_list(raw)
    assert envelope == {
        "kind": "XList",
        "apiVersion": "v1",
        "items": [{"a": [{}]}, {"b": {}}],
        "metadata": {"resourceVersion": "5", "continue": "abc"},
    }
    assert rejected == [Quarantined(None, None, "bomb", None, None)]
