"""Merge patches and JSON patches, as servers apply them."""

from typing import Any

import pytest

from kopf_cogs.structs.labels import matches_labels
from kopf_cogs.structs.merging import PatchMismatch, make_merge_patch, merge, modify


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_n5_merging_is_as_in_the_standard(old: Any, patch: Any, new: Any) -> None:
    assert merge(old, patch) == new


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
        ({}, {"a": {"b": {}}}, {"a": {"b": {}}}),
    ],
)
def test_n5_merge_patches_lead_to_the_new_state(old: Any, new: Any, patch: Any) -> None:
    assert make_merge_patch(old, new) == patch
    assert merge(old, patch) == new


@pytest.mark.parametrize(
    ("ops", "new"),
    [
        ([{"op": "add", "path": "/a~1b", "value": 1}], {"x": [1, 2], "a/b": 1}),
        ([{"op": "add", "path": "/x/0", "value": 0}], {"x": [0, 1, 2]}),
        ([{"op": "add", "path": "/x/-", "value": 3}], {"x": [1, 2, 3]}),
        ([{"op": "remove", "path": "/x/0"}], {"x": [2]}),
        ([{"op": "replace", "path": "/x/1", "value": 5}], {"x": [1, 5]}),
        ([{"op": "move", "from": "/x", "path": "/y"}], {"y": [1, 2]}),
        ([{"op": "copy", "from": "/x/0", "path": "/y"}], {"x": [1, 2], "y": 1}),
        ([{"op": "test", "path": "/x/0", "value": 1}], {"x": [1, 2]}),
    ],
)
def test_n5_operations_are_applied_to_a_copy(ops: Any, new: Any) -> None:
    old = {"x": [1, 2]}
    assert modify(old, ops) == new
    assert old == {"x": [1, 2]}


@pytest.mark.parametrize(
    "op",
    [
        {"op": "test", "path": "/x/0", "value": True},
        {"op": "remove", "path": "/y"},
        {"op": "replace", "path": "/y", "value": 1},
        {"op": "add", "path": "/x/5", "value": 1},
        {"op": "add", "path": "/y/z", "value": 1},
        {"op": "unknown", "path": "/y"},
    ],
)
def test_n5_operations_that_do_not_fit_are_refused(op: Any) -> None:
    with pytest.raises(PatchMismatch):
        modify({"x": [1, 2]}, [op])


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier!=front", True),
        ("app=api", False),
        ("app in (web, api),tier", True),
        ("app notin (web)", False),
        ("old notin (x)", True),
        ("!app", False),
        ("!old", True),
        ("old", False),
        ("old!=x", True),
    ],
)
def test_n5_label_selectors(selector: str, expected: bool) -> None:
    assert matches_labels(selector, {"app": "web", "tier": "back"}) is expected
