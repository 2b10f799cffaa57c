"""What the API refuses: for now, or for ever; and what becomes of the rest."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from e2e.tests.harness import GROUP, LAST_HANDLED, get_essence, get_finalizers, get_progress
from kopf_core.actions.errors import TemporaryError
from kopf_core.intents import decorators as on

KEX = (GROUP, "kexes")
STRICT = ["stricts", "strictsubs"]
MERGE = "application/merge-patch+json"


def is_done(obj):
    return obj is not None and get_essence(obj) is not None and not get_progress(obj)


def is_json_patch(call):
    return call.body.startswith(b"[")


class Reporter(logging.Handler):
    """Tells the tests about the errors in the log, so that they can wait for those."""

    def __init__(self, calls):
        super().__init__(logging.ERROR)
        self.calls = calls

    def emit(self, record):
        self.calls(record.getMessage())


@pytest.fixture
def errors(world):
    logger, handler = logging.getLogger("kopf"), Reporter(world.calls)
    logger.addHandler(handler)
    yield world.calls
    logger.removeHandler(handler)


@pytest.mark.docs("patching/functions")
async def test_b10_functions_are_not_lost_while_the_other_handlers_go_on(faulty):
    """Two conflicts in a row, with the states of others in the queue, amid the cycle."""

    @on.create(*KEX, id="one", registry=faulty.registry)
    async def one(patch, **_):
        await faulty.patch({"status": {"foreign": True}})
        patch.fns.append(lambda body: body["spec"].setdefault("items", []).append("x"))

    @on.create(*KEX, id="two", registry=faulty.registry)
    async def two(**_):
        await faulty.patch({"status": {"foreign": False}})

    @on.create(*KEX, id="three", registry=faulty.registry)
    async def three(retry, **_):
        if not retry:
            raise TemporaryError("not yet", delay=0.01)

    async with faulty.operator():
        with faulty.sandbox.faults.fail(422, method="PATCH", match=is_json_patch, times=2):
            await faulty.create({})
            await faulty.until(is_done)
            obj = await faulty.until(lambda obj: obj["spec"])
    assert obj["spec"] == {"items": ["x"]}


async def test_b10_functions_are_not_lost_while_filters_fail(faulty):
    """The conflict is over, but it is not known what to handle; then it is."""

    def is_good(spec, **_):
        if spec.get("bad"):
            faulty.calls("failed")
            raise ValueError("It is not clear.")
        return True

    @on.create(*KEX, id="one", registry=faulty.registry)
    async def one(patch, **_):
        await faulty.patch({"spec": {"bad": True}})
        patch.fns.append(lambda body: body["spec"].setdefault("items", []).append("x"))

    @on.create(*KEX, id="two", registry=faulty.registry, when=is_good)
    async def two(**_):
        pass

    async with faulty.operator():
        with faulty.sandbox.faults.fail(422, method="PATCH", match=is_json_patch, times=1):
            await faulty.create({})
            await faulty.calls.until(lambda calls: len(calls) >= 2)
        await faulty.patch({"spec": {"bad": None}})
        await faulty.until(lambda obj: obj["spec"] == {"items": ["x"]})


@pytest.mark.docs("patching/functions")
async def test_b10_functions_that_make_the_object_invalid_are_dropped_at_once(world, errors):
    @on.create(*KEX, id="fn", registry=world.registry)
    @on.delete(*KEX, id="fn", registry=world.registry)
    def fn(patch, reason, **_):
        world.calls(str(reason))
        patch.fns.append(lambda body: body["metadata"].setdefault("labels", {}).update(x="?!"))
        return str(reason)

    async with world.operator():
        await world.create({})
        obj = await world.until(is_done)
        assert obj["status"] == {"fn": "create"}
        await world.delete()
        await world.until_gone()
    create, first, delete, second = errors
    assert (create, delete) == ("create", "delete")
    for error in (first, second):
        assert "The patch made by the handlers is rejected and dropped: 422" in error
        assert "metadata.labels" in error


@pytest.mark.parametrize("plural", STRICT)
async def test_c12_results_of_wrong_types_are_dropped_with_one_error(world, errors, plural):
    world.plural = plural

    @on.create(GROUP, plural, id="phase", registry=world.registry)
    @on.update(GROUP, plural, id="phase", registry=world.registry)
    def fn(spec, **_):
        world.calls(spec["n"])
        return {"this": "is not a string"}

    async with world.operator():
        await world.create({"n": 1})
        await world.until_handled(spec={"n": 1})
        await world.patch({"spec": {"n": 2}})
        await world.until_handled(spec={"n": 2})
    one, first, two, second = errors
    assert (one, two) == (1, 2)
    for error in (first, second):
        assert "The results of 'phase' are rejected and dropped: 422" in error


@pytest.mark.parametrize("plural", ["kexes", "subs"])
async def test_c13_numbers_that_the_server_cannot_hold_are_dropped(world, errors, plural):
    world.plural = plural

    @on.create(GROUP, plural, id="fn", registry=world.registry)
    def fn(**_):
        world.calls("fn")
        return 10**400

    async with world.operator():
        await world.create()
        await world.until(is_done)
    call, error = errors
    assert call == "fn"
    assert "The results of 'fn' are rejected and dropped: 400" in error


async def test_o6_finalizers_that_cannot_be_added_are_reported(world, errors):
    world.settings.persistence.finalizer = "no slash and spaces"

    @on.create(*KEX, id="fn", registry=world.registry)
    @on.delete(*KEX, id="fn", registry=world.registry)
    def fn(**_):
        world.calls("fn")

    async with world.operator():
        await world.create()
        await errors.until(lambda calls: calls)
    (error,) = errors  # however many times it is repeated
    assert "422 Invalid" in error
    assert "metadata.finalizers" in error


async def test_o6_finalizers_that_cannot_be_removed_are_reported(faulty, caplog):
    """The handlers are not called again, and the object goes as soon as it is possible."""

    @on.delete(*KEX, id="fn", registry=faulty.registry)
    def fn(**_):
        faulty.calls("fn")

    status = {
        "kind": "Status",
        "code": 422,
        "reason": "Invalid",
        "message": "It is not valid.",
        "details": {"causes": [{"field": "spec", "message": "It is required."}]},
    }
    body = json.dumps(status).encode()
    async with faulty.operator():
        await faulty.create()
        await faulty.until(get_finalizers)
        with faulty.sandbox.faults.fail(
            422, body=body, method="PATCH", match=is_json_patch, times=3
        ):
            await faulty.delete()
            await faulty.until_gone()
    assert faulty.calls == ["fn"]
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert len(errors) == 1  # the same ones are for debugging only
    assert all("422 Invalid: It is not valid." in error for error in errors)


async def test_e5_rejected_secrets_are_not_quoted(world, errors, caplog):
    """Servers explain the errors of patches by quoting the whole object."""
    caplog.set_level(logging.DEBUG, "kopf")
    world.settings.queueing.error_delays = [60]

    @on.create("v1", "secrets", id="fn", registry=world.registry)
    def fn(patch, **_):
        patch["immutable"] = "not a boolean"
        patch["data"] = {"patched": "not base64"}

    path = f"/api/v1/namespaces/{world.namespace}/secrets"
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "obj"},
        "data": {"password": "c2VjcmV0"},
    }
    async with world.operator():
        await world.request("POST", path, secret)
        await errors.until(len)
        while LAST_HANDLED not in str(await world.request("GET", f"{path}/obj")):
            await world.request("PATCH", f"{path}/obj", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert "The patch made by the handlers is rejected and dropped: 4" in errors[0]
    assert "c2VjcmV0" not in caplog.text
    assert "not base64" not in caplog.text


# --- What the operator itself cannot decide upon ---


@pytest.mark.docs("filtering")
async def test_r4_failing_filters_of_changes_are_reported_and_retried(world, errors):
    """It costs only that handler; the change is not handled until the filter works."""

    @on.create(
        *KEX,
        id="one",
        registry=world.registry,
        field="spec.n",
        value=lambda value, **_: value > 10,
        backoff=0.05,
    )
    @on.create(*KEX, id="two", registry=world.registry)
    def fn(spec, **_):
        world.calls(spec.get("n"))

    async with world.operator():
        await world.create({})
        await errors.until(lambda calls: None in calls and len(calls) >= 3)
        assert get_essence(await world.get()) is None
        await world.patch({"spec": {"n": 11}})
        await world.until_handled(spec={"n": 11})
    called = [call for call in errors if not isinstance(call, str)]
    assert called == [None, 11]
    for error in [call for call in errors if isinstance(call, str)]:
        assert "filters of handler 'one/spec.n' have failed: TypeError" in error
        assert "test_handling_rejections.py:" in error


@pytest.mark.parametrize("exc", [ValueError("boom"), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_r4_r20_failing_filters_cost_only_their_handlers(world, errors, exc):
    """Neither other handlers, nor daemons, nor the deletion."""

    def evil(**_):
        raise exc

    for decorator in (on.event, on.create, on.update, on.delete, on.daemon, on.timer, on.index):
        decorator(*KEX, id=f"bad-{decorator.__name__}", when=evil, registry=world.registry)(
            lambda **_: world.calls("never")
        )

    @on.event(*KEX, id="event", registry=world.registry)
    @on.create(*KEX, id="create", registry=world.registry)
    @on.delete(*KEX, id="delete", registry=world.registry)
    def good(reason=None, **_):
        world.calls(reason)

    @on.daemon(*KEX, registry=world.registry)
    async def daemon(stopped, **_):
        world.calls("started")
        await stopped.wait()
        world.calls("stopped")

    async with world.operator():
        await world.create()
        await errors.until(lambda calls: {"create", "started", None} <= {*calls})
        await world.delete()
        await world.until_gone()
    assert {"create", "delete", "started", "stopped"} <= {*errors}
    assert "never" not in errors
    for kind in ("event", "create", "delete", "daemon", "timer"):
        assert any(f"filters of handler 'bad-{kind}' have failed" in str(e) for e in errors)


async def test_r20_patch_functions_that_exit(world, errors):
    @on.create(*KEX, registry=world.registry)
    def create(patch, **_):
        def evil(_):
            raise SystemExit(1)

        patch.fns.append(evil)

    async with world.operator():
        await world.create()
        await world.until_handled()
    assert any("is rejected and dropped: SystemExit: 1" in error for error in errors)
