"""What is told of an object by the marks on it, and what can be changed in them."""

import copy
import datetime
import json

import pytest

from kopf_cogs.configs.diffbase import AnnotationsDiffBaseStorage, HashingDiffBaseStorage
from kopf_cogs.configs.digests import DigestDiffBaseStorage
from kopf_cogs.configs.progress import AnnotationsProgressStorage, ProgressRecord
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.patches import Patch
from kopf_core.engines.inspection import (
    HandlerPhase,
    Phase,
    inspect,
    plan_forgetting,
    plan_pause,
    plan_release,
    plan_retry,
    plan_unpause,
)

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
PAST, FUTURE = "2029-12-31T23:00:00.000000+00:00", "2030-01-01T01:00:00.000000+00:00"
PREFIX = "kopf.zalando.org/"
LAST_HANDLED = f"{PREFIX}last-handled-configuration"
FINALIZER = f"{PREFIX}KopfFinalizerMarker"
LONG = (
    "a-very-long-handler-id-that-goes-far-beyond-the-limit-of-sixty-three-characters/with-a-slash"
)


def make(annotations=None, *, finalizers=(), deleted=False, **fields):
    meta = {"name": "obj", "namespace": "ns", "annotations": annotations or {}}
    meta["finalizers"] = list(finalizers)
    if deleted:
        meta["deletionTimestamp"] = "2029-12-31T23:59:00Z"
    return {"kind": "Kex", "metadata": meta, "spec": {"n": 1}, **fields}


def look(body, settings=None):
    return inspect(Body(body), (settings or OperatorSettings()).persistence, NOW)


def record(**fields):
    return json.dumps({"started": PAST, "purpose": "create", "retries": 0, **fields})


RETRIED = record(retries=3, delayed=FUTURE, message="boo")
HANDLED = {LAST_HANDLED: '{"spec":{"n":1}}\n'}


@pytest.mark.parametrize(
    ("body", "phase"),
    [
        (make(), Phase.UNKNOWN),
        (make(finalizers=[FINALIZER]), Phase.SERVED),
        (make(HANDLED), Phase.HANDLED),
        (make({LAST_HANDLED: '{"spec":{"n":2}}'}), Phase.CHANGED),
        (make({LAST_HANDLED: "{nope"}), Phase.UNKNOWN),
        (make({f"{PREFIX}fn": record()}), Phase.PROGRESSING),
        (make({**HANDLED, f"{PREFIX}fn": record(success=True)}), Phase.PROGRESSING),
        (make({**HANDLED, f"{PREFIX}fn": RETRIED}), Phase.RETRIED),
        (make(HANDLED, deleted=True, finalizers=[FINALIZER]), Phase.DELETING),
        (make({f"{PREFIX}fn": RETRIED}, deleted=True, finalizers=[FINALIZER]), Phase.DELETING),
        (make(HANDLED, deleted=True, finalizers=["x.com/y"]), Phase.BLOCKED),
        (make({f"{PREFIX}paused": "why"}), Phase.PAUSED),
        (make({f"{PREFIX}paused": "False"}), Phase.UNKNOWN),
        (make({f"{PREFIX}paused": "", f"{PREFIX}fn": RETRIED}), Phase.PAUSED),
    ],
)
def test_phases(body, phase):
    assert look(body).phase is phase


CALENDAR = json.dumps({"started": PAST, "stopped": PAST, "success": True})


@pytest.mark.parametrize(
    ("annotations", "phase"),
    [({}, Phase.SERVED), (HANDLED, Phase.HANDLED), ({f"{PREFIX}fn": RETRIED}, Phase.RETRIED)],
)
def test_q_latest_calls_of_timers_by_the_calendar_are_no_progress(annotations, phase):
    body = make({**annotations, f"{PREFIX}report.schedule": CALENDAR}, finalizers=[FINALIZER])
    state = look(body)
    assert state.phase is phase
    assert "report.schedule" not in [handler.id for handler in state.handlers]


@pytest.mark.parametrize("v1", [True, False])
@pytest.mark.parametrize("id", ["fn", "fn/spec.field", LONG, LONG[:60]])
def test_copies_of_the_old_naming_scheme_are_shown_once(id, v1):
    storage, patch = AnnotationsProgressStorage(v1=v1), Patch()
    stored = ProgressRecord(started=PAST, delayed=FUTURE, retries=1)
    storage.store(key=id, record=stored, body=Body({}), patch=patch)
    body = make(dict(patch["metadata"]["annotations"]))
    (handler,) = look(body).handlers
    assert handler.id == storage.make_v2_key(id).removeprefix(PREFIX)
    plan_retry(look(body), OperatorSettings().persistence, NOW).fn(body)
    assert not any("delayed" in value for value in body["metadata"]["annotations"].values())


def test_equal_progress_of_different_handlers_is_shown_for_each():
    state = look(make({f"{PREFIX}{name}": RETRIED for name in ("create_fn", "create_fn-2", "c")}))
    assert [handler.id for handler in state.handlers] == ["c", "create_fn", "create_fn-2"]


def test_subhandlers_have_their_real_ids():
    annotations = {f"{PREFIX}fn": record(subrefs=["fn/a.b"]), f"{PREFIX}fn.a.b": record()}
    assert [handler.id for handler in look(make(annotations)).handlers] == ["fn", "fn/a.b"]


def test_fields_of_the_status_are_compared_only_if_they_are_of_interest():
    last = {LAST_HANDLED: '{"spec":{"n":1},"status":{"x":1}}'}
    assert look(make(last, status={"x": 1, "y": 2})).phase is Phase.HANDLED
    assert look(make(last, status={"x": 2})).differences == [("change", ("status", "x"), 1, 2)]
    assert look(make(HANDLED, status={"y": 2})).phase is Phase.HANDLED


def test_hashed_values_are_compared_as_hashes():
    body, patch = make(data={"k": "v"}), Patch()
    storage = HashingDiffBaseStorage()
    essence = storage.build(body=Body(body))
    storage.store(body=Body(body), patch=patch, essence=essence)
    body["metadata"]["annotations"] = dict(patch["metadata"]["annotations"])
    assert look(body).phase is Phase.HANDLED
    body["data"]["k"] = "other"
    ((_, field, old, new),) = look(body).differences
    assert field == ("data", "k")
    assert old.startswith("blake2b:")
    assert new.startswith("blake2b:")


def test_digests_are_compared_with_the_object():
    body = make(status={"x": 1, "y": 1})
    patch, storage = Patch(), DigestDiffBaseStorage()
    essence = storage.build(body=Body(body), extra_fields=["status.x"])
    storage.store(body=Body(body), patch=patch, essence=essence)
    body["metadata"]["annotations"] = dict(patch.metadata.annotations)
    assert look(body).phase is Phase.HANDLED
    assert look(body | {"status": {"x": 1, "y": 2}}).phase is Phase.HANDLED
    assert look(body | {"status": {"x": 2, "y": 1}}).phase is Phase.CHANGED
    assert look(body | {"spec": {"n": 2}}).phase is Phase.CHANGED


def test_retries_keep_all_but_the_delays():
    settings = OperatorSettings()
    annotations = {f"{PREFIX}fn": RETRIED, f"{PREFIX}ok": record(success=True), "x": "y"}
    body = make(annotations)
    plan_retry(look(body), settings.persistence, NOW).fn(body)
    kept = json.loads(body["metadata"]["annotations"].pop(f"{PREFIX}fn"))
    assert kept == {k: v for k, v in json.loads(RETRIED).items() if k != "delayed"}
    assert body["metadata"]["annotations"] == {f"{PREFIX}ok": record(success=True), "x": "y"}


@pytest.mark.parametrize(
    ("fields", "summary"),
    [
        ({"delayed": FUTURE}, "retry at once: fn"),
        ({"delayed": PAST}, "retry at once: fn (it is due already: is the operator running?)"),
        (
            {"delayed": FUTURE, "failure": True},
            "no handler waits for its next attempt; to handle it as new, use kopf forget",
        ),
        ({}, "no handler waits for its next attempt"),
        (
            {"retries": 1},
            "no handler has a delay: fn (it is due already: is the operator running?)",
        ),
    ],
)
def test_plans_of_retries(fields, summary):
    state = look(make({f"{PREFIX}fn": record(**fields)}))
    assert plan_retry(state, OperatorSettings().persistence, NOW).summary == summary


@pytest.mark.parametrize("purpose", ["create", "update", "resume"])
def test_the_deletion_supersedes_other_handlers(purpose):
    fields = record(delayed=FUTURE, retries=1, purpose=purpose)
    body = make({f"{PREFIX}fn": fields}, finalizers=[FINALIZER], deleted=True)
    state = look(body)
    assert state.phase is Phase.DELETING
    assert state.handlers[0].phase is HandlerPhase.SUPERSEDED
    assert state.current is None
    plan = plan_retry(state, OperatorSettings().persistence, NOW)
    assert plan.fn is None
    assert plan.summary == (
        "no handler waits for its next attempt; it is being deleted: is the operator running?"
    )


def test_handlers_that_wait_for_their_subhandlers_have_not_failed():
    parent = record(retries=1, message="None", subrefs=["fn/sub"])
    state = look(make({f"{PREFIX}fn": parent, f"{PREFIX}fn.sub": record()}))
    assert state.phase is Phase.PROGRESSING
    assert state.current.id == "fn/sub"
    assert [handler.phase for handler in state.handlers] == [HandlerPhase.STARTED] * 2


@pytest.mark.parametrize(("deleted", "is_outdated"), [(True, False), (False, True)])
def test_deletions_do_not_outdate_the_status(deleted, is_outdated):
    body = make(deleted=deleted, finalizers=[FINALIZER], status={"observedGeneration": 1})
    body["metadata"]["generation"] = 2
    assert look(body).is_outdated is is_outdated


def test_deletion_handlers_are_not_superseded():
    fields = record(delayed=FUTURE, retries=1, purpose="delete")
    body = make({f"{PREFIX}fn": fields}, finalizers=[FINALIZER], deleted=True)
    assert look(body).phase is Phase.RETRIED


def test_pauses():
    body = make({"x": "y"})
    plan_pause(look(body), "why").fn(body)
    assert look(body).pause == "why"
    assert plan_pause(look(body), "again").fn is None
    plan_unpause(look(body)).fn(body)
    assert body["metadata"]["annotations"] == {"x": "y"}
    assert plan_unpause(look(body)).fn is None
    del body["metadata"]["annotations"]
    plan_pause(look(body), "why").fn(body)
    assert look(body).pause == "why"


def test_forgetting_with_the_marker_of_an_own_prefix():
    settings = OperatorSettings(name="example.com")
    own = {
        "example.com/kopf-managed": "yes",
        "example.com/fn": RETRIED,
        "example.com/last-handled-configuration": "{}",
    }
    body = make({**own, f"{PREFIX}fn": RETRIED}, finalizers=["example.com/finalizer"])
    rest = copy.deepcopy(body)
    plan_forgetting(look(body, settings), settings.persistence).fn(body)
    assert body["metadata"]["annotations"] == {f"{PREFIX}fn": RETRIED}
    assert body["metadata"]["finalizers"] == ["example.com/finalizer"]
    rest["metadata"]["annotations"]["example.com/used-by-others"] = "x"
    plan_forgetting(look(rest, settings), settings.persistence).fn(rest)
    assert rest["metadata"]["annotations"]["example.com/kopf-managed"] == "yes"


def test_c8_releasing_touches_no_other_finalizers():
    settings = OperatorSettings()
    body = make(finalizers=["a.com/b", FINALIZER, "c.com/d"])
    plan_release(look(body), settings.persistence).fn(body)
    assert body["metadata"]["finalizers"] == ["a.com/b", "c.com/d"]
    assert plan_release(look(body), settings.persistence).fn is None


def test_own_storages():
    settings = OperatorSettings()
    settings.persistence.progress_storage = AnnotationsProgressStorage(prefix="x.com")
    settings.persistence.diffbase_storage = AnnotationsDiffBaseStorage(prefix="x.com", key="last")
    body = make({"x.com/fn": RETRIED, "x.com/last": '{"spec":{"n":2}}'})
    state = look(body, settings)
    assert state.phase is Phase.RETRIED
    assert [item.field for item in state.differences] == [("spec", "n")]
