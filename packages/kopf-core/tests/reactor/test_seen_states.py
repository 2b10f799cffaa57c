"""What the finished handlers have seen, while the others go on."""

import json
from typing import Any

import pytest

from kopf_core.reactor.object.seen_states import SeenStates

V1: Any = {"spec": {"n": 1}}
V2: Any = {"spec": {"n": 2}}
V3: Any = {"spec": {"n": 3}}
SINCE = "2020-01-01T00:00:00+00:00"


def positions(seen: SeenStates, *ids: Any) -> list[int]:
    return [seen.find([id]) for id in ids]


def test_all_see_the_current_state_until_it_changes() -> None:
    seen = SeenStates().add(V1, ["a"]).add(V1, ["a", "b"])
    assert [item.essence for item in seen.items] == [V1]
    assert positions(seen, "a", "b", "c") == [0, 0, 0]


def test_those_who_are_over_stay_with_what_they_have_seen() -> None:
    seen = SeenStates().add(V1, []).add(V2, ["a"]).add(V3, ["a", "b"])
    assert [item.essence for item in seen.items] == [V1, V2, V3]
    assert positions(seen, "a", "b", "c") == [0, 1, 2]
    assert seen.find(["c", "b"]) == 1  # a parent and its sub-handler


def test_states_seen_by_nobody_are_not_kept() -> None:
    seen = SeenStates().add(V1, []).add(V2, []).add(V3, ["a"]).add(V1, [])
    assert [item.essence for item in seen.items] == [V1]


def test_own_changes_are_as_if_it_always_was_so() -> None:
    seen = SeenStates().add(V1, []).add(V2, ["a"]).change(V3)
    assert [item.essence for item in seen.items] == [V1, V3]
    assert positions(seen, "a", "b") == [0, 1]


def test_only_what_is_needed_is_kept() -> None:
    seen = SeenStates().add(V1, []).add(V2, ["a"]).add(V3, ["a", "b"])
    assert [item.essence for item in seen.keep(1, ["b"]).items] == [V2, V3]
    assert [item.essence for item in seen.keep(1, ["c"]).items] == [V3]


def test_k37_everybody_is_named_once() -> None:
    """By the newest of the states that they have seen."""
    seen = SeenStates().add(V1, []).add(V2, ["a"]).add(V3, ["a", "b"])
    assert [sorted(item.by) for item in seen.items] == [["a"], ["b"], []]


def test_k37_what_everybody_has_seen_is_not_kept() -> None:
    seen = SeenStates().add(V1, []).add(V2, ["a"]).add(V3, ["a", "b"])
    assert [item.essence for item in seen.keep(1, ["a", "b"]).items] == [V2, V3]


def test_k37_handlers_cannot_change_what_was_seen() -> None:
    essence: Any = {"spec": {"n": 1}}
    seen = SeenStates().add(essence, [])
    essence["spec"]["n"] = 2
    assert seen.items[0].essence == V1


def test_they_are_restored_as_they_were_stored() -> None:
    seen = SeenStates().add(V1, []).add(V2, ["a"])
    stored = seen.as_json(SINCE)
    assert stored == {
        "since": SINCE,
        "states": [{"essence": V1, "by": ["a"]}, {"essence": V2}],
    }
    assert SeenStates.from_json(stored, SINCE) == seen


def test_they_are_the_same_when_unpacked() -> None:
    seen = SeenStates().add(V1, []).add(V2, ["a"])
    packed = seen.pack(SINCE)
    unpacked = SeenStates(packed=packed)
    assert unpacked
    assert unpacked == seen
    assert unpacked.pack(SINCE) is packed
    assert unpacked.add(V3, ["b"]) == seen.add(V3, ["b"])


def test_what_is_unpacked_is_not_shared() -> None:
    packed = SeenStates().add(V1, []).pack(SINCE)
    SeenStates(packed=packed).items[-1].essence.clear()
    assert SeenStates(packed=packed).items[-1].essence == V1


def test_the_text_is_made_once_for_a_cycle() -> None:
    seen = SeenStates().add(V1, []).add(V2, ["a"])
    assert seen.size is None
    packed = seen.pack(SINCE)
    assert json.loads(packed.text) == seen.as_json(SINCE)
    assert seen.pack(SINCE) is packed
    assert seen.size == len(packed.text)
    assert seen.add(V2, ["a", "b"]).size == len(packed.text)  # nothing has changed
    assert seen.add(V3, ["a", "b"]).size is None
    assert seen.pack("another cycle") != packed


def test_those_of_other_cycles_are_ignored() -> None:
    stored = SeenStates().add(V1, []).as_json(SINCE)
    assert not SeenStates.from_json(stored, "2020-02-02T00:00:00+00:00")


@pytest.mark.parametrize(
    "stored",
    [
        None,
        {},
        {"since": SINCE},
        {"since": SINCE, "states": None},
        {"since": SINCE, "states": [None, "x", {}, {"essence": 1}]},
    ],
)
def test_c14_broken_ones_are_ignored(stored: Any) -> None:
    assert not SeenStates.from_json(stored, SINCE)


def test_c14_broken_handlers_are_ignored() -> None:
    stored = {"since": SINCE, "states": [{"essence": V1, "by": [1, "a"]}, {"essence": V2, "by": 2}]}
    assert positions(SeenStates.from_json(stored, SINCE), "a", "b") == [0, 1]
