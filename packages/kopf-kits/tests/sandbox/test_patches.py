import pytest

from kopf_kits.sandbox.base.statuses import StatusError
from kopf_kits.sandbox.fields.patches import apply_json_patch, merge


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": None}, {}),
        ({}, {"a": None}, {}),
        ({}, {"a": {"b": None, "c": {"d": None}}}, {"a": {"c": {}}}),
        ({"a": [1]}, {"a": {"b": None}}, {"a": {}}),
        ({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}),
        ({"a": None}, {"a": {"b": None}}, {"a": {}}),
        ({"a": {"b": 1}}, {"a": "text"}, {"a": "text"}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
    ],
)
def test_merge_patches(target, patch, expected):
    assert merge(target, patch) == expected


def test_merging_modifies_nothing_and_shares_the_rest():
    target = {"a": {"b": 1}, "c": {"d": 1}}
    result = merge(target, {"a": {"b": 2}})
    assert target == {"a": {"b": 1}, "c": {"d": 1}}
    assert result["c"] is target["c"]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/b", "value": 1}, {"a": [1, 2], "b": 1}),
        ({"op": "add", "path": "/a/0", "value": 0}, {"a": [0, 1, 2]}),
        ({"op": "add", "path": "/a/2", "value": 3}, {"a": [1, 2, 3]}),
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3]}),
        ({"op": "add", "path": "", "value": {"b": 1}}, {"b": 1}),
        ({"op": "remove", "path": "/a/0"}, {"a": [2]}),
        ({"op": "remove", "path": "/a"}, {}),
        ({"op": "replace", "path": "/a/1", "value": 5}, {"a": [1, 5]}),
        ({"op": "replace", "path": "/a", "value": 5}, {"a": 5}),
        ({"op": "replace", "path": "/absent", "value": 5}, {"a": [1, 2], "absent": 5}),
        ({"op": "test", "path": "/a/1", "value": 2}, {"a": [1, 2]}),
        ({"op": "test", "path": "/absent", "value": None}, {"a": [1, 2]}),
        ({"op": "move", "from": "/a", "path": "/b"}, {"b": [1, 2]}),
        ({"op": "copy", "from": "/a", "path": "/b"}, {"a": [1, 2], "b": [1, 2]}),
        ({"op": "add", "path": "/x~1y~0z", "value": 1}, {"a": [1, 2], "x/y~z": 1}),
    ],
)
def test_json_patches(operation, expected):
    target = {"a": [1, 2]}
    assert apply_json_patch(target, [operation]) == expected
    assert target == {"a": [1, 2]}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a/1", "value": 3},
        {"op": "test", "path": "/a/0", "value": True},
        {"op": "test", "path": "/absent/deeper", "value": None},
        {"op": "add", "path": "/a/5", "value": 1},
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "add", "path": "/absent/x", "value": 1},
        {"op": "remove", "path": "/a/5"},
        {"op": "remove", "path": "/b"},
        {"op": "remove", "path": ""},
        {"op": "replace", "path": "/b/c", "value": 1},
        {"op": "move", "from": "/b", "path": "/c"},
        {"op": "unknown", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add"},
    ],
)
def test_rejected_json_patches(operation):
    with pytest.raises(StatusError) as caught:
        apply_json_patch({"a": [1, 2]}, [operation])
    assert caught.value.code == 422


@pytest.mark.parametrize("patch", [{"op": "add"}, ["text"], [1]])
def test_json_patches_are_lists_of_objects(patch):
    with pytest.raises(StatusError) as caught:
        apply_json_patch({}, patch)
    assert caught.value.code == 400
