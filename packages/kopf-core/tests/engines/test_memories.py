"""What is remembered of objects while the operator runs."""

import dataclasses

import pytest

from kopf_cogs.structs.memos import Memo
from kopf_core.engines.memories import ObjectMemories
from kopf_core.engines.records.stages import HANDLED


@pytest.fixture
def memories():
    return ObjectMemories(Memo(shared=[]))


@pytest.mark.docs("memos")
def test_records_are_remembered_until_forgotten(memories):
    first = memories.recall("a")
    assert memories.recall("a") is first
    assert memories.recall("b") is not first
    assert [*memories] == ["a", "b"]
    assert memories["a"] is first
    memories.forget("a")
    memories.forget("unknown")
    assert len(memories) == 1
    assert memories.recall("a") is not first


@pytest.mark.docs("memos")
def test_memos_are_shallow_copies_of_the_operators_one(memories):
    one, two = memories.recall("a").memo, memories.recall("b").memo
    assert isinstance(one, Memo)
    one.value = 1
    assert "value" not in two
    assert one.shared is two.shared
    assert memories.recall("a").memo is one


@pytest.mark.docs("memos")
def test_memos_see_what_was_there_at_the_first_appearance(memories):
    memories._memo.early = True
    one = memories.recall("a").memo
    memories._memo.late = True
    assert one.early
    assert "late" not in one


@pytest.mark.docs("memos")
def test_custom_memos_decide_how_they_are_copied():
    @dataclasses.dataclass
    class Custom:
        value: int

        def __copy__(self):
            return self

    origin = Custom(1)
    memories = ObjectMemories(origin)
    assert memories.recall("a").memo is memories.recall("b").memo is origin


@pytest.mark.docs("handlers/resuming")
def test_objects_are_initial_until_handled(memories):
    memory = memories.recall("a", is_listed=True)
    assert memory.initial
    memory.cycle = HANDLED
    assert not memory.initial
    assert not memories.recall("b", is_listed=False).initial


def test_listing_again_does_not_make_objects_initial(memories):
    memories.recall("a", is_listed=False)
    assert not memories.recall("a", is_listed=True).initial


def test_warnings_are_given_once_per_topic(memories):
    memory = memories.recall("a")
    assert [memory.warn_once("x"), memory.warn_once("x"), memory.warn_once("y")] == [
        True,
        False,
        True,
    ]
