"""What others do to objects at the same time."""

import logging
from functools import partial

import pytest

from kopf_cogs.structs.memos import Memo
from kopf_core.actions.effects import Applied
from kopf_core.actions.loggers import objects_logger
from kopf_core.engines.memories import ObjectMemory
from kopf_core.reactor.conflicts import (
    LOST_MARKS_DELAYS,
    MAX_CONFLICT_DELAY,
    MAX_CONFLICTS,
    get_conflict_delay,
    get_lost_marks_delay,
    get_lost_progress_delay,
    keep_refused,
)

REFUSED = partial(Applied, is_refused=True)


@pytest.fixture
def memory():
    return ObjectMemory(Memo(), is_listed=False)


def test_c15_lost_marks_are_handled_slower_and_slower(memory, logged):
    delays = [get_lost_marks_delay(memory, objects_logger) for _ in range(10)]
    assert delays[0] == 0
    assert delays == sorted(delays)
    assert delays[-1] == LOST_MARKS_DELAYS[-1] > 10
    assert len(logged(logging.WARNING)) == 10


def test_c12_handlers_with_lost_progress_are_called_slower_and_slower(memory, logged):
    delays = [get_lost_progress_delay(memory, objects_logger) for _ in range(10)]
    assert delays[0] == 0
    assert delays == sorted(delays)
    assert delays[-1] == LOST_MARKS_DELAYS[-1]
    assert len(logged(logging.WARNING)) == 9  # it can be removed by a person, once


def test_b10_functions_refused_too_many_times_in_a_row_are_dropped(memory, logged):
    def fn(body):
        pass

    def send(applied, has_news=False):
        keep_refused(memory, applied, objects_logger, has_news=has_news)
        return memory.take_carried()

    for _ in range(MAX_CONFLICTS - 1):
        assert send(REFUSED(carried=(fn,))) == (fn,)
    assert send(Applied()) == ()  # accepted: counted anew
    for _ in range(MAX_CONFLICTS - 1):
        assert send(REFUSED(carried=(fn,))) == (fn,)
        assert send(REFUSED(carried=(fn,)), has_news=True) == (fn,)  # it is not in vain
    assert not logged(logging.ERROR)
    assert send(REFUSED(carried=(fn,))) == ()
    (message,) = logged(logging.ERROR)
    assert "fn" in message


def test_b10_refused_finalizers_are_reported_from_time_to_time(memory, logged):
    delays = []
    for _ in range(MAX_CONFLICTS * 2):
        keep_refused(memory, REFUSED(refusal="No!"), objects_logger, has_news=False)
        delays.append(get_conflict_delay(memory))
    messages = logged(logging.ERROR)
    assert len(messages) == 2
    assert "finalizer" in messages[0]
    assert messages[0].endswith("The latest reply was: No!")
    assert delays[:5] == [2, 4, 8, 16, 32]
    assert max(delays) == MAX_CONFLICT_DELAY


def test_b10_functions_of_several_patches_are_carried_together(memory):
    keep_refused(memory, REFUSED(carried=(print,)), objects_logger, has_news=True)
    keep_refused(memory, Applied(), objects_logger, has_news=True)
    keep_refused(memory, REFUSED(carried=(repr,)), objects_logger, has_news=True)
    assert memory.take_carried() == (print, repr)
