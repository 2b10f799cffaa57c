"""What has happened to an object, judged by its state and by its last handled state."""

import pytest

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.diffs import EMPTY, diff
from kopf_core.intents.causes import Reason
from kopf_core.intents.detection import detect_reason

FINALIZER = "our-finalizer"
CHANGED = diff({"spec": 1}, {"spec": 2})
DELETED = {"deletionTimestamp": "2020-01-01T00:00:00Z"}
OURS = {"finalizers": [FINALIZER]}
FOREIGN = {"finalizers": ["another"]}


def detect(type=None, meta=None, old=None, diff=EMPTY, initial=False):
    return detect_reason(
        event_type=type,
        body=Body({"metadata": meta or {}}),
        finalizer=FINALIZER,
        old=old,
        diff=diff,
        initial=initial,
    )


@pytest.mark.docs("handlers/causes")
@pytest.mark.parametrize("type", [None, "ADDED", "MODIFIED"])
@pytest.mark.parametrize("initial", [True, False])
def test_never_handled_is_created_even_if_it_existed_before(type, initial):
    assert detect(type, old=None, initial=initial) == Reason.CREATE


@pytest.mark.docs("handlers/causes")
@pytest.mark.parametrize("initial", [True, False])
def test_changed_since_handled_is_updated_even_if_seen_for_the_first_time(initial):
    assert detect("MODIFIED", old={}, diff=CHANGED, initial=initial) == Reason.UPDATE


@pytest.mark.docs("handlers/resuming")
@pytest.mark.parametrize(("initial", "reason"), [(True, Reason.RESUME), (False, Reason.NOOP)])
def test_unchanged_is_resumed_only_when_seen_for_the_first_time(initial, reason):
    assert detect(None, old={}, initial=initial) == reason


@pytest.mark.docs("handlers/causes")
@pytest.mark.parametrize("old", [None, {}])
@pytest.mark.parametrize("diff", [EMPTY, CHANGED])
@pytest.mark.parametrize("initial", [True, False])
def test_marked_for_deletion_with_our_finalizer_is_deletion_whatever_else(old, diff, initial):
    assert detect("MODIFIED", DELETED | OURS, old, diff, initial) == Reason.DELETE


@pytest.mark.parametrize("meta", [{}, FOREIGN, {"finalizers": None}, {"finalizers": []}])
def test_c5_marked_for_deletion_without_our_finalizer_is_not_ours_anymore(meta):
    assert detect("MODIFIED", DELETED | meta, {}, CHANGED) == Reason.FREE


@pytest.mark.parametrize("meta", [{}, OURS, DELETED, DELETED | OURS])
def test_really_deleted_is_gone_whatever_its_last_state(meta):
    assert detect("DELETED", meta, {}, CHANGED, initial=True) == Reason.GONE


def test_null_deletion_timestamp_is_no_deletion():
    assert detect("MODIFIED", {"deletionTimestamp": None} | OURS, {}, CHANGED) == Reason.UPDATE


def test_handled_reasons_are_those_with_handlers():
    handled = {reason for reason in Reason if reason.is_handled}
    assert handled == {Reason.CREATE, Reason.UPDATE, Reason.DELETE, Reason.RESUME}
