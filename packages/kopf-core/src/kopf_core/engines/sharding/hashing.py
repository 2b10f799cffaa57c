"""Hashing: which object is in which shard.

The hash and the ranges are the same as in API servers (``shardSelector``), so that a server can
select the same objects as we do. The hash is FNV-1a with 64 bits, of the uid of the object.
"""

from collections.abc import Collection
from typing import NamedTuple

from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.parts import KnownKey

SHARDS = 64
"""How many shards there are by default."""

_OFFSET = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_BITS = 64
_MASK = 2**_BITS - 1


class KeyRange(NamedTuple):
    """The hashes of one shard: from the start, and up to the end, which is not in the range."""

    start: int
    end: int

    def __str__(self) -> str:
        """The range as in the API: with 16 digits each, except for the end of all hashes."""
        return f"'0x{self.start:016x}', '0x{self.end:016x}'"


def hash_text(text: str) -> int:
    """The hash of any text."""
    value = _OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _PRIME & _MASK
    return value


def find_shard(key: KnownKey | ObjectKey, count: int = SHARDS) -> int:
    """The shard of the object. The few objects without uids are told apart by their names."""
    text = key if isinstance(key, str) else "/".join(str(part or "") for part in key[-2:])
    return hash_text(text) * count >> _BITS


def format_selector(shards: Collection[int], count: int = SHARDS) -> str:
    """The ``shardSelector`` for the objects of these shards; empty if they are all shards.

    Servers accept no empty ranges, so no shards are a range of one hash.
    """
    ranges: list[KeyRange] = []
    for start, end in (get_range(shard, count) for shard in sorted(shards)):
        if ranges and ranges[-1].end == start:
            ranges[-1] = KeyRange(ranges[-1].start, end)
        else:
            ranges.append(KeyRange(start, end))
    if ranges == [KeyRange(0, 1 << _BITS)]:
        return ""
    terms = (f"shardRange(object.metadata.uid, {one})" for one in ranges or [KeyRange(0, 1)])
    return " || ".join(terms)


def get_range(shard: int, count: int = SHARDS) -> KeyRange:
    """The hashes of the objects that are in the shard."""
    start, end = (-(-(bound << _BITS) // count) for bound in (shard, shard + 1))
    return KeyRange(start, end)
