"""How assignments are stored in annotations."""

import json

import pytest

from kopf_core.engines.sharding.assignment_records import format_assignment, parse_assignment
from kopf_core.engines.sharding.assignments import Assignment, Shard
from kopf_core.engines.sharding.hashing import SHARDS

REST = [["a"]] * (SHARDS - 1)


def test_o_assignments_are_read_as_they_were_written():
    shards = (Shard("a"), Shard("a", "b", 7), *[Shard()] * (SHARDS - 2))
    text = format_assignment(Assignment(shards, 7))
    assert text.startswith('{"round":7,"shards":[["a"],["a","b",7],[],[]')
    assert parse_assignment(text) == Assignment(shards, 7)


def test_o_assignments_are_small_enough_for_annotations():
    shards = tuple(Shard("0123456789", "9876543210", 10**9) for _ in range(SHARDS))
    assert len(format_assignment(Assignment(shards, 10**9))) < 4096


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "{",
        "[]",
        '{"round": 1}',
        json.dumps({"round": "1", "shards": [["a"], *REST]}),
        json.dumps({"round": 1, "shards": REST}),
        json.dumps({"round": 1, "shards": [["a", "b"], *REST]}),
        json.dumps({"round": 1, "shards": [[7], *REST]}),
    ],
)
def test_o_what_is_not_an_assignment_is_none(value):
    assert parse_assignment(value) is None
