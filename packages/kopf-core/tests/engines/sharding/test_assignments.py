"""Who has which shard, and how shards change hands."""

from collections import Counter
from random import Random

import pytest

from kopf_core.engines.sharding.assignments import Assignment, Shard, advance

NAMES = "abcdefgh"


def make_settled(chance: Random, count: int) -> Assignment:
    owners = [chance.choice([None, *NAMES[:5]]) for _ in range(count)]
    return Assignment(tuple(map(Shard, owners)), round=chance.randrange(10))


def make_any(chance: Random, count: int) -> Assignment:
    """As it can be in the middle of anything."""
    round = chance.randrange(1, 10)
    shards = [
        Shard(
            chance.choice([None, *NAMES[:5]]),
            chance.choice([None, *NAMES[:5]]),
            chance.randrange(round + 1),
        )
        for _ in range(count)
    ]
    fixed = [shard if shard.owner and shard.heir != shard.owner else Shard() for shard in shards]
    return Assignment(tuple(fixed), round=round)


def get_targets(assignment: Assignment) -> Counter[str | None]:
    return Counter(shard.heir or shard.owner for shard in assignment.shards)


@pytest.mark.parametrize("seed", range(60))
def test_o_the_plan_is_even_within_one_and_stays(seed: int) -> None:
    chance = Random(seed)
    before = make_any(chance, chance.choice([4, 7, 64]))
    members = chance.sample(NAMES, chance.randint(1, len(NAMES)))
    after = advance(before, members, {})
    counts = get_targets(after)
    assert counts.keys() <= {*members}
    assert max(counts.values()) - min(counts[name] for name in members) <= 1
    assert advance(after, members, {}) is after
    assert advance(after, [*reversed(members)], {}) is after


@pytest.mark.parametrize("seed", range(60))
def test_o_as_few_shards_as_possible_are_moved(seed: int) -> None:
    chance = Random(seed)
    before = make_settled(chance, chance.choice([4, 7, 64]))
    members = chance.sample(NAMES, chance.randint(1, len(NAMES)))
    after = advance(before, members, {})
    owned = Counter(shard.owner for shard in before.shards)
    least, rest = divmod(len(before.shards), len(members))
    ranking = sorted((owned[name] for name in members), reverse=True)
    needed = sum(max(0, had - least - (place < rest)) for place, had in enumerate(ranking))
    assert sum(shard.heir is not None for shard in after.shards) == needed


@pytest.mark.parametrize("seed", range(60))
def test_o_no_living_owner_loses_a_shard_unasked(seed: int) -> None:
    chance = Random(seed)
    before = make_any(chance, 7)
    members = chance.sample(NAMES, chance.randint(0, len(NAMES)))
    confirmed = {name: chance.randrange(10) for name in members}
    after = advance(before, members, confirmed)
    assert after.round == before.round + (after is not before)
    for old, new in zip(before.shards, after.shards, strict=True):
        if new.owner != old.owner and old.owner in members:
            assert old.heir is not None
            assert confirmed[old.owner] >= old.since
        if new.heir is not None and old.heir is None:
            assert new.since == after.round


@pytest.mark.parametrize("seed", range(40))
def test_o_when_all_confirm_the_plan_comes_true(seed: int) -> None:
    chance = Random(seed)
    before = make_any(chance, 64)
    members = chance.sample(NAMES, chance.randint(1, len(NAMES)))
    planned = advance(before, members, {})
    after = advance(planned, members, dict.fromkeys(members, planned.round))
    assert all(shard.heir is None for shard in after.shards)
    assert {*range(64)} == {one for name in members for one in after.get_share(name)}
    assert advance(after, members, dict.fromkeys(members, planned.round)) is after


def test_o_a_shard_changes_hands_in_three_steps() -> None:
    alone = advance(Assignment(shards=(Shard(),) * 2), ["a"], {})
    assert alone.get_share("a") == {0, 1}
    asked = advance(alone, ["a", "b"], {"a": 0, "b": 0})
    [given] = alone.get_share("a") - asked.get_share("a")
    assert asked.shards[given] == Shard("a", "b", since=asked.round)
    assert not asked.get_share("b")
    assert advance(asked, ["a", "b"], {"a": alone.round, "b": 0}) is asked
    given_away = advance(asked, ["a", "b"], {"a": asked.round, "b": 0})
    assert given_away.get_share("b") == {given}


def test_o_an_old_confirmation_gives_nothing_away() -> None:
    asked = advance(Assignment((Shard("a"), Shard("a")), round=5), ["a", "b"], {})
    kept = advance(asked, ["a"], {})
    assert kept.get_share("a") == {0, 1}
    asked_again = advance(kept, ["a", "b"], {})
    assert advance(asked_again, ["a", "b"], {"a": asked.round}) is asked_again


def test_o_the_shards_of_the_dead_go_to_others_at_once() -> None:
    both = advance(Assignment(), ["a", "b"], {})
    after = advance(both, ["b"], {})
    assert after.get_share("b") == {*range(64)}
    assert both.get_share("b") <= after.get_share("b")


def test_o_nobody_has_anything_when_nobody_lives() -> None:
    after = advance(Assignment((Shard("a"), Shard("b", "a", 1))), [], {})
    assert {shard.owner for shard in after.shards} == {None}
