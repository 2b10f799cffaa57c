"""What others do to objects at the same time."""

import logging
from functools import partial

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.memos import Memo
from kopf_core.actions.effects import Applied
from kopf_core.actions.loggers import objects_logger
from kopf_core.engines.memories import ObjectMemory
from kopf_core.engines.records.holds import FREE, LOST_MARKS_DELAYS, PEACE
from kopf_core.engines.records.owed import NOTHING_OWED
from kopf_core.reactor.object.conflicts import (
    MAX_CONFLICT_DELAY,
    MAX_CONFLICTS,
    get_conflict_delay,
    keep_refused,
    must_leave_finalizer,
    tell_of_lost_marks,
    tell_of_lost_progress,
)
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.streams.work import WorkItem

REFUSED = partial(Applied, is_refused=True)


def lose_repeatedly(tell):
    holds, delays = FREE, []
    for _ in range(10):
        holds = holds.lost(1000.0)
        tell(holds, objects_logger)
        delays.append(holds.until - 1000.0)
    return delays


def test_c15_lost_marks_are_handled_slower_and_slower(logged):
    delays = lose_repeatedly(tell_of_lost_marks)
    assert delays[0] == 0
    assert delays == sorted(delays)
    assert delays[-1] == LOST_MARKS_DELAYS[-1] > 10
    assert len(logged(logging.WARNING)) == 10


def test_c12_handlers_with_lost_progress_are_called_slower_and_slower(logged):
    delays = lose_repeatedly(tell_of_lost_progress)
    assert delays[0] == 0
    assert delays == sorted(delays)
    assert delays[-1] == LOST_MARKS_DELAYS[-1]
    assert len(logged(logging.WARNING)) == 9  # it can be removed by a person, once


def test_c15_finalizers_are_added_slower_and_slower_only_if_undone_in_a_row(logged):
    memory = ObjectMemory(Memo(), is_listed=False)
    turn = Turn(WorkItem("u"), memory, OperatorSettings())
    turn.item.latest = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {}}

    def lose(now):
        hold = memory.holds.finalizer.changed("kopf.dev/v1", is_added=True)
        memory.holds = memory.holds._replace(finalizer=hold)
        is_undone = must_leave_finalizer(turn, now, wanted=True)
        until = memory.holds.finalizer.until
        assert is_undone == (until > now)
        return until - now

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


def test_b10_functions_refused_too_many_times_in_a_row_are_dropped(logged):
    owed = NOTHING_OWED

    def fn(body):
        pass

    def send(applied, has_news=False):
        nonlocal owed
        owed = keep_refused(owed.taken(), applied, objects_logger, has_news=has_news)
        return owed.carried

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


def test_b10_refused_finalizers_are_reported_from_time_to_time(logged):
    owed, delays = NOTHING_OWED, []
    for _ in range(MAX_CONFLICTS * 2):
        owed = keep_refused(owed, REFUSED(refusal="No!"), objects_logger, has_news=False)
        delays.append(get_conflict_delay(owed))
    messages = logged(logging.ERROR)
    assert len(messages) == 2
    assert "finalizer" in messages[0]
    assert messages[0].endswith("The latest reply was: No!")
    assert delays[:5] == [2, 4, 8, 16, 32]
    assert max(delays) == MAX_CONFLICT_DELAY


def test_deny1_the_second_refusal_of_the_same_state_is_told_with_its_reason(logged):
    """Webhooks can deny with the code of outdated states: it must not stay unknown for minutes."""
    owed = NOTHING_OWED
    refused = REFUSED(refusal='422: admission webhook "x" denied the request: no')
    for has_news in [True, True, False]:  # each of them can be of an outdated state
        owed = keep_refused(owed, refused, objects_logger, has_news=has_news)
    assert not logged(logging.WARNING)
    for has_news in [False, True, False]:
        owed = keep_refused(owed, refused, objects_logger, has_news=has_news)
    (message,) = logged(logging.WARNING)
    assert message.endswith('422: admission webhook "x" denied the request: no')


def test_b10_functions_of_several_patches_are_carried_together():
    owed = NOTHING_OWED
    for applied in [REFUSED(carried=(print,)), Applied(), REFUSED(carried=(repr,))]:
        owed = keep_refused(owed, applied, objects_logger, has_news=True)
    assert owed.carried == (print, repr)
