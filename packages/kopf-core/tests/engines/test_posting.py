"""Kubernetes events: posted in the background, in order, never in the way."""

import asyncio
import concurrent.futures
import logging

import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.clients.errors import APIConnectionError, APIForbiddenError, APINotFoundError
from kopf_core.actions.context import OperatorContext, operator_var
from kopf_core.engines.posting import EventRecorder, event, exception, info, post_log_messages, warn
from kopf_core.engines.posting import recorder as recorders

BODY = {
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "metadata": {"name": "obj", "namespace": "ns", "uid": "uid1"},
}
NOW = "2020-01-01T00:00:00+00:00"


class FakeClient:
    """Remembers the requests; fails or hangs when told so."""

    def __init__(self, settings):
        self.settings = settings
        self.clock = FakeClock()
        self.posts, self.patches, self.active = [], [], 0
        self.peak = 0
        self.error = self.patch_error = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.changed = asyncio.Event()

    async def post(self, url, payload, *, backoffs=None):
        self.active += 1
        self.peak = max(self.peak, self.active)
        self.changed.set()
        try:
            await self.gate.wait()
        finally:
            self.active -= 1
        self.posts.append((url, payload, backoffs))
        self.changed.set()
        if self.error is not None:
            raise self.error
        return {"metadata": {"name": f"event-{len(self.posts)}", "namespace": "ns"}}

    async def patch(self, url, payload, **kwargs):
        self.patches.append((url, payload))
        self.changed.set()
        if self.patch_error is not None:
            raise self.patch_error

    async def until(self, check):
        async with asyncio.timeout(60):
            while not check():
                self.changed.clear()
                await self.changed.wait()

    @property
    def messages(self):
        return [payload["message"] for _, payload, _ in self.posts]


@pytest.fixture
async def client(settings):
    return FakeClient(settings)


@pytest.fixture
async def recorder(client, settings):
    recorder = EventRecorder(client, settings)
    token = operator_var.set(OperatorContext(settings, recorder))
    yield recorder
    operator_var.reset(token)
    client.gate.set()
    await recorder.close(1)


def body(name="obj"):
    return BODY | {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"}}


@pytest.mark.docs("k8s-events")
async def test_bytes_of_events(client, recorder):
    event(BODY, type="SomeType", reason="SomeReason", message="Some message")
    await client.until(lambda: client.posts)
    ((url, payload, _),) = client.posts
    assert url == "/api/v1/namespaces/ns/events"
    assert payload == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "ns", "generateName": "kopf-event-"},
        "action": "Action?",
        "type": "SomeType",
        "reason": "SomeReason",
        "message": "Some message",
        "reportingComponent": "kopf",
        "reportingInstance": "dev",
        "source": {"component": "kopf"},
        "involvedObject": {
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "name": "obj",
            "uid": "uid1",
            "namespace": "ns",
        },
        "firstTimestamp": NOW,
        "lastTimestamp": NOW,
        "eventTime": NOW,
    }


@pytest.mark.docs("k8s-events")
@pytest.mark.parametrize(("post", "type"), [(info, "Normal"), (warn, "Warning")])
async def test_shortcuts(client, recorder, post, type):
    post(BODY, reason="R", message="m")
    await client.until(lambda: client.posts)
    assert client.posts[0][1]["type"] == type


@pytest.mark.parametrize(("given", "text"), [(5, "5"), (None, ""), (ValueError("x"), "x")])
async def test_k32_events_with_texts_that_are_no_strings_are_posted(client, recorder, given, text):
    event(BODY, type="T", reason=given, message="m")
    event(BODY, type="T", reason="R", message=given)
    await client.until(lambda: len(client.posts) == 2)
    one, two = (payload for _, payload, _ in client.posts)
    assert (one["reason"], one["message"]) == (text, "m")
    assert (two["reason"], two["message"]) == ("R", text)


@pytest.mark.docs("k8s-events")
@pytest.mark.parametrize(
    ("kwargs", "reason", "message"),
    [({}, "ValueError", "boom"), ({"reason": "R", "message": "Error:"}, "R", "Error: boom")],
)
async def test_exceptions(client, recorder, kwargs, reason, message):
    try:
        raise ValueError("boom")
    except ValueError:
        exception(BODY, **kwargs)
    exception(BODY, exc=ValueError("boom"), **kwargs | {"reason": "Explicit"})
    await client.until(lambda: len(client.posts) == 2)
    one, two = (payload for _, payload, _ in client.posts)
    assert (one["type"], one["reason"], one["message"]) == ("Error", reason, message)
    assert (two["reason"], two["message"]) == ("Explicit", message)


@pytest.mark.docs("configuration/logging-events")
@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (logging.DEBUG, ["Normal", "Warning", "Error"]),
        (logging.WARNING, ["Warning", "Error"]),
        (logging.ERROR, ["Error"]),
        (logging.CRITICAL, []),
    ],
)
async def test_levels_of_shortcuts(client, recorder, settings, level, expected):
    settings.posting.level = level
    info(BODY, reason="R")
    warn(BODY, reason="R")
    exception(BODY, reason="R")
    event(BODY, type="Last", reason="R")
    await client.until(lambda: client.posts and client.posts[-1][1]["type"] == "Last")
    assert [payload["type"] for _, payload, _ in client.posts[:-1]] == expected


async def test_events_of_one_object_are_in_order(client, recorder):
    for n in range(20):
        info(BODY, reason="R", message=f"{n}")
    await client.until(lambda: len(client.posts) == 20)
    assert client.messages == [f"{n}" for n in range(20)]
    assert client.peak == 1


@pytest.mark.docs("k8s-events")
async def test_several_objects_at_once(client, recorder):
    info([body("a"), body("b")], reason="R")
    await client.until(lambda: len(client.posts) == 2)
    assert {payload["involvedObject"]["name"] for _, payload, _ in client.posts} == {"a", "b"}


@pytest.mark.parametrize("limit", [1, 3])
async def test_workers_are_limited(client, recorder, settings, limit):
    settings.posting.worker_limit = limit
    client.gate.clear()
    for n in range(10):
        info(body(f"{n}"), reason="R")
    await client.until(lambda: client.active == limit)
    client.gate.set()
    await client.until(lambda: len(client.posts) == 10)
    assert client.peak == limit


async def test_k9_events_recorded_when_the_last_worker_has_just_ended_do_not_stick(
    client, recorder, settings, monkeypatch
):
    settings.posting.worker_limit = 1
    loop, post = asyncio.get_running_loop(), client.post

    async def post_last(*args, **kwargs):
        result = await post(*args, **kwargs)
        if len(client.posts) == 1:  # the worker ends in this step of the loop, before its callbacks
            loop.call_soon(lambda: info(body("second"), reason="r", message="second"))
        return result

    monkeypatch.setattr(client, "post", post_last)
    info(body("first"), reason="r", message="first")
    await client.until(lambda: len(client.posts) == 2)
    assert client.messages == ["first", "second"]


@pytest.mark.parametrize("backoffs", [None, 5, [1, 2]])
async def test_retries_are_up_to_the_settings_or_arguments(client, recorder, settings, backoffs):
    info(BODY, reason="R", backoffs=backoffs)
    await client.until(lambda: client.posts)
    expected = settings.posting.default_backoffs if backoffs is None else backoffs
    assert client.posts[0][2] == expected


# --- What goes wrong ---


async def test_e2_disabled_posting_posts_nothing(client, recorder, settings):
    settings.posting.enabled = False
    info(BODY, reason="R")
    settings.posting.enabled = True
    info(BODY, reason="Last")
    await client.until(lambda: client.posts)
    assert [payload["reason"] for _, payload, _ in client.posts] == ["Last"]


@pytest.mark.docs("k8s-events/events-for-events")
@pytest.mark.parametrize("version", ["v1", "events.k8s.io/v1"])
async def test_e4_no_events_for_events(client, recorder, version):
    info(BODY | {"apiVersion": version, "kind": "Event"}, reason="R")
    info(BODY, reason="Last")
    await client.until(lambda: client.posts)
    assert [payload["reason"] for _, payload, _ in client.posts] == ["Last"]


@pytest.mark.parametrize(
    "error",
    [APIForbiddenError(status=403), APIConnectionError("network"), ValueError("unexpected")],
    ids=repr,
)
async def test_e1_failed_events_are_counted_and_do_not_stop_the_others(
    client, recorder, logged, error
):
    client.error = error
    info(BODY, reason="Bad")
    await client.until(lambda: len(client.posts) == 1)
    client.error = None
    info(BODY, reason="Good")
    await client.until(lambda: len(client.posts) == 2)
    assert recorder.dropped == 1
    assert len(logged(logging.WARNING)) == 1


async def test_b4_absent_permissions_are_told_once_until_they_are_granted(client, recorder, logged):
    for error in [APIForbiddenError(status=403), None, APIForbiddenError(status=403)]:
        client.error = error
        for number in range(3):
            count = len(client.posts)
            info(body(f"{number}"), reason="Any", message=f"{count}")
            await client.until(lambda count=count: len(client.posts) > count)
    assert recorder.dropped == 6
    assert len(logged(logging.WARNING)) == 2


async def test_e1_hanging_api_is_bounded(client, recorder, logged, monkeypatch):
    monkeypatch.setattr(recorders, "MAX_PENDING", 10)
    client.gate.clear()
    for n in range(100):
        info(BODY, reason="R", message=f"{n}")
    assert recorder.dropped == 90
    assert len(logged(logging.WARNING)) == 1
    client.gate.set()
    await client.until(lambda: len(client.posts) == 10)
    assert client.messages == [f"{n}" for n in range(10)]


async def test_e3_posting_from_threads(client, recorder):
    import contextvars

    with concurrent.futures.ThreadPoolExecutor() as executor:
        context = contextvars.copy_context()
        executor.submit(context.run, lambda: info(BODY, reason="R")).result(10)
    await client.until(lambda: client.posts)


async def test_e3_posting_while_exiting_does_not_hang(client, settings, logged):
    recorder = EventRecorder(client, settings)
    token = operator_var.set(OperatorContext(settings, recorder))
    client.gate.clear()
    info(BODY, reason="Hanging")
    await client.until(lambda: client.active)
    await recorder.close(0.001)
    info(BODY, reason="Late")
    operator_var.reset(token)
    assert not client.posts
    assert any("not posted: the operator is exiting" in message for message in logged())


async def test_e3_what_is_pending_is_posted_before_the_exit(client, settings):
    recorder = EventRecorder(client, settings)
    token = operator_var.set(OperatorContext(settings, recorder))
    for n in range(5):
        info(BODY, reason="R", message=f"{n}")
    await recorder.close(5)
    operator_var.reset(token)
    assert len(client.posts) == 5


def test_e3_posting_after_the_loop_is_closed(settings):
    async def make():
        return EventRecorder(FakeClient(settings), settings)

    recorder = asyncio.run(make())
    token = operator_var.set(OperatorContext(settings, recorder))
    with concurrent.futures.ThreadPoolExecutor() as executor:
        import contextvars

        context = contextvars.copy_context()
        executor.submit(context.run, lambda: info(BODY, reason="R")).result(10)
    operator_var.reset(token)
    assert recorder.dropped == 1


def test_posting_outside_of_operators_is_an_error():
    with pytest.raises(LookupError, match="inside of an operator"):
        event(BODY, type="T", reason="R")


# --- Aggregation ---


@pytest.mark.docs("k8s-events")
async def test_repeated_events_are_counted(client, recorder):
    for _ in range(4):
        info(BODY, reason="R", message="same")
    info(BODY, reason="R", message="other")
    await client.until(lambda: len(client.posts) == 2)
    assert client.messages == ["same", "other"]
    assert [payload["count"] for _, payload in client.patches] == [2, 3, 4]
    assert {url for url, _ in client.patches} == {"/api/v1/namespaces/ns/events/event-1"}
    assert all("lastTimestamp" in payload for _, payload in client.patches)


async def test_repeated_events_are_posted_anew_without_permissions(client, recorder, logged):
    client.patch_error = APIForbiddenError(status=403)
    for _ in range(3):
        info(BODY, reason="R", message="same")
    await client.until(lambda: len(client.posts) == 3)
    assert len(client.patches) == 1
    assert [message for message in logged() if "No permission to patch events" in message]
    assert not logged(logging.WARNING)


async def test_expired_events_are_posted_anew(client, recorder, logged):
    client.patch_error = APINotFoundError(status=404)
    for _ in range(2):
        info(BODY, reason="R", message="same")
    await client.until(lambda: len(client.posts) == 2)
    assert not logged(logging.WARNING)


# --- Log messages as events ---


@pytest.mark.docs("configuration/logging-events")
@pytest.mark.parametrize(
    ("loggers", "level", "expected"),
    [
        (False, logging.DEBUG, []),
        (True, logging.DEBUG, ["Debug", "Normal", "Warning", "Error", "Fatal"]),
        (True, logging.INFO, ["Normal", "Warning", "Error", "Fatal"]),
        (True, logging.ERROR, ["Error", "Fatal"]),
    ],
)
async def test_log_messages_as_events(
    client, recorder, settings, make_cause, caplog, loggers, level, expected
):
    caplog.set_level(logging.DEBUG)
    settings.posting.loggers, settings.posting.level = loggers, level
    logger = make_cause().logger
    post_log_messages()
    for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        logger.log(number, "message %s", number)
    event(BODY, type="Last", reason="R")
    await client.until(lambda: client.posts and client.posts[-1][1]["type"] == "Last")
    assert [payload["type"] for _, payload, _ in client.posts[:-1]] == expected
    assert {payload["reason"] for _, payload, _ in client.posts[:-1]} <= {"Logging"}


async def test_local_messages_are_not_posted(client, recorder, settings, make_event_cause, caplog):
    caplog.set_level(logging.DEBUG)
    settings.posting.loggers = True
    post_log_messages()
    make_event_cause().logger.error("silent")
    event(BODY, type="Last", reason="R")
    await client.until(lambda: client.posts)
    assert [payload["type"] for _, payload, _ in client.posts] == ["Last"]
