import dataclasses
import functools
import logging

import pytest

from kopf_cogs.clients import errors
from kopf_cogs.clients.patching import MAX_ATTEMPTS, MAX_CONFLICTS, patch_object
from kopf_cogs.structs.conditions import PlannedConditions
from kopf_cogs.structs.finalizers import block_deletion
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource

URL = "/apis/kopf.dev/v1/namespaces/ns/kopfexamples/name1"
ABSENT = {"reason": "NotFound", "details": {"name": "name1"}}
TEST = {"op": "test", "path": "/metadata/resourceVersion"}


@pytest.fixture(autouse=True)
def _debug(caplog):
    caplog.set_level(logging.DEBUG)


def sent(server):
    return [
        (r.path, r.headers["Content-Type"].removeprefix("application/"), r.json)
        for r in server.requests
    ]


def body(version, **fields):
    metadata = {"resourceVersion": str(version), **fields.pop("metadata", {})}
    return {"metadata": metadata, **fields}


def add_finalizer(body):
    body["metadata"].setdefault("finalizers", []).append("fin")


def set_status(body):
    body.setdefault("status", {})["y"] = 2


async def test_nothing_to_patch(server, client, resource):
    result = await patch_object(client, resource, "ns", "name1", Patch(), body(1))
    assert result.body is None
    assert not result.remaining
    assert not result.gone
    assert not server.requests


async def test_merge_patch_of_everything(server, client, resource, caplog):
    resource = dataclasses.replace(resource, subresources=frozenset())
    server.script(server.reply(body(2, spec={"x": 1}, status={"y": 2})))
    patch = Patch({"spec": {"x": 1}, "status": {"y": 2}})
    result = await patch_object(client, resource, "ns", "name1", patch)
    assert sent(server) == [(URL, "merge-patch+json", {"spec": {"x": 1}, "status": {"y": 2}})]
    assert result.body == body(2, spec={"x": 1}, status={"y": 2})
    assert not result.inconsistencies
    message = "Merge-patching the resource with: {'spec': {'x': 1}, 'status': {'y': 2}}"
    assert message in caplog.messages


async def test_merge_patches_with_status_as_subresource(server, client, resource, caplog):
    server.script(server.reply(body(2, status={"y": 2})))
    server.script(server.reply(body(3, spec={"x": 1}, status={"y": 2})))
    patch = Patch({"spec": {"x": 1}, "status": {"y": 2}})
    result = await patch_object(client, resource, "ns", "name1", patch)
    assert sent(server) == [
        (f"{URL}/status", "merge-patch+json", {"status": {"y": 2}}),
        (URL, "merge-patch+json", {"spec": {"x": 1}}),
    ]
    assert result.body["metadata"]["resourceVersion"] == "3"
    assert "Merge-patching the status with: {'status': {'y': 2}}" in caplog.messages


async def test_status_alone(server, client, resource):
    server.script(server.reply(body(2, status={"y": 2})))
    await patch_object(client, resource, "ns", "name1", Patch({"status": {"y": 2}}))
    assert [request.path for request in server.requests] == [f"{URL}/status"]


async def test_json_patch_is_relative_to_the_body(server, client, resource, caplog):
    server.script(server.reply(body(2, metadata={"finalizers": ["fin"]})))
    original = body(1)
    await patch_object(client, resource, "ns", "name1", Patch(fns=[add_finalizer]), original)
    ops = [TEST | {"value": "1"}, {"op": "add", "path": "/metadata/finalizers", "value": ["fin"]}]
    assert sent(server) == [(URL, "json-patch+json", ops)]
    assert f"JSON-patching the resource with: {ops!r}" in caplog.messages
    assert original == body(1)


async def test_functions_that_change_nothing_cost_nothing(server, client, resource):
    patch = Patch(fns=[lambda body: None])
    await patch_object(client, resource, "ns", "name1", patch, body(1))
    assert not server.requests


async def test_four_patches_each_on_the_result_of_the_previous(server, client, resource):
    for version in range(2, 6):
        server.script(server.reply(body(version, spec={"x": 1}, status={"y": 1})))
    patch = Patch({"spec": {"x": 1}, "status": {"y": 1}}, fns=[add_finalizer, set_status])
    result = await patch_object(client, resource, "ns", "name1", patch, body(1))
    assert sent(server) == [
        (f"{URL}/status", "merge-patch+json", {"status": {"y": 1}}),
        (URL, "merge-patch+json", {"spec": {"x": 1}}),
        (
            URL,
            "json-patch+json",
            [
                TEST | {"value": "3"},
                {"op": "add", "path": "/metadata/finalizers", "value": ["fin"]},
            ],
        ),
        (
            f"{URL}/status",
            "json-patch+json",
            [TEST | {"value": "4"}, {"op": "replace", "path": "/status/y", "value": 2}],
        ),
    ]
    assert result.body["metadata"]["resourceVersion"] == "5"


async def test_cluster_scoped_objects(server, client, resource):
    server.script(server.reply(body(2)))
    resource = dataclasses.replace(resource, namespaced=False)
    await patch_object(client, resource, None, "name1", Patch({"spec": {}}))
    assert server.requests[0].path == "/apis/kopf.dev/v1/kopfexamples/name1"


async def test_c22_names_are_escaped(server, client):
    server.script(server.reply(body(2)))
    roles = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False)
    await patch_object(client, roles, None, "system:a?x=1#b c", Patch({"rules": []}))
    assert server.requests[0].path.endswith("/clusterroles/system:a%3Fx=1%23b%20c")


@pytest.mark.parametrize("subresources", [(), ("status",)])
async def test_b9_absent_objects_are_quiet(server, client, resource, subresources):
    resource = dataclasses.replace(resource, subresources=frozenset(subresources))
    server.script(*[server.error(404, **ABSENT) for _ in range(2)])
    patch = Patch({"status": {}, "spec": {}}, fns=[print])
    result = await patch_object(client, resource, "ns", "name1", patch)
    assert result.gone
    assert result.body is None
    assert not result.remaining


@pytest.mark.parametrize("details", [{}, {"details": {}}, {"details": {"name": "other"}}])
@pytest.mark.parametrize("patch", [Patch({"spec": {"x": 1}}), Patch({"status": {"x": 1}})])
async def test_k5_objects_are_not_absent_if_it_is_not_said_of_them(
    server, client, resource, patch, details
):
    """E.g. one of several servers does not serve the kind yet."""
    server.script(server.error(404, **details))
    with pytest.raises(errors.APINotFoundError):
        await patch_object(client, resource, "ns", "name1", patch)


async def test_k5_objects_are_not_absent_if_they_cannot_be_read(server, client, resource):
    server.script(server.reply(STATUS), server.error(404))
    with pytest.raises(errors.APINotFoundError):
        await patch_object(client, resource, "ns", "name1", Patch({"spec": {"x": 1}}))


@pytest.mark.parametrize("get", ["there", "forbidden"])
async def test_c20_b9_status_goes_to_the_object_if_the_subresource_is_switched_off(
    server, client, resource, get
):
    reading = server.reply(body(1)) if get == "there" else server.error(403)
    server.script(server.error(404, **ABSENT), reading, server.reply(body(2, status={"x": 1})))
    result = await patch_object(client, resource, "ns", "name1", Patch({"status": {"x": 1}}))
    assert result.body == body(2, status={"x": 1})
    assert [(request.method, request.path) for request in server.requests] == [
        ("PATCH", f"{URL}/status"),
        ("GET", URL),
        ("PATCH", URL),
    ]


class OpenFence:
    """As of an operator that leads, for ever."""

    term, is_open = 0, True

    def check(self):
        return 999.0


@pytest.fixture
def leading(client):
    client.fence = OpenFence()


async def test_i_under_leases_only_the_known_states_are_patched(server, client, resource, leading):
    server.script(server.reply(body(2, status={"y": 2})))
    server.script(server.reply(body(3, spec={"x": 1}, status={"y": 2})))
    patch = Patch({"spec": {"x": 1}, "status": {"y": 2}})
    await patch_object(client, resource, "ns", "name1", patch, body(1))
    versions = [r.json["metadata"]["resourceVersion"] for r in server.requests]
    assert versions == ["1", "2"]


async def test_i_under_leases_changes_of_others_are_not_conflicts(
    server, client, resource, leading, caplog
):
    server.script(server.reply(status=409))
    server.script(server.reply(body(5)))
    server.script(server.reply(body(6, spec={"x": 1})))
    patch = Patch({"spec": {"x": 1}})
    result = await patch_object(client, resource, "ns", "name1", patch, body(1))
    assert result.body == body(6, spec={"x": 1})
    assert [r.method for r in server.requests] == ["PATCH", "GET", "PATCH"]
    assert server.requests[-1].json["metadata"]["resourceVersion"] == "5"
    assert not [r for r in caplog.records if r.levelno > logging.DEBUG]


async def test_i_under_leases_busy_objects_are_patched_in_the_end(
    server, client, resource, leading
):
    for n in range(MAX_CONFLICTS):
        server.script(server.reply(status=409))
        server.script(server.reply(body(2 + n)))
    server.script(server.reply(body(9, spec={"x": 1})))
    patch = Patch({"spec": {"x": 1}})
    result = await patch_object(client, resource, "ns", "name1", patch, body(1))
    assert result.body == body(9, spec={"x": 1})
    assert server.requests[-1].json == {"spec": {"x": 1}}


async def test_i_under_leases_other_refusals_are_errors(server, client, resource, leading):
    server.script(server.reply(status=409))
    server.script(server.reply(body(1)))
    with pytest.raises(errors.APIConflictError):
        await patch_object(client, resource, "ns", "name1", Patch({"spec": {"x": 1}}), body(1))


@pytest.mark.parametrize("status", [409, 422])
@pytest.mark.parametrize("get", ["unchanged", "forbidden"])
async def test_b10_refused_functions_are_carried_forward(server, client, resource, status, get):
    """The object is as it was, so it is not known why; or it is not known how it is."""
    again = server.reply(body(2, spec={"x": 1})) if get == "unchanged" else server.error(403)
    server.script(server.reply(body(2, spec={"x": 1})), server.error(status), again)
    patch = Patch({"spec": {"x": 1}}, fns=[add_finalizer])
    result = await patch_object(client, resource, "ns", "name1", patch, body(1))
    assert not result.gone
    assert result.body == body(2, spec={"x": 1})
    assert dict(result.remaining) == {}
    assert result.remaining.fns == [add_finalizer]


async def test_b10_the_reason_of_refusals_is_told(server, client, resource):
    """Webhooks can deny with any code, also with the one of the tests of JSON patches."""
    server.script(server.error(422, message="denied the request: no"), server.reply(body(1)))
    patch = Patch(fns=[add_finalizer])
    result = await patch_object(client, resource, "ns", "name1", patch, body(1))
    assert result.remaining.fns == [add_finalizer]
    assert "denied the request: no" in (result.refusal or "")


@pytest.fixture
def instant(monkeypatch):
    delays = []

    async def sleep(delay):
        delays.append(delay)

    monkeypatch.setattr("kopf_cogs.clients.patching.asyncio.sleep", sleep)
    return delays


@pytest.mark.parametrize("status", [409, 422])
async def test_r17_b10_outdated_functions_are_applied_to_the_fresh_object(
    server, client, resource, status, instant
):
    """Others change the object all the time, and the stream lags behind them."""
    for version in (5, 7):
        server.script(server.error(status), server.reply(body(version)))
    server.script(server.reply(body(8, metadata={"finalizers": ["fin"]})))
    patch = Patch(fns=[add_finalizer])
    result = await patch_object(client, resource, "ns", "name1", patch, body(1))
    assert [request.method for request in server.requests] == ["PATCH", "GET"] * 2 + ["PATCH"]
    tests = [r.json[0]["value"] for r in server.requests if r.method == "PATCH"]
    assert tests == ["1", "5", "7"]
    assert result.body == body(8, metadata={"finalizers": ["fin"]})
    assert not result.remaining
    assert len(instant) == 1


async def test_r17_b10_attempts_are_limited(server, client, resource, instant):
    for version in range(2, 2 + MAX_ATTEMPTS):
        server.script(server.error(422), server.reply(body(version)))
    patch = Patch(fns=[add_finalizer])
    result = await patch_object(client, resource, "ns", "name1", patch, body(1))
    assert result.remaining.fns == [add_finalizer]
    assert len([r for r in server.requests if r.method == "PATCH"]) == MAX_ATTEMPTS
    assert len(instant) == MAX_ATTEMPTS - 2
    assert max(instant) < 2


async def test_r17_c5_finalizers_are_not_added_when_the_deletion_is_noticed(
    server, client, resource
):
    fresh = {"metadata": {"resourceVersion": "2", "deletionTimestamp": "2020-01-01T00:00:00Z"}}
    server.script(server.error(422), server.reply(fresh))
    block = functools.partial(block_deletion, finalizer="fin")
    result = await patch_object(client, resource, "ns", "name1", Patch(fns=[block]), body(1))
    assert len(server.requests) == 2
    assert not result.remaining


async def test_r17_a16_recreated_objects_are_not_patched_instead(server, client, resource):
    fresh = {"metadata": {"resourceVersion": "2", "uid": "uid2"}}
    server.script(server.error(422), server.reply(fresh))
    patch = Patch(fns=[add_finalizer])
    result = await patch_object(client, resource, "ns", "name1", patch, body(1), uid="uid1")
    assert result.gone
    assert len(server.requests) == 2


STATUS = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}


REPLIES = [
    *(STATUS, {}, [], "text", b"<html>", {"metadata": {}}),
    {"metadata": {"annotations": {"x": "y"}}},
    {"kind": "Other", "metadata": {"resourceVersion": "2"}},
    {"metadata": {"name": "name2", "resourceVersion": "2"}},
]


@pytest.mark.parametrize("reply", REPLIES)
async def test_r27_replies_that_are_not_the_object_are_not_taken_for_it(
    server, client, resource, reply
):
    server.script(server.reply(reply), server.reply(body(3)))
    result = await patch_object(client, resource, "ns", "name1", Patch({"spec": {}}), uid="uid1")
    assert result.body == body(3)
    assert [request.method for request in server.requests] == ["PATCH", "GET"]


ERROR_EVENT = {"type": "ERROR", "object": {"kind": "Status", "metadata": {}, "status": "Failure"}}


@pytest.mark.parametrize(
    "reply", [ERROR_EVENT, ERROR_EVENT["object"], {}, [], "text", b"<html>", b""]
)
async def test_b12_other_replies_are_errors_if_the_object_is_not_patched(
    server, client, resource, reply
):
    server.script(server.reply(reply), server.reply(body(1)))
    with pytest.raises(errors.APIResponseError, match="the object is not patched"):
        await patch_object(client, resource, "ns", "name1", Patch({"spec": {"x": 1}}), uid="uid1")
    assert [request.method for request in server.requests] == ["PATCH", "GET"]


async def test_r27_objects_released_with_a_status_are_gone(server, client, resource):
    server.script(server.reply(STATUS), server.error(404, **ABSENT))
    patch = Patch(fns=[add_finalizer])
    result = await patch_object(client, resource, "ns", "name1", patch, body(1), uid="uid1")
    assert result.gone


async def test_r27_nothing_but_other_things_is_an_error(server, client, resource):
    server.script(server.reply(STATUS), server.reply(STATUS))
    with pytest.raises(errors.APIResponseError):
        await patch_object(client, resource, "ns", "name1", Patch({"spec": {}}))


async def test_r27_other_objects_with_the_same_name_are_not_this_one(server, client, resource):
    server.script(server.reply({"metadata": {"uid": "uid2", "resourceVersion": "9"}}))
    patch = Patch({"status": {"x": 1}, "spec": {"y": 2}})
    result = await patch_object(client, resource, "ns", "name1", patch, body(1), uid="uid1")
    assert result.gone
    assert [request.path for request in server.requests] == [f"{URL}/status"]


async def test_c1_a16_results_are_sent_first_and_only_to_this_very_object(server, client, resource):
    """If the operator is killed in between, the handlers are not known to be over."""
    server.script(server.reply(body(2)), server.reply(body(3)))
    patch = Patch({"status": {"x": 1}, "spec": {"y": 2}})
    await patch_object(client, resource, "ns", "name1", patch, body(1), uid="uid1")
    assert [(request.path, request.json) for request in server.requests] == [
        (f"{URL}/status", {"status": {"x": 1}, "metadata": {"resourceVersion": "1"}}),
        (URL, {"spec": {"y": 2}, "metadata": {"uid": "uid1"}}),
    ]


async def test_c1_a16_the_identity_is_checked_if_the_object_has_changed(server, client, resource):
    server.script(server.error(409), server.reply(body(2, uid="uid1")))
    server.script(server.reply(body(3)), server.reply(body(4)))
    patch = Patch({"status": {"x": 1}, "spec": {"y": 2}})
    result = await patch_object(client, resource, "ns", "name1", patch, body(1), uid="uid1")
    assert [request.method for request in server.requests] == ["PATCH", "GET", "PATCH", "PATCH"]
    assert server.requests[2].json == {"status": {"x": 1}, "metadata": {"resourceVersion": "2"}}
    assert result.body == body(4)


async def test_sim19_a_status_alone_is_not_written_to_a_recreated_object(server, client, resource):
    """The API ignores the uid in a request for the status; a retried request can be late."""
    recreated = {"metadata": {"uid": "uid2", "resourceVersion": "2"}}
    server.script(server.error(409), server.reply(recreated))
    patch = Patch({"status": {"x": 1}})
    result = await patch_object(client, resource, "ns", "name1", patch, body(1), uid="uid1")
    assert result.gone
    assert [request.method for request in server.requests] == ["PATCH", "GET"]
    assert server.requests[0].json == {"status": {"x": 1}, "metadata": {"resourceVersion": "1"}}


@pytest.mark.parametrize("status", [400, 403, 409, 422])
async def test_b4_refused_merge_patches_are_errors(server, client, resource, status):
    server.script(server.error(status))
    with pytest.raises(errors.APIClientError):
        await patch_object(client, resource, "ns", "name1", Patch({"spec": {}}), uid="uid1")


async def test_b11_patches_are_repeated_if_the_reply_is_lost(server, client, resource, settings):
    settings.networking.error_backoffs = [0]
    server.script(server.raw(server.RST), server.reply(body(2, spec={"x": 1})))
    result = await patch_object(client, resource, "ns", "name1", Patch({"spec": {"x": 1}}))
    assert result.body == body(2, spec={"x": 1})
    first, second = server.requests
    assert first.body == second.body


@pytest.mark.parametrize(
    "response",
    [
        {"message": "Precondition failed: UID in precondition: uid1, UID in object meta: uid2"},
        {"details": {"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid"}]}},
    ],
)
@pytest.mark.parametrize("status", [409, 422])
async def test_a16_recreated_objects_are_not_patched(server, client, resource, status, response):
    server.script(server.error(status, **response))
    patch = Patch({"metadata": {"labels": {"a": "b"}}})
    result = await patch_object(client, resource, "ns", "name1", patch, uid="uid1")
    assert server.requests[0].json == {"metadata": {"labels": {"a": "b"}, "uid": "uid1"}}
    assert patch == {"metadata": {"labels": {"a": "b"}}}
    assert result.gone


@pytest.mark.parametrize(
    ("patch", "response", "expected"),
    [
        ({"spec": {"x": 1}}, {"spec": {"x": 1, "y": 2}}, ()),
        ({"spec": {"x": 1}}, {"spec": {"x": 2}}, (("change", ("spec", "x"), 1, 2),)),
        ({"spec": {"x": 1}}, {}, (("remove", ("spec",), {"x": 1}, None),)),
        ({"spec": {"x": {"y": 1}}}, {"spec": {}}, (("remove", ("spec", "x"), {"y": 1}, None),)),
        ({"spec": {"x": None}}, {"spec": {"x": 1}}, (("add", ("spec", "x"), None, 1),)),
        ({"spec": {"x": None}}, {"spec": {}}, ()),
        ({"spec": {"x": {"y": None}}}, {}, ()),
        ({"spec": {"x": {}}}, {}, ()),
        ({"spec": {"x": (1, 2)}}, {"spec": {"x": [1, 2]}}, ()),
        ({"spec": {"x": 1}}, {"spec": {"x": True, "y": 0}}, (("change", ("spec", "x"), 1, True),)),
    ],
)
async def test_c12_inconsistencies(server, client, resource, patch, response, expected):
    server.script(server.reply(body(2, **response)))
    result = await patch_object(client, resource, "ns", "name1", Patch(patch))
    assert result.inconsistencies == expected


async def test_b10_invalid_changes_of_functions_are_errors(server, client, resource):
    """They are not mistaken for outdated ones: the server has explained what is wrong."""
    server.script(server.error(422, details={"causes": [{"field": "metadata.finalizers"}]}))
    with pytest.raises(errors.APIUnprocessableError):
        await patch_object(client, resource, "ns", "name1", Patch(fns=[add_finalizer]), body(1))


@pytest.mark.parametrize(
    "patch",
    [
        Patch({"immutable": "x"}),
        Patch(fns=[add_finalizer]),
    ],
    ids=["merge", "json"],
)
async def test_e5_explanations_that_can_quote_secrets_are_hidden(server, client, patch):
    resource = Resource("", "v1", "secrets", namespaced=True)
    causes = [{"field": "patch", "message": '{"data": {"password": "c2VjcmV0"}}'}]
    server.script(
        server.error(
            422,
            reason="Invalid",
            message='Invalid value: {"data": {"password": "c2VjcmV0"}}',
            details={"causes": causes},
        )
    )
    with pytest.raises(errors.APIUnprocessableError, match=r"422 Invalid: .* hidden") as excinfo:
        await patch_object(client, resource, "ns", "name1", patch, body(1))
    assert "c2VjcmV0" not in str(excinfo.value)
    assert "c2VjcmV0" not in repr(excinfo.value.details)
    assert excinfo.value.__suppress_context__


# --- Conditions ---

OURS, THEIRS = {"type": "Ours", "status": "True"}, {"type": "Theirs", "status": "True"}
OLD, NEW = {"type": "Old", "status": "False"}, {"type": "Old", "status": "True"}


def with_conditions(version, *items, **status):
    return body(version, status={"conditions": [*items], **status})


def plan(*items, base=(OLD,), **status):
    return Patch({"status": {"conditions": PlannedConditions(items, base=[*base]), **status}})


def sent_conditions(server):
    patches = [request.json for request in server.requests if request.method == "PATCH"]
    versions = [patch.get("metadata", {}).get("resourceVersion") for patch in patches]
    return [*zip(versions, (patch["status"]["conditions"] for patch in patches), strict=True)]


async def test_h2_conditions_cost_one_request_if_nobody_else_sets_them(server, client, resource):
    server.script(server.reply(with_conditions(2, OLD, OURS)))
    result = await patch_object(
        client, resource, "ns", "name1", plan(OLD, OURS), with_conditions(1, OLD)
    )
    assert sent_conditions(server) == [("1", [OLD, OURS])]
    assert not result.inconsistencies


async def test_h2_conditions_of_others_survive(server, client, resource):
    """Those which were set, changed, or deleted meanwhile; and ours are as we want them."""
    server.script(server.error(409))
    server.script(server.reply(with_conditions(3, NEW, THEIRS)))
    server.script(server.reply(with_conditions(4, NEW, THEIRS, OURS, x=1)))
    result = await patch_object(
        client, resource, "ns", "name1", plan(OLD, OURS, x=1), with_conditions(1, OLD)
    )
    assert sent_conditions(server) == [("1", [OLD, OURS]), ("3", [NEW, THEIRS, OURS])]
    assert result.body["metadata"]["resourceVersion"] == "4"
    assert not result.inconsistencies


async def test_h2_conditions_planned_earlier_do_not_undo_what_is_known(server, client, resource):
    server.script(server.reply(with_conditions(3, THEIRS, OURS)))
    await patch_object(client, resource, "ns", "name1", plan(OURS), with_conditions(2, OLD, THEIRS))
    assert sent_conditions(server) == [("2", [THEIRS, OURS])]


async def test_h2_busy_objects_get_their_conditions(server, client, resource):
    for version in range(2, 2 + MAX_CONFLICTS):
        server.script(server.error(409))
        server.script(server.reply(with_conditions(version, THEIRS)))
    server.script(server.reply(with_conditions(9, THEIRS, OURS)))
    await patch_object(client, resource, "ns", "name1", plan(OLD, OURS), with_conditions(1, OLD))
    assert sent_conditions(server)[-1] == (None, [THEIRS, OURS])


async def test_h2_conditions_are_set_even_if_the_object_cannot_be_read(server, client, resource):
    server.script(server.error(409))
    server.script(server.error(403))
    server.script(server.reply(with_conditions(4, OLD, OURS)))
    await patch_object(client, resource, "ns", "name1", plan(OLD, OURS), with_conditions(1, OLD))
    assert sent_conditions(server) == [("1", [OLD, OURS]), (None, [OLD, OURS])]


async def test_h2_dropped_conditions_are_noticed(server, client, resource):
    server.script(server.reply(with_conditions(2, OLD)))
    result = await patch_object(
        client, resource, "ns", "name1", plan(OLD, OURS), with_conditions(1, OLD)
    )
    assert [item.field for item in result.inconsistencies] == [("status", "conditions")]
