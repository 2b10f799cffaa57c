import pytest

from kopf_cogs.clients import errors
from kopf_cogs.clients.events import post_event, shorten

REF = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "n", "uid": "u"}


async def test_posting(server, client):
    server.script(server.reply({}, status=201))
    ref = REF | {"namespace": "ns"}
    await post_event(client, ref=ref, type="Normal", reason="Logging", message="hello")
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/ns/events")
    body = request.json
    stamps = {body.pop("firstTimestamp"), body.pop("lastTimestamp"), body.pop("eventTime")}
    assert len(stamps) == 1
    assert stamps.pop().endswith("+00:00")
    assert body.pop("apiVersion") == "v1"
    assert body.pop("kind") == "Event"
    assert body == {
        "metadata": {"namespace": "ns", "generateName": "kopf-event-"},
        "action": "Action?",
        "type": "Normal",
        "reason": "Logging",
        "message": "hello",
        "reportingComponent": "kopf",
        "reportingInstance": "dev",
        "source": {"component": "kopf"},
        "involvedObject": ref,
    }


async def test_cluster_scoped_objects(server, client):
    server.script(server.reply({}))
    await post_event(client, ref=REF, type="Normal", reason="X")
    assert server.requests[0].path == "/api/v1/namespaces/default/events"
    assert server.requests[0].json["involvedObject"] == REF | {"namespace": "default"}


async def test_reporters_of_settings(server, client, settings):
    settings.posting.reporting_component = "comp"
    settings.posting.reporting_instance = "inst"
    settings.posting.event_name_prefix = "pre-"
    server.script(server.reply({}))
    await post_event(client, ref=REF, type="Normal", reason="X")
    body = server.requests[0].json
    assert body["reportingComponent"] == body["source"]["component"] == "comp"
    assert body["reportingInstance"] == "inst"
    assert body["metadata"]["generateName"] == "pre-"


@pytest.mark.parametrize("version", ["v1", "events.k8s.io/v1"])
async def test_e4_no_events_about_events(server, client, version):
    ref = REF | {"apiVersion": version, "kind": "Event"}
    await post_event(client, ref=ref, type="Normal", reason="X")
    assert not server.requests


async def test_b4_forbidden_events_are_not_retried(server, client, settings):
    settings.posting.default_backoffs = [0, 0]
    server.script(server.error(403))
    with pytest.raises(errors.APIForbiddenError):
        await post_event(client, ref=REF, type="Normal", reason="X")
    assert len(server.requests) == 1


async def test_own_backoffs(server, client, settings):
    settings.posting.default_backoffs = [0]
    server.script(server.error(500), server.reply({}))
    await post_event(client, ref=REF, type="Normal", reason="X")
    server.script(server.error(500))
    with pytest.raises(errors.APIServerError):
        await post_event(client, ref=REF, type="Normal", reason="X", backoffs=())
    assert len(server.requests) == 3


@pytest.mark.parametrize(("length", "expected"), [(0, 0), (1023, 1023), (1024, 1024), (1025, 1024)])
def test_lengths_of_messages(length, expected):
    assert len(shorten("x" * length)) == expected


def test_messages_are_cut_in_the_middle():
    text = "".join(chr(ord("a") + n % 26) for n in range(5000))
    result = shorten(text)
    head, _, tail = result.partition("...")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert abs(len(head) - len(tail)) <= 1


@pytest.mark.parametrize("char", ["\u0436", "\u20ac", "\U0001f600", "\ud800"])
@pytest.mark.parametrize("shift", range(4))
def test_k32_texts_are_measured_in_bytes_and_characters_are_not_cut(char, shift):
    result = shorten("x" * shift + char * 1025 + "y" * shift)
    assert len(result.encode("utf-8", "replace")) <= 1024
    assert set(result) <= {"x", "y", ".", char}
    assert result.startswith("x" * shift)
    assert result.endswith("y" * shift)


def test_k32_foreign_texts_are_not_cut_if_they_fit():
    assert shorten("\u0436" * 512) == "\u0436" * 512


async def test_k32_reasons_and_instances_are_cut(server, client, settings):
    settings.posting.reporting_instance = "i" * 200
    server.script(server.reply({}))
    await post_event(client, ref=REF, type="Normal", reason="\u0436" * 100)
    body = server.requests[0].json
    assert len(body["reason"].encode()) in range(120, 129)
    assert len(body["reportingInstance"]) == 128
