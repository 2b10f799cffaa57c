"""What is done, but is not on the object yet."""

from kopf_cogs.structs.patches import Patch
from kopf_core.actions.marks import Marks
from kopf_core.engines.records.owed import NOTHING_OWED

MARKS, PATCH = Marks({"metadata": {}}), Patch({"status": {}})


def test_what_is_not_sent_is_owed():
    owed = NOTHING_OWED.unsent(MARKS, Patch())
    assert owed.marks is MARKS
    assert NOTHING_OWED.unsent(Marks(), PATCH).patch is PATCH
    assert owed.unsent(Marks(), Patch()) is NOTHING_OWED


def test_functions_are_owed_apart_from_patches():
    owed = NOTHING_OWED.unsent(MARKS, PATCH).refused((print,), "no", has_news=False)
    owed = owed.unsent(Marks(), Patch())
    assert (owed.marks, owed.patch, owed.carried, owed.conflicts) == (None, None, (print,), 1)
    assert owed.taken().carried == ()
    assert owed.accepted().conflicts == 0
    assert owed.given_up() == NOTHING_OWED


def test_conflicts_with_news_are_not_counted():
    assert NOTHING_OWED.refused((print,), None, has_news=True).conflicts == 0


def test_q_debts_are_described_until_the_changes_are_accepted():
    owed = NOTHING_OWED.refused((), "no", has_news=False)
    assert owed.title == "its changes are not stored: no"
    assert NOTHING_OWED.unsent(MARKS, PATCH).title == "its changes are not stored"
    assert owed.accepted().title is None
    assert NOTHING_OWED.title is None


def test_k14_what_a_pause_has_held_is_sent_or_dropped_after_it():
    owed = NOTHING_OWED.unsent(MARKS, PATCH).held({"metadata": {}})
    assert owed.judged(is_obsolete=False) == NOTHING_OWED.unsent(MARKS, PATCH)
    assert owed.judged(is_obsolete=True) == NOTHING_OWED
