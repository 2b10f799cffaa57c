"""The keyword arguments: as documented, for each kind of causes."""

import logging

import pytest

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.diffs import DiffOperation
from kopf_cogs.structs.memos import Memo
from kopf_cogs.structs.patches import Patch
from kopf_core.engines.memories import ObjectMemory
from kopf_core.intents import decorators as on
from kopf_core.intents.causes import Activity, ActivityCause, DaemonCause, Reason
from kopf_core.intents.stoppers import DaemonStopper

COMMON = {
    "annotations",
    "conditions",
    "body",
    "labels",
    "logger",
    "memo",
    "meta",
    "name",
    "namespace",
    "patch",
    "resource",
    "spec",
    "status",
    "uid",
}


@pytest.mark.docs("arguments/changing")
def test_kwargs_of_changes(make_cause):
    cause = make_cause(Reason.UPDATE, {"f": 2}, old={"f": 1})
    assert {*cause.kwargs} == COMMON | {"reason", "old", "new", "diff"}
    assert cause.kwargs["reason"] == "update"
    assert cause.kwargs["old"]["spec"] == {"f": 1}
    assert cause.kwargs["new"]["spec"] == {"f": 2}
    (item,) = cause.kwargs["diff"]
    assert item == (DiffOperation.CHANGE, ("spec", "f"), 1, 2)


@pytest.mark.docs("arguments/watching")
def test_kwargs_of_events(make_event_cause):
    cause = make_event_cause({"f": 1}, "MODIFIED")
    assert {*cause.kwargs} == COMMON | {"event", "type"}
    assert cause.kwargs["type"] == "MODIFIED"
    assert cause.kwargs["event"]["object"]["spec"] == {"f": 1}


@pytest.mark.docs("arguments/daemons")
def test_kwargs_of_daemons(settings, resource, make_body):
    stopper = DaemonStopper().sync_checker
    cause = DaemonCause(
        resource=resource,
        body=Body(make_body()),
        patch=Patch(),
        settings=settings,
        record=ObjectMemory(Memo(), is_listed=False),
        indices={},
        stopper=stopper,
    )
    assert {*cause.kwargs} == COMMON | {"stopped"}
    assert cause.kwargs["stopped"] is stopper


@pytest.mark.docs("arguments/settings")
def test_kwargs_of_activities(settings):
    memo, logger = Memo(), logging.getLogger()
    cause = ActivityCause(
        activity=Activity.STARTUP, settings=settings, logger=logger, memo=memo, indices={}
    )
    assert cause.kwargs == {
        "activity": Activity.STARTUP,
        "settings": settings,
        "logger": logger,
        "memo": memo,
    }


@pytest.mark.docs("arguments/body")
def test_parts_of_the_body(make_cause, resource):
    kwargs = make_cause(spec={"f": 1}, labels={"x": "y"}).kwargs
    assert kwargs["body"]["metadata"]["name"] == kwargs["meta"]["name"] == kwargs["name"] == "obj"
    assert (kwargs["namespace"], kwargs["uid"]) == ("ns", "uid1")
    assert dict(kwargs["spec"]) == {"f": 1}
    assert dict(kwargs["labels"]) == {"x": "y"}
    assert dict(kwargs["annotations"]) == dict(kwargs["status"]) == {}
    assert kwargs["resource"] is resource


@pytest.mark.docs("arguments/body")
def test_absent_parts_of_identity_are_none(make_cause):
    kwargs = make_cause(namespace=None, uid=None).kwargs
    assert kwargs["namespace"] is None
    assert kwargs["uid"] is None


@pytest.mark.docs("arguments/indices")
def test_indices_are_kwargs_by_their_names(make_cause):
    index = object()
    assert make_cause(indices={"my_index": index}).kwargs["my_index"] is index


def test_kwargs_are_made_once(make_cause):
    cause = make_cause()
    assert cause.kwargs is cause.kwargs


@pytest.mark.docs("arguments/diffing")
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"f": {"a": 1}}, {"f": {"a": 2}}, ({"a": 1}, {"a": 2}, [("change", ("a",), 1, 2)])),
        ({"g": 1}, {"f": 1}, (None, 1, [("add", (), None, 1)])),
        ({"f": 1}, {"g": 1}, (1, None, [("remove", (), 1, None)])),
    ],
)
def test_old_new_diff_are_relative_to_the_field(registry, make_cause, old, new, expected):
    on.update("kopfexamples", field="spec.f", registry=registry)(lambda **_: None)
    (handler,) = registry.resource_handlers
    kwargs = dict(make_cause(Reason.UPDATE, new, old=old).kwargs)
    handler.adjust_kwargs(kwargs)
    assert (kwargs["old"], kwargs["new"], [tuple(item) for item in kwargs["diff"]]) == expected


def test_whole_object_handlers_get_whole_diffs(registry, make_cause):
    on.update("kopfexamples", registry=registry)(lambda **_: None)
    (handler,) = registry.resource_handlers
    cause = make_cause(Reason.UPDATE, {"f": 2}, old={"f": 1})
    kwargs = dict(cause.kwargs)
    handler.adjust_kwargs(kwargs)
    assert kwargs == cause.kwargs


@pytest.mark.docs("configuration/logging-events")
def test_loggers_of_events_are_local(make_event_cause, make_cause, caplog):
    caplog.set_level(logging.INFO)
    make_event_cause().logger.info("silent")
    make_cause().logger.info("loud")
    assert [record.k8s_skip for record in caplog.records] == [True, False]
    assert {record.name for record in caplog.records} == {"kopf.objects"}
    assert {record.k8s_ref["uid"] for record in caplog.records} == {"uid1"}
