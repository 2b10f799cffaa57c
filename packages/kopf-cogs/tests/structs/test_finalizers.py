import functools

import pytest

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.finalizers import (
    allow_deletion,
    block_deletion,
    is_deletion_blocked,
    is_deletion_ongoing,
)
from kopf_cogs.structs.patches import Patch


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, False),
        ({"metadata": None}, False),
        ({"metadata": {}}, False),
        ({"metadata": {"deletionTimestamp": None}}, False),
        ({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}, True),
    ],
)
def test_ongoing_deletion(body, expected):
    assert is_deletion_ongoing(body) is expected
    assert is_deletion_ongoing(Body(body)) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, False),
        ({"metadata": None}, False),
        ({"metadata": {"finalizers": None}}, False),
        ({"metadata": {"finalizers": ["other"]}}, False),
        ({"metadata": {"finalizers": ["other", "fin"]}}, True),
    ],
)
def test_blocked_deletion(body, expected):
    assert is_deletion_blocked(body, "fin") is expected
    assert is_deletion_blocked(Body(body), "fin") is expected


@pytest.mark.parametrize(
    ("finalizers", "ops"),
    [
        (..., [{"op": "add", "path": "/metadata/finalizers", "value": ["fin"]}]),
        (["a", "b"], [{"op": "add", "path": "/metadata/finalizers/2", "value": "fin"}]),
        (["fin"], []),
    ],
)
def test_blocking_as_a_patch(finalizers, ops):
    body = {"metadata": {"name": "n"} if finalizers is ... else {"finalizers": finalizers}}
    patch = Patch(body=body, fns=[functools.partial(block_deletion, finalizer="fin")])
    assert patch.as_json_patch() == ops


@pytest.mark.parametrize(
    ("finalizers", "ops"),
    [
        (..., []),
        (["a", "b"], []),
        (["fin"], [{"op": "remove", "path": "/metadata/finalizers"}]),
        (["a", "fin", "b"], [{"op": "remove", "path": "/metadata/finalizers/1"}]),
    ],
)
def test_allowing_as_a_patch(finalizers, ops):
    body = {"metadata": {"name": "n"} if finalizers is ... else {"finalizers": finalizers}}
    patch = Patch(body=body, fns=[functools.partial(allow_deletion, finalizer="fin")])
    assert patch.as_json_patch() == ops


def test_blocking_of_objects_with_no_metadata():
    body = {}
    block_deletion(body, finalizer="fin")
    assert body == {"metadata": {"finalizers": ["fin"]}}
    body = {"metadata": None}
    block_deletion(body, finalizer="fin")
    assert body == {"metadata": {"finalizers": ["fin"]}}
