"""From a review to the handlers, and to the response."""

import asyncio
import dataclasses
import logging
import threading
import types

import pytest
from virtual_time import timeless

from kopf_cogs.structs.reviews import ReviewError, UnknownWebhookError
from kopf_core.actions.errors import PermanentError, TemporaryError
from kopf_core.engines.admission import reviewing
from kopf_core.engines.admission.reviewing import THREADS
from kopf_core.intents import decorators as on
from kopf_core.intents.filters import PRESENT
from kopf_core.intents.webhooks import AdmissionError


@pytest.fixture
def declare(registry):
    """Declare a handler which remembers what it was called with."""

    def declare(decorator, fn=None, *, id="fn", **options):
        calls = []

        async def handler(**kwargs):
            calls.append(kwargs)
            return fn(**kwargs) if fn is not None else None

        decorator("kopfexamples", id=id, registry=registry, **options)(handler)
        return calls

    return declare


@dataclasses.dataclass(frozen=True)
class NumberSpec:
    number: int


class UnprintableError(Exception):
    def __repr__(self):
        raise ValueError("It is a mistake of users.")


def raising(error):
    def fn(**_):
        raise error

    return fn


# --- What handlers see ---


@pytest.mark.docs("admission")
async def test_creations_are_described_to_handlers(declare, judge, make_review, resource):
    calls = declare(on.validate)
    headers, sslpeer = {"Authorization": "Bearer x"}, {"subject": ()}
    review = make_review({"a": 1}, dryRun=True)
    response = await judge(review, webhook="fn", headers=headers, sslpeer=sslpeer)
    assert response == {"uid": "uid-of-review", "allowed": True}
    [kwargs] = calls
    assert kwargs["operation"] == "CREATE"
    assert kwargs["subresource"] is None
    assert kwargs["dryrun"] is True
    assert kwargs["userinfo"] == {"username": "me", "uid": "me-too", "groups": ["us"]}
    assert (kwargs["headers"], kwargs["sslpeer"]) == (headers, sslpeer)
    assert kwargs["resource"] is resource
    assert (kwargs["old"], kwargs["new"]["spec"]) == (None, {"a": 1})
    assert [tuple(item)[:3] for item in kwargs["diff"]] == [("add", (), None)]
    assert (kwargs["name"], kwargs["namespace"], kwargs["spec"]) == ("obj", "ns", {"a": 1})
    assert (kwargs["retry"], kwargs["param"], kwargs["warnings"]) == (0, None, [])


@pytest.mark.docs("admission")
async def test_updates_are_described_to_handlers(declare, judge, make_review):
    calls = declare(on.validate, subresource="status")
    await judge(make_review({"a": 1}, old={"a": 0}, subResource="status"))
    [kwargs] = calls
    assert (kwargs["operation"], kwargs["subresource"]) == ("UPDATE", "status")
    assert (kwargs["old"]["spec"], kwargs["new"]["spec"]) == ({"a": 0}, {"a": 1})
    assert [tuple(item) for item in kwargs["diff"]] == [("change", ("spec", "a"), 0, 1)]
    assert kwargs["spec"] == {"a": 1}
    assert (kwargs["headers"], kwargs["sslpeer"]) == ({}, {})


async def test_deletions_are_described_to_handlers(declare, judge, make_review):
    calls = declare(on.validate)
    await judge(make_review(old={"a": 0}, operation="DELETE"))
    [kwargs] = calls
    assert (kwargs["operation"], kwargs["new"], kwargs["spec"]) == ("DELETE", None, {"a": 0})
    assert [item.op for item in kwargs["diff"]] == ["remove"]


async def test_connections_are_described_to_handlers(declare, judge, make_review):
    calls = declare(on.validate)
    body = {"kind": "PodExecOptions", "apiVersion": "v1", "command": ["ls"]}
    await judge(make_review(operation="CONNECT", object=body))
    assert calls[0]["body"] == body
    assert calls[0]["name"] is None


async def test_indices_are_for_webhooks_too(declare, make_reviewer, make_review):
    calls = declare(on.validate)
    await make_reviewer(indices={"idx": "index"})(make_review())
    assert calls[0]["idx"] == "index"


# --- Memos ---


@pytest.mark.docs("admission/memos")
async def test_memos_of_new_objects_are_for_one_time(declare, judge, make_review, memories):
    calls = declare(on.validate, lambda memo, **_: setattr(memo, "y", 2))
    await judge(make_review())
    await judge(make_review())
    assert [kwargs["memo"].x for kwargs in calls] == [1, 1]
    assert calls[0]["memo"] is not calls[1]["memo"]
    assert not memories


@pytest.mark.docs("admission/memos")
@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
async def test_memos_of_known_objects_are_theirs(declare, judge, make_review, memories, operation):
    calls = declare(on.validate)
    memory = memories.recall("uid1")
    await judge(make_review({}, old={}, operation=operation))
    assert calls[0]["memo"] is memory.memo


async def test_memos_of_unknown_objects_do_not_leak(declare, judge, make_review, memories):
    calls = declare(on.validate)
    await judge(make_review({}, old={}))
    assert calls[0]["memo"].x == 1
    assert not memories


# --- Which handlers are called ---


async def test_g7_only_the_handler_of_the_path_is_called(declare, judge, make_review):
    one, two = declare(on.validate, id="one"), declare(on.validate, id="two")
    await judge(make_review(), webhook="two")
    assert (len(one), len(two)) == (0, 1)


async def test_all_handlers_are_called_with_no_path(declare, judge, make_review):
    one, two = declare(on.validate, id="one"), declare(on.mutate, id="two")
    await judge(make_review())
    assert (len(one), len(two)) == (1, 1)


async def test_g7_unknown_paths_are_refused(declare, judge, make_review):
    declare(on.validate)
    with pytest.raises(UnknownWebhookError):
        await judge(make_review(), webhook="fn/..")


async def test_g2_unknown_resources_are_refused(declare, judge, make_review):
    declare(on.validate)
    other = {"group": "kopf.dev", "version": "v2", "resource": "kopfexamples"}
    with pytest.raises(UnknownWebhookError, match=r"no handlers: kopfexamples\.v2\.kopf\.dev"):
        await judge(make_review(resource=other))


@pytest.mark.parametrize(
    ("options", "subresource", "expected"),
    [
        ({}, None, 1),
        ({}, "status", 0),
        ({"subresource": "status"}, "status", 1),
        ({"subresource": "status"}, None, 0),
        ({"subresource": "status"}, "scale", 0),
        ({"subresource": "*"}, None, 1),
        ({"subresource": "*"}, "scale", 1),
    ],
)
async def test_subresources_are_filtered(
    declare, judge, make_review, options, subresource, expected
):
    calls = declare(on.validate, **options)
    assert (await judge(make_review(subResource=subresource)))["allowed"]
    assert len(calls) == expected


@pytest.mark.parametrize(
    ("decorator", "options", "operation", "expected"),
    [
        (on.validate, {}, "CREATE", 1),
        (on.validate, {}, "DELETE", 1),
        (on.validate, {"operation": "CREATE"}, "CREATE", 1),
        (on.validate, {"operation": "CREATE"}, "UPDATE", 0),
        (on.validate, {"operations": ["CREATE", "UPDATE"]}, "UPDATE", 1),
        (on.mutate, {}, "UPDATE", 1),
        (on.mutate, {}, "DELETE", 0),
        (on.mutate, {"operation": "DELETE"}, "DELETE", 1),
    ],
)
async def test_operations_are_filtered(
    declare, judge, make_review, decorator, options, operation, expected
):
    calls = declare(decorator, **options)
    assert (await judge(make_review({}, old={}, operation=operation)))["allowed"]
    assert len(calls) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"labels": {"l": "v"}}, 1),
        ({"labels": {"l": "other"}}, 0),
        ({"annotations": {"a": PRESENT}}, 0),
        ({"field": "spec.f"}, 1),
        ({"field": "spec.f", "value": 2}, 0),
        ({"field": "spec.nofield"}, 0),
        ({"when": lambda operation, **_: operation == "CREATE"}, 1),
        ({"when": lambda userinfo, **_: userinfo["username"] == "you"}, 0),
    ],
)
async def test_objects_are_filtered(declare, judge, make_review, options, expected):
    calls = declare(on.validate, **options)
    review = make_review({"f": 1}, meta={"labels": {"l": "v"}})
    assert (await judge(review))["allowed"]
    assert len(calls) == expected


async def test_failing_filters_deny_with_no_details(declare, judge, make_review, logged):
    calls = declare(on.validate, when=raising(ValueError("internals")))
    response = await judge(make_review())
    assert not response["allowed"]
    assert response["status"] == {"message": "The filters of the webhook have failed.", "code": 500}
    assert not calls
    assert any("internals" in text for text in logged(logging.ERROR))


# --- Errors and warnings ---


@pytest.mark.docs("admission/errors")
@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (AdmissionError("adm", code=499), "adm", 499),
        (AdmissionError("adm"), "adm", 500),
        (AdmissionError(), "AdmissionError('')", 500),
        (AdmissionError("adm", code="x"), "adm", 500),
        (PermanentError("perm"), "perm", 500),
        (TemporaryError("temp"), "temp", 500),
        (ValueError("arb"), "arb", 500),
        (ValueError(), "ValueError()", 500),
        (KeyError("zzz"), "KeyError: 'zzz'", 500),
        (UnprintableError(), "<unprintable UnprintableError>", 500),
        (SystemExit(3), "SystemExit: 3", 500),
        (ValueError("x" * 10_000), None, 500),
    ],
)
async def test_g6_errors_deny(declare, judge, make_review, error, message, code):
    declare(on.validate, raising(error))
    response = await judge(make_review())
    assert (response["uid"], response["allowed"]) == ("uid-of-review", False)
    assert response["status"]["code"] == code
    assert len(response["status"]["message"]) < 5_000
    assert message is None or response["status"]["message"] == message


@pytest.mark.docs("admission/errors")
async def test_errors_are_chosen_by_priority(registry, judge, make_review):
    errors = [
        ValueError("1"),
        TemporaryError("2"),
        PermanentError("3"),
        AdmissionError("4", code=444),
        AdmissionError("5", code=445),
    ]
    seen = []
    for error in errors:
        on.validate("kopfexamples", id=str(error), registry=registry)(raising(error))
        seen.append((await judge(make_review()))["status"])
    assert [(status["message"], status["code"]) for status in seen] == [
        ("1", 500), ("2", 500), ("3", 500), ("4", 444), ("4", 444)
    ]  # fmt: skip


@pytest.mark.docs("admission/warnings")
async def test_warnings_are_returned(declare, judge, make_review):
    declare(on.validate, lambda warnings, **_: warnings.extend(["one", 2]), id="a")
    declare(on.validate, lambda warnings, **_: warnings.append("three"), id="b")
    assert (await judge(make_review()))["warnings"] == ["one", "2", "three"]


async def test_warnings_are_returned_with_errors_too(declare, judge, make_review):
    def fn(warnings, **_):
        warnings.append("beware")
        raise AdmissionError("no")

    declare(on.validate, fn)
    response = await judge(make_review())
    assert (response["allowed"], response["warnings"]) == (False, ["beware"])


async def test_log_messages_are_as_of_the_previous_generation(
    declare, judge, make_review, logged, caplog
):
    declare(on.validate, raising(AdmissionError("no")))
    await judge(make_review())
    declare(on.validate, id="other")
    await judge(make_review(), webhook="other")
    assert logged() == [
        "Webhook 'fn' is invoked.",
        "Webhook 'fn' failed permanently: no",
        "Webhook 'other' is invoked.",
        "Webhook 'other' succeeded.",
    ]
    assert all(record.k8s_skip for record in caplog.records)  # no events of what may never be


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (AdmissionError("no"), logging.INFO),
        (PermanentError("no"), logging.ERROR),
        (ValueError("no"), logging.ERROR),
    ],
)
async def test_k31_rejections_are_not_errors(declare, judge, make_review, caplog, error, level):
    caplog.set_level(logging.INFO)
    declare(on.validate, raising(error))
    assert not (await judge(make_review()))["allowed"]
    [told] = [record for record in caplog.records if ": no" in record.getMessage()]
    assert told.levelno == level


# --- Patches ---


def patching(code):
    def fn(patch, **_):
        exec(code, {"patch": patch})

    return fn


@pytest.mark.docs("admission/mutating")
@pytest.mark.parametrize(
    ("code", "operations"),
    [
        ("patch.spec['a'] = 1", [{"op": "add", "path": "/spec/a", "value": 1}]),
        ("patch.spec['n'] = 1", [{"op": "replace", "path": "/spec/n", "value": 1}]),
        ("patch.spec['n'] = {'x': 1}", [{"op": "replace", "path": "/spec/n", "value": {"x": 1}}]),
        ("patch.spec['n'] = None", [{"op": "remove", "path": "/spec/n"}]),
        ("patch.spec['nosuch'] = None", []),
        ("patch.spec['old'] = 'same'", []),
        ("patch.status['x'] = {'y': None}", []),
        ("patch.status['x'] = 1", [{"op": "add", "path": "/status", "value": {"x": 1}}]),
        (
            "patch.meta.labels['a/b~c'] = 'v'",
            [{"op": "add", "path": "/metadata/labels/a~1b~0c", "value": "v"}],
        ),
        (
            "patch.meta.annotations['a/b'] = 'v'",
            [{"op": "add", "path": "/metadata/annotations", "value": {"a/b": "v"}}],
        ),
        (
            "patch.fns.append(lambda body: body['spec']['l'].insert(0, 9))",
            [{"op": "add", "path": "/spec/l/0", "value": 9}],
        ),
        (
            "patch.spec['a'] = 1\n"
            "patch.fns.append(lambda body: body['spec'].update(b=body['spec']['a']))",
            [
                {"op": "add", "path": "/spec/a", "value": 1},
                {"op": "add", "path": "/spec/b", "value": 1},
            ],
        ),
    ],
)
async def test_g6_patches_are_json_patches(declare, judge, make_review, code, operations):
    declare(on.mutate, patching(code))
    spec = {"n": None, "old": "same", "l": [1, 2]}
    response = await judge(make_review(spec, meta={"labels": {"x": "y"}}))
    assert response["allowed"]
    assert response.get("patch", []) == operations
    assert ("patch" in response) == bool(operations)


async def test_reviews_of_users_own_servers_can_be_any_mappings(declare, judge, make_review):
    declare(on.mutate, lambda patch, **_: patch.spec.update(b=2))
    review = make_review({"a": 1})
    request = {**review["request"], "object": types.MappingProxyType(review["request"]["object"])}
    response = await judge(
        types.MappingProxyType({**review, "request": types.MappingProxyType(request)})
    )
    assert response["patch"] == [{"op": "add", "path": "/spec/b", "value": 2}]


async def test_patches_of_several_handlers_are_merged(declare, judge, make_review):
    declare(on.mutate, patching("patch.spec['a'] = 1"), id="a")
    declare(
        on.mutate,
        patching("patch.fns.append(lambda b: b['spec'].update(b=b['spec']['a']))"),
        id="b",
    )
    assert (await judge(make_review({})))["patch"] == [
        {"op": "add", "path": "/spec/a", "value": 1},
        {"op": "add", "path": "/spec/b", "value": 1},
    ]


async def test_g6_nothing_is_patched_by_validating_handlers(declare, judge, make_review, logged):
    declare(on.validate, patching("patch.spec['a'] = 1"))
    assert await judge(make_review()) == {"uid": "uid-of-review", "allowed": True}
    assert logged(logging.WARNING) == [
        "Webhook 'fn' has changed the patch, but it cannot be applied."
    ]


async def test_g6_nothing_is_patched_in_deletions(declare, judge, make_review):
    declare(on.mutate, patching("patch.spec['a'] = 1"), operation="DELETE")
    review = make_review(old={}, operation="DELETE")
    assert await judge(review) == {"uid": "uid-of-review", "allowed": True}


@pytest.mark.parametrize(
    "code",
    [
        "patch.fns.append(lambda body: 1 / 0)",
        "patch.spec['x'] = object()",
        "patch.spec['x'] = float('nan')",
        "patch.spec['x'] = {1, 2}",
    ],
)
async def test_g6_impossible_patches_deny(declare, judge, make_review, code):
    declare(on.mutate, patching(code))
    response = await judge(make_review())
    assert not response["allowed"]
    assert response["status"]["message"].startswith("The patch cannot be made: ")
    assert "patch" not in response


async def test_g6_objects_are_not_changed_by_handlers(declare, judge, make_review):
    declare(on.mutate, patching("patch.fns.append(lambda body: body['spec'].clear())"))
    review = make_review({"a": {"b": 1}})
    await judge(review)
    assert review == make_review({"a": {"b": 1}})


# --- How they are called ---


async def test_handlers_are_called_in_parallel(registry, judge, make_review):
    barrier = asyncio.Barrier(3)
    for id in "abc":

        @on.validate("kopfexamples", id=id, registry=registry)
        async def fn(**_):
            await barrier.wait()

    async with asyncio.timeout(60):
        assert (await judge(make_review()))["allowed"]


async def test_sync_handlers_have_threads_of_their_own(registry, settings, judge, make_review):
    settings.execution.max_workers = 1
    blocked = threading.Event()
    settings.execution.executor.submit(blocked.wait)
    try:
        names = []

        @on.validate("kopfexamples", registry=registry)
        def fn(**_):
            names.append(threading.current_thread().name)

        async with asyncio.timeout(60):
            assert (await judge(make_review()))["allowed"]
        assert names[0].startswith(THREADS)
    finally:
        blocked.set()


async def test_g3_slow_handlers_are_given_up(registry, judge, make_review, monkeypatch, logged):
    monkeypatch.setattr("kopf_core.engines.admission.reviewing.DEFAULT_TIMEOUT", 0.01)
    cancelled = []

    @on.validate("kopfexamples", registry=registry, id="fn")
    async def fn(**_):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    response = await judge(make_review())
    assert response["status"]["message"] == "Webhook 'fn' has timed out after 0.01 seconds."
    assert cancelled


async def test_g3_slow_threads_are_given_up(registry, judge, make_review, monkeypatch):
    monkeypatch.setattr("kopf_core.engines.admission.reviewing.DEFAULT_TIMEOUT", 0.01)
    blocked = threading.Event()

    @on.validate("kopfexamples", registry=registry, id="fn")
    def fn(**_):
        blocked.wait()

    try:
        async with asyncio.timeout(60):
            response = await judge(make_review())
    finally:
        blocked.set()
    assert response["status"]["message"] == "Webhook 'fn' has timed out after 0.01 seconds."


@timeless
async def test_g3_handlers_are_cancelled_with_those_who_ask(registry, make_reviewer, make_review):
    started, cancelled = asyncio.Event(), asyncio.Event()

    @on.validate("kopfexamples", registry=registry)
    async def fn(**_):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    reviewer = make_reviewer()
    task = asyncio.create_task(reviewer(make_review()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled.is_set()
    await reviewer.drain()


@timeless
async def test_g3_requests_in_work_are_drained(registry, make_reviewer, make_review):
    proceed, started = asyncio.Event(), asyncio.Event()

    @on.validate("kopfexamples", registry=registry)
    async def fn(**_):
        started.set()
        await proceed.wait()

    reviewer = make_reviewer()
    task = asyncio.create_task(reviewer(make_review()))
    await started.wait()
    draining = asyncio.create_task(reviewer.drain())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not draining.done()
    proceed.set()
    await draining
    assert (await task)["response"]["allowed"]


async def test_k13_nobody_may_be_asking_for_a_while_before_the_server_is_drained(
    declare, make_reviewer, make_review, monkeypatch
):
    declare(on.validate)
    reviewer = make_reviewer()
    await reviewer(make_review())
    monkeypatch.setattr(reviewing, "QUIET_TIME", 1000)
    draining = asyncio.create_task(reviewer.drain())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not draining.done()
    draining.cancel()
    await asyncio.wait([draining])
    monkeypatch.setattr(reviewing, "QUIET_TIME", 0.01)
    await reviewer.drain()


@timeless
async def test_n11_those_who_ask_for_ever_are_not_waited_for(registry, make_reviewer, make_review):
    @on.validate("kopfexamples", registry=registry)
    async def fn(**_):
        await asyncio.sleep(0.5)

    reviewer = make_reviewer()

    async def ask():
        while True:
            await reviewer(make_review())

    askers = []
    for _ in range(5):  # there is no moment with no requests in work
        askers.append(asyncio.create_task(ask()))
        await asyncio.sleep(0.1)
    since = asyncio.get_running_loop().time()
    await reviewer.drain()
    assert 10 <= asyncio.get_running_loop().time() - since < 11
    for asker in askers:
        asker.cancel()
    await asyncio.wait(askers)


async def test_k13_a_server_that_was_not_asked_is_drained_at_once(make_reviewer, monkeypatch):
    monkeypatch.setattr(reviewing, "QUIET_TIME", 1000)
    await make_reviewer().drain()


async def test_requests_wait_until_resources_are_known(
    declare, make_reviewer, make_review, resource, registry
):
    calls = declare(on.validate)
    reviewer = make_reviewer(is_serving=False)
    task = asyncio.create_task(reviewer(make_review()))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    assert not calls
    reviewer.serve({registry.resource_handlers[0]: [resource]})
    assert (await task)["response"]["allowed"]
    assert calls


async def test_g2_malformed_requests_do_not_wait(declare, make_reviewer):
    declare(on.validate)
    with pytest.raises(ReviewError):
        await make_reviewer(is_serving=False)([])


# --- Models ---


async def test_n1_webhooks_are_given_models(registry, judge, make_review):
    specs = []

    @on.validate("kopfexamples", registry=registry)
    def fn(spec: NumberSpec, old, **_):
        specs.append(spec)

    response = await judge(make_review({"number": 1}, old={"number": "x"}))
    assert response["allowed"] is True
    assert specs == [NumberSpec(1)]


@pytest.mark.parametrize("operation", ["CREATE", "DELETE"])
async def test_n3_invalid_objects_are_denied_by_webhooks(
    registry, judge, make_review, operation, caplog
):
    """Deletions, too: nobody knows if they are permitted until the object is repaired."""

    @on.validate("kopfexamples", registry=registry, operations=["CREATE", "DELETE"])
    def fn(spec: NumberSpec, **_):
        raise AssertionError("It must not be called.")

    old = {"number": "x"} if operation == "DELETE" else None
    response = await judge(make_review({"number": "x"}, old=old, operation=operation))
    text = "The object is invalid: spec.number: must be an integer, not 'x'"
    assert response["allowed"] is False
    assert response["status"] == {"message": text, "code": 422}
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
