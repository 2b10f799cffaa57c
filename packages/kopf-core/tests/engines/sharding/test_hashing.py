"""Which object is in which shard: the same as API servers select."""

import uuid
from collections import Counter
from random import Random

import pytest

from kopf_cogs.structs.resources import Resource
from kopf_core.engines.sharding.hashing import (
    find_shard,
    format_selector,
    get_range,
    hash_text,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
)
def test_o_the_hash_is_fnv1a_of_64_bits(text: str, value: int) -> None:
    assert hash_text(text) == value


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 100])
def test_o_ranges_have_all_hashes_with_no_gaps_and_overlaps(count: int) -> None:
    ranges = [get_range(shard, count) for shard in range(count)]
    assert ranges[0].start == 0
    assert ranges[-1].end == 2**64
    assert [one.end for one in ranges[:-1]] == [one.start for one in ranges[1:]]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 100])
def test_o_objects_are_in_the_ranges_of_their_shards(count: int) -> None:
    chance = Random(0)
    for _ in range(1000):
        uid = str(uuid.UUID(int=chance.getrandbits(128)))
        start, end = get_range(find_shard(uid, count), count)
        assert start <= hash_text(uid) < end


def test_o_ranges_are_written_as_the_api_has_them() -> None:
    assert str(get_range(0, 2)) == "'0x0000000000000000', '0x8000000000000000'"
    assert str(get_range(1, 2)) == "'0x8000000000000000', '0x10000000000000000'"


def test_o_objects_are_spread_evenly() -> None:
    chance = Random(1)
    uids = [str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(64_000)]
    counts = Counter(map(find_shard, uids))
    assert len(counts) == 64
    assert max(counts.values()) < 1.15 * 1000
    assert min(counts.values()) > 0.85 * 1000


def test_o_objects_without_uids_are_told_apart_by_their_names() -> None:
    resource = Resource("", "v1", "componentstatuses")
    names = ["etcd-0", "scheduler", "controller-manager"]
    assert len({find_shard((resource, None, name)) for name in names}) == 3


def test_o_selectors_have_neighbouring_shards_in_one_range() -> None:
    assert format_selector({0, 1, 3}, 4) == (
        "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
        " || shardRange(object.metadata.uid, '0xc000000000000000', '0x10000000000000000')"
    )


def test_o_all_shards_need_no_selector() -> None:
    assert format_selector(range(64)) == ""


def test_o_no_shards_are_a_range_of_one_hash() -> None:
    assert format_selector(()) == (
        "shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000001')"
    )
