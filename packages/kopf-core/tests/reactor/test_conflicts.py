"""What others do to objects at the same time."""

import logging
from functools import partial

import pytest

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.memos import Memo
from kopf_core.actions.effects import Applied
from kopf_core.actions.loggers import objects_logger
from kopf_core.engines.memories import ObjectMemory
from kopf_core.reactor.conflicts import (
    LOST_MARKS_DELAYS,
    MAX_CONFLICT_DELAY,
    MAX_CONFLICTS,
    PEACE,
    get_conflict_delay,
    get_lost_marks_delay,
    get_lost_progress_delay,
    keep_refused,
    must_leave_finalizer,
)
from kopf_core.reactor.turns import Turn
from kopf_core.reactor.work import WorkItem

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


def test_c15_finalizers_are_added_slower_and_slower_only_if_undone_in_a_row(memory, logged):
    turn = Turn(WorkItem("u"), memory, OperatorSettings())
    turn.item.latest = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {}}

    def lose(now):
        memory.finalized = ("kopf.dev/v1", True)  # we have just added it
        is_undone = must_leave_finalizer(turn, now, wanted=True)
        assert is_undone == (memory.finalizer_until > now)
        return memory.finalizer_until - now

    now, delays = 1000.0, []
    for _ in range(10):
        delays.append(lose(now))
        now += delays[-1] + 1
    assert delays[0] == 0
    assert delays == sorted(delays)
    assert delays[-1] == LOST_MARKS_DELAYS[-1]
    assert len(logged(logging.WARNING)) == 9
    assert lose(now + PEACE) == 0
    assert len(logged(logging.WARNING)) == 9


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
