"""Records of assignments: how they are stored in annotations."""

import json
from typing import Any

from kopf_core.engines.sharding.assignments import Assignment, Shard
from kopf_core.engines.sharding.hashing import SHARDS

MAX_ROUND = 10**18
"""No member can confirm this round or a later one."""


def format_assignment(assignment: Assignment) -> str:
    """The text of the annotation: for each shard, its owner, and its heir with the round."""
    shards = [_format_shard(shard) for shard in assignment.shards]
    return json.dumps({"round": assignment.round, "shards": shards}, separators=(",", ":"))


def parse_assignment(text: object) -> Assignment | None:
    """The assignment; nothing if it is absent, or is not what :func:`format_assignment` makes."""
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("round"), int):
        return None
    if not 0 <= value["round"] < MAX_ROUND:
        return None
    items = value.get("shards")
    if not isinstance(items, list) or len(items) != SHARDS or not all(map(_is_shard, items)):
        return None
    return Assignment(tuple(Shard(*item) for item in items), value["round"])


def _format_shard(shard: Shard) -> list[Any]:
    if shard.owner is None:
        return []
    return [shard.owner] if shard.heir is None else [*shard]


def _is_shard(item: Any) -> bool:
    match item:
        case [] | [str()] | [str(), str(), int()]:
            return True
    return False
