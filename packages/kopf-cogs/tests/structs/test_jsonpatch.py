import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kopf_cogs.structs.jsonpatch import escape_pointer, make_json_patch


def apply(doc, ops):
    """The simplest independent application of the patches."""
    doc = copy.deepcopy(doc)
    for op in ops:
        keys = [key.replace("~1", "/").replace("~0", "~") for key in op["path"].split("/")[1:]]
        if not keys:
            doc = op["value"]
            continue
        *parents, last = keys
        here = doc
        for key in parents:
            here = here[int(key)] if isinstance(here, list) else here[key]
        idx = int(last) if isinstance(here, list) else last
        if op["op"] == "remove":
            del here[idx]
        elif op["op"] == "add" and isinstance(here, list):
            assert 0 <= idx <= len(here)
            here.insert(idx, op["value"])
        else:
            assert op["op"] == "add" or (isinstance(here, list) or idx in here)
            here[idx] = op["value"]
    return doc


def test_escaping():
    assert escape_pointer("a/b~c~1") == "a~1b~0c~01"


@pytest.mark.parametrize(
    ("old", "new", "ops"),
    [
        ({}, {}, []),
        ({"x": 1}, {"x": 1}, []),
        ({}, {"x": 1}, [{"op": "add", "path": "/x", "value": 1}]),
        ({}, {"x": None}, [{"op": "add", "path": "/x", "value": None}]),
        ({"x": 1}, {}, [{"op": "remove", "path": "/x"}]),
        ({"x": 1}, {"x": 2}, [{"op": "replace", "path": "/x", "value": 2}]),
        ({"x": 1}, {"x": None}, [{"op": "replace", "path": "/x", "value": None}]),
        ({"x": 1}, {"x": True}, [{"op": "replace", "path": "/x", "value": True}]),
        ({"x": [1]}, {"x": [True]}, [{"op": "replace", "path": "/x/0", "value": True}]),
        ({"x": 0}, {"x": False}, [{"op": "replace", "path": "/x", "value": False}]),
        ({"x": {"a": 1}}, {"x": [1]}, [{"op": "replace", "path": "/x", "value": [1]}]),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [{"op": "replace", "path": "/a/b", "value": 2}]),
        ({"a": {}}, {"a": {"x/y~z": 2}}, [{"op": "add", "path": "/a/x~1y~0z", "value": 2}]),
        ({"": 1}, {}, [{"op": "remove", "path": "/"}]),
    ],
)
def test_operations_on_dicts(old, new, ops):
    assert make_json_patch(old, new) == ops


@pytest.mark.parametrize(
    ("old", "new", "ops"),
    [
        ([], [1], [{"op": "add", "path": "/l/0", "value": 1}]),
        ([1], [1, 2], [{"op": "add", "path": "/l/1", "value": 2}]),
        ([1, 2], [0, 1, 2], [{"op": "add", "path": "/l/0", "value": 0}]),
        ([1, 2], [1, 9, 2], [{"op": "add", "path": "/l/1", "value": 9}]),
        ([1, 2, 3], [2, 3], [{"op": "remove", "path": "/l/0"}]),
        ([1, 2, 3], [1, 3], [{"op": "remove", "path": "/l/1"}]),
        ([1, 2, 3], [1, 2], [{"op": "remove", "path": "/l/2"}]),
        ([1, 2, 3], [1, 9, 3], [{"op": "replace", "path": "/l/1", "value": 9}]),
        ([1, 1], [1], [{"op": "remove", "path": "/l/1"}]),
        ([1, 2], [], [{"op": "remove", "path": "/l/1"}, {"op": "remove", "path": "/l/0"}]),
        ([{"a": 1}, {"b": 1}], [{"b": 1}], [{"op": "remove", "path": "/l/0"}]),
        ([{"a": 1}], [{"a": 2}], [{"op": "replace", "path": "/l/0/a", "value": 2}]),
    ],
)
def test_operations_on_lists(old, new, ops):
    assert make_json_patch({"l": old}, {"l": new}) == ops


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a", "b"]),
    lambda sub: (
        st.lists(sub, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "c/d", "~e", ""]), sub, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(json_values, json_values)
def test_operations_turn_the_old_into_the_new(old, new):
    result = apply(old, make_json_patch(old, new))
    assert repr(_sorted(result)) == repr(_sorted(new))  # with True different from 1


def _sorted(value):
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
