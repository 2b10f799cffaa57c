"""The progress of handlers: in memory and on the objects, byte for byte."""

import datetime
import json

import pytest

from kopf_cogs.configs.progress import AnnotationsProgressStorage, StatusProgressStorage
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.errors import PermanentError, TemporaryError
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.states import HandlerState, State

NOW = datetime.datetime(2020, 1, 1, 12, 34, 56, 7, tzinfo=datetime.UTC)
LATER = NOW + datetime.timedelta(seconds=10)
SUCCESS = Outcome(final=True, result="r")
FAILURE = Outcome(final=True, exception=PermanentError("boom"))
RETRY = Outcome(final=False, exception=TemporaryError("not yet"), delay=5)


def handler(id):
    return BaseHandler(fn=print, id=id)


def annotated(**records):
    return Body(
        {
            "metadata": {
                "annotations": {
                    f"kopf.zalando.org/{id}": json.dumps(record) for id, record in records.items()
                }
            }
        }
    )


@pytest.fixture(params=[AnnotationsProgressStorage, StatusProgressStorage])
def storage(request):
    return request.param()


@pytest.fixture
def annotations():
    return AnnotationsProgressStorage()


@pytest.fixture
def fresh():
    return HandlerState(started=NOW, purpose="create")


# --- One handler ---


def test_new_handlers_are_awake(fresh):
    assert fresh.is_awake(NOW)
    assert not fresh.finished
    assert fresh.retries == 0


@pytest.mark.docs("errors/temporary")
def test_delayed_handlers_wake_up_in_time(fresh):
    state = fresh.with_outcome(RETRY, NOW)
    assert state.retries == 1
    assert not state.finished
    assert not state.is_awake(NOW + datetime.timedelta(seconds=4.9))
    assert state.is_awake(NOW + datetime.timedelta(seconds=5))
    assert state.message == "not yet"
    assert state.stopped is None


@pytest.mark.parametrize("delay", [None, 0, -1, float("nan")])
def test_d12_immediate_retries_are_awake(fresh, delay):
    outcome = Outcome(final=False, exception=TemporaryError(), delay=delay)
    assert fresh.with_outcome(outcome, NOW).is_awake(NOW)


@pytest.mark.parametrize(
    ("outcome", "success", "failure", "message"),
    [(SUCCESS, True, False, None), (FAILURE, False, True, "boom")],
)
def test_final_outcomes(fresh, outcome, success, failure, message):
    state = fresh.with_outcome(outcome, LATER)
    assert (state.success, state.failure, state.message) == (success, failure, message)
    assert state.finished
    assert not state.is_awake(LATER)
    assert state.stopped == LATER
    assert state.started == NOW
    assert state.delayed is None


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("nope"), "'nope'"),
        (ValueError(), ""),
        (ValueError("boom"), "boom"),
    ],
)
def test_errors_are_stored_as_the_predecessor_does(fresh, error, message):
    state = fresh.with_outcome(Outcome(final=False, exception=error), NOW)
    assert state.as_record()["message"] == message


def test_subrefs_accumulate_over_attempts(fresh):
    state = fresh.with_outcome(Outcome(final=False, delay=0, subrefs=["x/a"]), NOW)
    state = state.with_outcome(Outcome(final=True, subrefs=["x/b"]), NOW)
    assert state.subrefs == {"x/a", "x/b"}


# --- Records ---


@pytest.mark.docs("continuity/persistence")
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (
            None,
            '{"started":"2020-01-01T12:34:56.000007+00:00","purpose":"create","retries":0,'
            '"success":false,"failure":false}',
        ),
        (
            RETRY,
            '{"started":"2020-01-01T12:34:56.000007+00:00","delayed":"2020-01-01T12:35:11.000007+00:00",'
            '"purpose":"create","retries":1,"success":false,"failure":false,"message":"not yet"}',
        ),
        (
            SUCCESS,
            '{"started":"2020-01-01T12:34:56.000007+00:00","stopped":"2020-01-01T12:35:06.000007+00:00",'
            '"purpose":"create","retries":1,"success":true,"failure":false}',
        ),
        (
            FAILURE,
            '{"started":"2020-01-01T12:34:56.000007+00:00","stopped":"2020-01-01T12:35:06.000007+00:00",'
            '"purpose":"create","retries":1,"success":false,"failure":true,"message":"boom"}',
        ),
        (
            Outcome(final=False, delay=0, exception=TemporaryError("é"), subrefs=["x/b", "x/a"]),
            '{"started":"2020-01-01T12:34:56.000007+00:00","delayed":"2020-01-01T12:35:06.000007+00:00",'
            '"purpose":"create","retries":1,"success":false,"failure":false,"message":"\\u00e9",'
            '"subrefs":["x/a","x/b"]}',
        ),
    ],
)
def test_bytes_of_records(annotations, outcome, expected):
    body, patch = Body({"metadata": {}}), Patch()
    state = State.from_scratch(now=NOW).with_purpose("create", [handler("x")])
    if outcome is not None:
        state = state.with_outcomes({"x": outcome}, now=LATER)
    state.store(body=body, patch=patch, storage=annotations)
    assert patch == {"metadata": {"annotations": {"kopf.zalando.org/x": expected}}}


@pytest.mark.parametrize("outcome", [SUCCESS, FAILURE, RETRY])
def test_records_survive_a_round_trip(fresh, outcome):
    state = fresh.with_outcome(outcome, LATER)
    assert HandlerState.from_record(json.loads(json.dumps(state.as_record())), LATER) == state


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({}, HandlerState(started=NOW)),
        ({"started": None, "retries": None, "success": None}, HandlerState(started=NOW)),
        ({"started": "garbage"}, HandlerState(started=NOW)),
        ({"started": 123}, HandlerState(started=NOW)),
        ({"retries": -1}, HandlerState(started=NOW)),
        ({"retries": "3"}, HandlerState(started=NOW)),
        ({"retries": 3}, HandlerState(started=NOW, retries=3)),
        ({"success": "yes", "failure": 1}, HandlerState(started=NOW)),
        ({"message": {}, "purpose": []}, HandlerState(started=NOW)),
        ({"subrefs": "abc"}, HandlerState(started=NOW)),
        ({"subrefs": ["a", 1, None]}, HandlerState(started=NOW, subrefs=frozenset({"a"}))),
        ({"unknown": 1}, HandlerState(started=NOW)),
        (
            {"started": "2019-01-01T00:00:00"},
            HandlerState(started=datetime.datetime(2019, 1, 1, tzinfo=datetime.UTC)),
        ),
        (
            {"started": "2019-01-01T00:00:00Z"},
            HandlerState(started=datetime.datetime(2019, 1, 1, tzinfo=datetime.UTC)),
        ),
    ],
)
def test_c14_corrupted_records_are_healed(record, expected):
    assert HandlerState.from_record(record, NOW) == expected


def test_c14_d11_started_in_the_future_means_now():
    state = HandlerState.from_record({"started": LATER.isoformat()}, NOW)
    assert state.started == NOW


def test_d11_delays_are_not_longer_than_requested_after_the_clock_jumped_back(annotations):
    """The clock was a day ahead when the delay was stored; nobody wants to wait for that day."""
    tomorrow = NOW + datetime.timedelta(days=1)
    state = HandlerState(started=tomorrow).with_outcome(RETRY, tomorrow)
    restored = HandlerState.from_record(state.as_record(), NOW)
    assert restored.is_awake(NOW + datetime.timedelta(minutes=1))


# --- Many handlers ---


def test_activated_handlers_start_now():
    state = State.from_scratch(now=NOW).with_purpose("create", [handler("a"), handler("b")])
    assert [*state] == [*state.active] == ["a", "b"]
    assert {s.started for s in state.values()} == {NOW}
    assert {s.purpose for s in state.values()} == {"create"}


def test_progress_is_restored_from_objects(storage):
    patch = Patch()
    state = State.from_scratch(now=NOW).with_purpose("create", [handler("a"), handler("b")])
    state = state.with_outcomes({"a": SUCCESS, "b": RETRY}, now=NOW)
    state.store(body=Body({}), patch=patch, storage=storage)
    restored = State.from_storage(
        [handler("a"), handler("b"), handler("c")], body=Body(patch), storage=storage, now=LATER
    )
    assert [*restored] == ["a", "b"]
    assert restored["a"].success
    assert restored["b"].retries == 1
    assert not restored.active
    assert restored.done


def test_states_of_other_purposes_are_continued(annotations):
    body = annotated(
        a={"purpose": "create", "retries": 3}, b={"purpose": "create", "success": True}
    )
    state = State.from_storage(
        [handler("a"), handler("b")], body=body, storage=annotations, now=NOW
    )
    state = state.with_purpose("delete", [handler("a"), handler("b")])
    assert state["a"].purpose == "delete"
    assert state["a"].retries == 3
    assert state["b"].finished


def test_superseded_states_are_reported_as_they_were(annotations):
    body = annotated(
        a={"purpose": "create", "success": True}, b={"purpose": "create"}, c={"purpose": "delete"}
    )
    handlers = [handler("a"), handler("b"), handler("c")]
    state = State.from_storage(handlers, body=body, storage=annotations, now=NOW)
    state = state.with_purpose("delete", [handler("a"), handler("c")])
    assert {*state.superseded} == {"create"}
    assert [s.success for s in state.superseded["create"]] == [True, False]


def test_superseded_states_are_removed_from_the_object(annotations):
    body = annotated(a={"purpose": "create"}, b={"purpose": "create"})
    handlers = [handler("a"), handler("b"), handler("c")]
    state = State.from_storage(handlers, body=body, storage=annotations, now=NOW)
    state = state.with_purpose("delete", [handler("b"), handler("c")])
    state.store(body=body, patch=(patch := Patch()), storage=annotations)
    found = patch["metadata"]["annotations"]
    assert found["kopf.zalando.org/a"] is None
    assert json.loads(found["kopf.zalando.org/b"])["purpose"] == "delete"
    assert json.loads(found["kopf.zalando.org/c"])["purpose"] == "delete"


def test_unchanged_states_are_not_stored_again(annotations):
    body = annotated(a={"started": NOW.isoformat(timespec="microseconds"), "purpose": "create"})
    state = State.from_storage([handler("a")], body=body, storage=annotations, now=LATER)
    state = state.with_purpose("create", [handler("a"), handler("b")])
    state.store(body=body, patch=(patch := Patch()), storage=annotations)
    assert [*patch["metadata"]["annotations"]] == ["kopf.zalando.org/b"]


@pytest.mark.parametrize(
    ("outcomes", "done", "delay"),
    [
        ({}, False, 0.0),
        ({"a": SUCCESS}, False, 0.0),
        ({"a": SUCCESS, "b": RETRY}, False, 5.0),
        ({"a": SUCCESS, "b": FAILURE}, True, None),
    ],
)
def test_completeness(outcomes, done, delay):
    state = State.from_scratch(now=NOW).with_purpose("create", [handler("a"), handler("b")])
    state = state.with_outcomes(outcomes, now=NOW)
    assert state.done is done
    assert state.delay == delay


def test_summary_counts_only_the_current_handlers(annotations):
    body = annotated(z={"purpose": "create", "success": True})
    state = State.from_storage([handler("z")], body=body, storage=annotations, now=NOW)
    state = state.with_purpose("update", [handler("a"), handler("b"), handler("c")])
    state = state.with_outcomes({"a": SUCCESS, "b": FAILURE}, now=NOW)
    assert state.summary == "1 succeeded; 1 failed"


def test_purging_removes_everything_known(storage):
    first = Patch()
    state = State.from_scratch(now=NOW).with_purpose("create", [handler("a"), handler("a/x")])
    state = state.with_outcomes({"a": Outcome(final=False, delay=0, subrefs=["a/x"])}, now=NOW)
    state.store(body=Body({}), patch=first, storage=storage)
    body = Body(first)
    state = State.from_storage([handler("a")], body=body, storage=storage, now=LATER)
    state = state.with_purpose("create", [handler("a")])
    assert state.all_subrefs == {"a/x"}
    state.purge(
        [handler("a"), handler("unrelated")], body=body, patch=(patch := Patch()), storage=storage
    )
    assert str(patch).count("None") == 2
    assert "unrelated" not in str(patch)


def test_purging_of_nothing_is_no_patch(storage):
    state = State.from_scratch(now=NOW).with_purpose("create", [handler("a")])
    state.purge(
        [handler("a")], body=Body({"metadata": {}}), patch=(patch := Patch()), storage=storage
    )
    assert not patch


@pytest.mark.parametrize("days", [-1, 1])
def test_d11_r12_records_move_together_with_the_wall_clock(annotations, days):
    """The clock is set forward or back between the attempts: neither timeouts nor long sleeps."""
    jump = datetime.timedelta(days=days)
    state = HandlerState(started=NOW, purpose="create").with_outcome(RETRY, LATER)
    body = annotated(fn=state.as_record())
    restored = State.from_storage(
        [handler("fn")], body=body, storage=annotations, now=LATER + jump, jump=jump
    ).with_purpose("create", [handler("fn")])
    assert restored["fn"].started == NOW + jump
    assert restored.delay == 5
    patch = Patch()
    restored.store(body=body, patch=patch, storage=annotations)
    assert patch  # all that is moved is stored as it is now


def test_d11_what_is_stored_by_a_clock_ahead_is_stored_anew(annotations):
    """A restarted operator, with its clock behind: the delay must not begin again every time."""
    ahead = NOW + datetime.timedelta(days=1)
    state = HandlerState(started=ahead, purpose="create").with_outcome(RETRY, ahead)
    body = annotated(fn=state.as_record())
    restored = State.from_storage([handler("fn")], body=body, storage=annotations, now=NOW)
    patch = Patch(dict(body))
    restored.with_purpose("create", [handler("fn")]).store(
        body=body, patch=patch, storage=annotations
    )
    body = Body(patch)
    again = State.from_storage([handler("fn")], body=body, storage=annotations, now=LATER)
    assert again["fn"].started == NOW
    assert again["fn"].delayed == restored["fn"].delayed
    assert (restored.since, again.since) == (ahead, NOW)


def test_r9_handlers_can_start_anew(annotations):
    body = annotated(fn=HandlerState(started=NOW, purpose="update", success=True).as_record())
    state = State.from_storage([handler("fn")], body=body, storage=annotations, now=LATER)
    renewed = state.without({"fn"}).with_purpose("delete", [handler("fn")])
    assert renewed["fn"] == HandlerState(started=LATER, purpose="delete")
    assert not renewed.done
    assert state.with_purpose("delete", [handler("fn")]).done
