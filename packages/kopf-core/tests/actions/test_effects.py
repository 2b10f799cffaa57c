"""What handlers leave behind: results and patches, as they are sent to the API."""

import datetime
import logging
import threading

import pytest

from kopf_cogs.clients.errors import APIServerError, make_status_error
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.conditions import PlannedConditions
from kopf_cogs.structs.diffs import Diff
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.effects import (
    MAX_RESULT_SIZE,
    Applied,
    apply_patches,
    deliver_results,
    merge_into,
    merge_patches,
    tell_of_losses,
    warn_of_inconsistencies,
)
from kopf_core.actions.loggers import objects_logger
from kopf_core.actions.marks import Marks


class FakeClient:
    """Applies merge patches to nothing, and refuses what it is told to refuse."""

    fence = None

    def __init__(self):
        self.sent = []
        self.refuse = lambda payload: None
        self.is_absent = False

    async def patch(self, url, payload, *, content_type):
        self.sent.append((content_type.split("+")[0].rpartition("/")[2], payload))
        error = self.refuse(payload)
        if error is not None:
            raise error
        return {"metadata": {"name": "obj", "resourceVersion": str(len(self.sent) + 10)}}

    async def get(self, url):
        if self.is_absent:
            raise make_status_error({"details": {"name": "obj"}}, status=404)
        return {"metadata": {"name": "obj", "resourceVersion": "1"}}


@pytest.fixture
def client():
    return FakeClient()


@pytest.fixture
def apply(client, resource, make_body):
    async def apply(marks=None, patch=None):
        applied = await apply_patches(
            client=client,
            resource=resource,
            body=Body(make_body()),
            logger=objects_logger,
            marks=Marks() if marks is None else marks,
            patch=patch or Patch(),
        )
        rejected = Applied(rejections=applied.rejections)
        tell_of_losses(rejected, resource, frozenset(), objects_logger)
        return applied

    return apply


# --- Results ---


@pytest.mark.docs("results")
@pytest.mark.parametrize("result", [0, "", False, {}, [], 1.5, "text", ["x"], {"x": {"y": 1}}])
def test_results_go_to_the_status_under_the_ids(result):
    marks = Marks()
    deliver_results({"a/spec.f": result}, marks=marks, logger=objects_logger)
    assert marks
    assert marks.results == {"status": {"a/spec.f": result}}


def test_views_of_objects_are_results_too(make_body):
    marks, body = Marks(), Body(make_body({"x": {"y": 1}}))
    deliver_results({"a": body.spec, "b": [body.spec["x"]]}, marks=marks, logger=objects_logger)
    assert marks.results == {"status": {"a": {"x": {"y": 1}}, "b": [{"y": 1}]}}
    assert type(marks.results["status"]["a"]) is dict


CIRCULAR = {}
CIRCULAR["self"] = CIRCULAR


@pytest.mark.parametrize(
    "result",
    [
        {1},
        b"x",
        datetime.datetime(2020, 1, 1),
        float("nan"),
        float("inf"),
        (x for x in "x"),
        threading.Lock(),
        "\ud800",
        CIRCULAR,
        object(),
        {"x": [{1}]},
        "x" * (MAX_RESULT_SIZE + 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_c13_results_that_cannot_be_stored_are_dropped(result, logged):
    marks = Marks()
    deliver_results({"bad": result, "good": 1}, marks=marks, logger=objects_logger)
    assert marks.results == {"status": {"good": 1}}
    (message,) = logged()
    assert "'bad'" in message


def test_c13_endless_depth(logged):
    result = current = {}
    for _ in range(100_000):
        current["x"] = {}
        current = current["x"]
    marks = Marks()
    deliver_results({"bad": result}, marks=marks, logger=objects_logger)
    assert not marks
    assert len(logged()) == 1


def test_c13_keys_of_results_are_strings():
    marks = Marks()
    deliver_results({"a": {1: "one", None: {2.5: True}}}, marks=marks, logger=objects_logger)
    assert marks.results == {"status": {"a": {"1": "one", "null": {"2.5": True}}}}


# --- Patches ---


async def test_nothing_is_sent_if_there_is_nothing_to_send(apply, client):
    applied = await apply()
    assert applied.body is None
    assert not client.sent


@pytest.mark.docs("patching")
async def test_all_changes_are_sent_at_once(apply, client):
    applied = await apply(
        Marks({"status": {"fn": 1}, "metadata": {"annotations": {"k": "v"}}}),
        Patch({"status": {"mine": 2}, "spec": {"x": 3}}),
    )
    ((kind, payload),) = client.sent
    assert kind == "merge-patch"
    payload["metadata"].pop("uid")
    assert payload == {
        "status": {"fn": 1, "mine": 2},
        "spec": {"x": 3},
        "metadata": {"annotations": {"k": "v"}},
    }
    assert applied.version == "11"
    assert not applied.carried


async def test_functions_are_called_once_for_a_patch(apply, client):
    calls = []

    def fn(body):
        calls.append(1)
        body["spec"] = {"x": 1}

    await apply(patch=Patch(fns=[fn]))
    assert calls == [1]
    ((kind, ops),) = client.sent
    assert kind == "json-patch"
    assert [op["op"] for op in ops] == ["test", "add"]


@pytest.mark.docs("patching/functions")
@pytest.mark.parametrize("status", [409, 422])
async def test_b10_only_functions_of_users_are_carried_after_conflicts(apply, client, status):
    def ours(body):
        body["metadata"]["finalizers"] = ["x"]

    def mine(body):
        body["spec"] = {"x": 1}

    client.refuse = lambda payload: make_status_error({}, status=status)
    applied = await apply(Marks(fns=(ours,)), Patch(fns=[mine]))
    assert applied.carried == (mine,)
    assert applied.is_refused
    assert applied.body is None


async def test_b9_absent_objects_are_quiet(apply, client, logged):
    client.is_absent = True
    client.refuse = lambda payload: make_status_error({"details": {"name": "obj"}}, status=404)
    applied = await apply(Marks({"status": {"x": 1}}), Patch({"spec": {"y": 2}}))
    assert applied.body is None
    assert not applied.carried
    assert not [message for message in logged() if "atch" not in message]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "It makes no sense."),
        (413, "The limit is 3145728."),
        (422, "It is wrong."),
        pytest.param(500, "etcdserver: request is too large", id="too large for the storage"),
    ],
)
async def test_c12_rejected_changes_of_users_do_not_take_our_marks_with_them(
    apply, client, logged, status, message
):
    error = make_status_error({"message": message}, status=status)
    client.refuse = lambda payload: error if "spec" in payload else None
    applied = await apply(Marks({"status": {"fn": 1}}), Patch({"spec": {"bad": True}}))
    assert [sorted({*payload} - {"metadata"}) for _, payload in client.sent] == [
        ["spec", "status"],
        ["status"],
    ]
    assert applied.version
    (message,) = [message for message in logged() if "rejected" in message]
    assert str(status) in message


REJECTION = {"reason": "Invalid", "details": {"causes": [{"field": "status.x"}]}}


def make_marks():
    marks = Marks({"metadata": {"annotations": {"x": "y"}}})
    marks.results["status"] = {"fn": "result"}
    return marks


@pytest.mark.parametrize(
    ("refused", "expected_error", "expected_fields"),
    [
        ("spec", "The patch made by the handlers is", ["metadata", "status"]),
        ("status", "The results of 'fn' are", ["metadata", "spec"]),
    ],
)
async def test_c12_only_what_is_rejected_is_dropped(
    apply, client, logged, refused, expected_error, expected_fields
):
    error = make_status_error(REJECTION, status=422)
    client.refuse = lambda payload: error if refused in payload else None
    applied = await apply(make_marks(), Patch({"spec": {"a": "b"}}))
    assert sorted(client.sent[-1][1]) == expected_fields
    assert applied.version
    (message,) = [message for message in logged() if "rejected" in message]
    assert expected_error in message


async def test_c12_both_results_and_patches_can_be_rejected(apply, client, logged):
    error = make_status_error(REJECTION, status=422)
    client.refuse = lambda payload: error if {"spec", "status"} & {*payload} else None
    applied = await apply(make_marks(), Patch({"spec": {"a": "b"}}))
    assert [sorted({*payload} - {"metadata"}) for _, payload in client.sent] == [
        ["spec", "status"],
        ["status"],
        ["spec"],
        [],
    ]
    assert applied.version
    assert len([message for message in logged() if "rejected" in message]) == 2


async def test_b10_invalid_functions_of_users_are_not_mistaken_for_conflicts(apply, client, logged):
    def ours(body):
        body["metadata"]["finalizers"] = ["x"]

    def mine(body):
        body["spec"] = {"x": 1}

    error = make_status_error(REJECTION, status=422)
    client.refuse = lambda payload: error if len(payload) > 2 else None
    applied = await apply(Marks(fns=(ours,)), Patch(fns=[mine]))
    assert not applied.carried
    assert not applied.is_refused
    assert [op["path"] for op in client.sent[-1][1][1:]] == ["/metadata/finalizers"]
    assert len([message for message in logged() if "rejected" in message]) == 1


async def test_c13_failing_functions_do_not_take_our_marks_with_them(apply, client, logged):
    def fn(body):
        raise ValueError("boom in a function")

    applied = await apply(
        marks=Marks({"metadata": {"annotations": {"x": "y"}}}), patch=Patch(fns=[fn])
    )
    assert applied.body is not None
    assert not applied.carried
    assert client.sent[-1][0] == "merge-patch"
    assert any("boom in a function" in message for message in logged())


async def test_rejected_marks_are_errors(apply, client):
    client.refuse = lambda payload: make_status_error({}, status=422)
    with pytest.raises(Exception, match="422"):
        await apply(Marks({"status": {"fn": 1}}))


async def test_temporary_failures_drop_nothing(apply, client):
    client.refuse = lambda payload: APIServerError(status=503)
    marks, patch = Marks({"status": {"fn": 1}}), Patch({"spec": {"x": 1}})
    with pytest.raises(APIServerError):
        await apply(marks, patch)
    assert len(client.sent) == 1
    assert marks
    assert patch


async def test_c13_fields_that_cannot_be_sent_are_dropped(apply, client, logged):
    await apply(Marks({"status": {"fn": 1}}), Patch({"spec": {"x": {1}}, "data": {"y": 2}}))
    ((_, payload),) = client.sent
    payload.pop("metadata", None)
    assert payload == {"status": {"fn": 1}, "data": {"y": 2}}
    (error,) = [message for message in logged() if "dropped" in message]
    assert "'spec.x'" in error


@pytest.mark.docs("patching")
async def test_c13_only_the_values_that_cannot_be_sent_are_dropped(apply, client, logged):
    status = {"good": 1, "a": {1, 2}, "deep": {1: 2.5, "nan": float("nan")}, "list": [1, {2}]}
    await apply(patch=Patch({"status": {**status, "circular": CIRCULAR, ("x",): {"y": 1}}}))
    ((_, payload),) = client.sent
    assert payload["status"] == {"good": 1, "deep": {"1": 2.5}}
    dropped = [message for message in logged() if "dropped" in message]
    fields = ("a", "deep.nan", "list", "circular.self", "('x',)")
    for message, field in zip(dropped, fields, strict=True):
        assert f"status.{field}" in message.partition(" is dropped: ")[0]


async def test_c13_endless_depth_of_patches(apply, client, logged):
    result = current = {}
    for _ in range(100_000):
        current["x"] = {}
        current = current["x"]
    await apply(patch=Patch({"status": result, "spec": {"good": 1}}))
    [(_, payload)] = client.sent
    assert (payload["spec"], "status" in payload) == ({"good": 1}, False)
    (error,) = [message for message in logged() if "dropped" in message]
    assert "'status'" in error


@pytest.mark.parametrize("bad", ["x", "conditions"])
async def test_c13_conditions_are_apart_from_other_fields_of_the_status(apply, client, bad):
    status = {"conditions": PlannedConditions([READY], base=[]), "good": 1, "x": 2}
    status[bad] = PlannedConditions([{1}], base=[]) if bad == "conditions" else {1}
    await apply(patch=Patch({"status": status}))
    assert client.sent[0][1]["status"] == {k: v for k, v in status.items() if k != bad}


# --- Merging ---


def test_merging_is_deep_and_the_second_wins():
    target = {"a": {"b": 1, "c": 2}, "d": 3}
    merge_into(target, {"a": {"b": None, "e": {"f": 4}}, "d": {"g": 5}})
    assert target == {"a": {"b": None, "c": 2, "e": {"f": 4}}, "d": {"g": 5}}


def test_merging_does_not_change_the_sources():
    first, second = Patch({"a": {"b": 1}}), Patch({"a": {"c": 2}})
    merged = merge_patches(first, second)
    merged["a"]["b"] = 9
    assert first == {"a": {"b": 1}}
    assert second == {"a": {"c": 2}}


def test_functions_of_the_second_go_first():
    merged = merge_patches(Patch(fns=[print]), Patch(fns=[repr]))
    assert merged.fns == [repr, print]


# --- Inconsistencies ---


async def test_c12_inconsistencies_are_told_to_the_caller(apply):
    applied = await apply(patch=Patch({"status": {"x": 1}}))
    assert applied.inconsistencies == (("remove", ("status",), {"x": 1}, None),)


def test_c12_inconsistencies_are_warned_about_once_for_a_field(resource, caplog):
    caplog.set_level(logging.DEBUG)
    warned: frozenset[str] = frozenset({"other"})
    one, two = ("remove", ("status", "x"), 1, None), ("remove", ("status", "y"), 2, None)
    for diff in [(), (one,), (one,), (one, two), (two,)]:
        warned = warn_of_inconsistencies(Diff(diff), resource, warned, objects_logger)
    assert [record.levelname for record in caplog.records] == [
        "WARNING",
        "DEBUG",
        "WARNING",
        "DEBUG",
    ]
    assert caplog.messages[0] == (
        "Merge-patching finished with inconsistencies: (('remove', ('status', 'x'), 1, None),). "
        "Not stored: status.x; most likely, the schema of the resource does not declare that."
    )
    assert "other" in warned


def test_c12_schemas_are_not_blamed_for_what_is_stored_differently(resource, caplog):
    diff = Diff([("change", ("status", "x"), 1, 2)])
    warn_of_inconsistencies(diff, resource, frozenset(), objects_logger)
    assert caplog.messages[0].endswith("inconsistencies: (('change', ('status', 'x'), 1, 2),)")


# --- Conditions ---

READY = {"type": "Ready", "status": "True"}


async def test_rejected_conditions_do_not_take_the_rest_with_them(client, apply, logged):
    client.refuse = lambda payload: (
        make_status_error({}, status=422) if "conditions" in payload.get("status", {}) else None
    )
    patch = Patch({"status": {"conditions": [READY], "observedGeneration": 1, "x": 1}})
    patch["metadata"] = {"labels": {"a": "b"}}
    applied = await apply(patch=patch)
    assert [kind for kind, _ in client.sent] == ["merge-patch"] * len(client.sent)
    assert client.sent[-1][1]["status"] == {"x": 1}
    assert client.sent[-1][1]["metadata"]["labels"] == {"a": "b"}
    [message] = [message for message in logged() if "rejected" in message]
    assert message.startswith("The conditions are rejected and dropped: 422")
    assert applied.rejections == (message,)


async def test_conditions_are_not_blamed_for_the_rest(client, apply, logged):
    client.refuse = lambda payload: (
        make_status_error({}, status=422) if "x" in payload.get("status", {}) else None
    )
    await apply(patch=Patch({"status": {"conditions": [READY], "x": 1}}))
    assert client.sent[-1][1]["status"] == {"conditions": [READY]}
    [message] = [message for message in logged() if "rejected" in message]
    assert message.startswith("The patch made by the handlers is rejected and dropped: 422")


async def test_h2_planned_conditions_are_known_beside_what_is_not_plain(client, apply):
    """Here, it is a number with a fraction: the whole status is converted because of that."""
    planned = PlannedConditions([READY], base=[])
    await apply(patch=Patch({"status": {"conditions": planned, "x": 0.5}}))
    [(_, payload)] = client.sent
    assert payload["metadata"]["resourceVersion"]
    assert payload["status"] == {"conditions": [READY], "x": 0.5}


def test_rejections_of_conditions_are_told_of_once_until_they_are_accepted(resource, caplog):
    caplog.set_level("DEBUG")
    warned = frozenset({"another"})
    rejected = Applied(rejections=("The conditions are rejected and dropped: 422",))
    for applied in (rejected, rejected, Applied(), rejected):
        warned = tell_of_losses(applied, resource, warned, objects_logger)
    assert [r.levelname for r in caplog.records] == ["ERROR", "DEBUG", "ERROR"]
    assert len(warned) == 2
