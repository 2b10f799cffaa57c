import asyncio
import json
import logging

import pytest
from virtual_time import jump

from kopf_cogs.clients import errors
from kopf_cogs.clients.reflector import Reflector
from kopf_cogs.clients.stream_state import StreamState, VersionsReversed
from kopf_cogs.configs.forms import Form
from kopf_cogs.structs.credentials import LoginError
from kopf_cogs.structs.parts import Part

URL = "/apis/kopf.dev/v1/namespaces/ns/kopfexamples"


@pytest.fixture(autouse=True)
def _debug(caplog):
    caplog.set_level(logging.DEBUG)


@pytest.fixture
def reflector(client, resource, sink):
    return Reflector(client, resource, "ns", sink=sink)


@pytest.fixture
def reflect(reflector, background):
    return lambda: background(reflector.run())


def is_list(request):
    return "watch" not in request.query


def versions(server):
    """What was requested: lists as ``None``, watches as the versions they start from."""
    return [r.query.get("resourceVersion") if "watch" in r.query else None for r in server.requests]


def warnings(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


async def test_list_and_watch(server, reflector, reflect, sink, listed, event, caplog):
    server.script(
        listed(["a", "b"], rv=10),
        server.stream(
            event("ADDED", "c", 11),
            event("MODIFIED", "a", 12),
            event("DELETED", "b", 13),
            server.HANG,
        ),
    )
    assert not reflector.synced
    task = reflect()
    await sink.until(
        (None, "a"),
        (None, "b"),
        ("LISTED", ""),
        ("ADDED", "c"),
        ("MODIFIED", "a"),
        ("DELETED", "b"),
    )
    assert reflector.synced
    assert [r.path for r in server.requests] == [URL, URL]
    assert server.requests[0].query == {"limit": "500"}
    assert server.requests[1].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "10",
    }
    assert "Starting the watch-stream for kopfexamples.v1.kopf.dev in 'ns'." in caplog.messages
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not reflector.synced
    assert "Stopping the watch-stream for kopfexamples.v1.kopf.dev in 'ns'." in caplog.messages


async def test_cluster_wide(server, client, resource, sink, background, listed, caplog):
    server.script(listed())
    background(Reflector(client, resource, None, sink=sink).run())
    await sink.until(("LISTED", ""))
    assert server.requests[0].path == "/apis/kopf.dev/v1/kopfexamples"
    assert "Starting the watch-stream for kopfexamples.v1.kopf.dev cluster-wide." in caplog.messages


async def test_listed_objects_know_what_they_are(server, reflect, sink, listed):
    server.script(listed(["a"]))
    reflect()
    await sink.until((None, "a"), ("LISTED", ""))
    assert sink.raw[0]["object"]["kind"] == "KopfExample"
    assert sink.raw[0]["object"]["apiVersion"] == "kopf.dev/v1"


async def test_parameters_of_settings(server, client, reflect, sink, listed, settings):
    settings.watching.server_timeout = 7.5
    settings.watching.chunk_size = 5
    settings.watching.label_selectors["kopfexamples"] = "a=b"
    settings.watching.label_selectors["kopf.dev", "kopfexamples"] = "c"
    settings.watching.field_selectors["kopfexamples"] = "metadata.name=x"
    settings.watching.shard_selectors["kopfexamples"] = "shard"
    settings.watching.label_selectors["pods"] = "unrelated"
    server.script(listed())
    reflect()
    await server.until(lambda requests: len(requests) == 2)
    selectors = {
        "labelSelector": "a=b,c",
        "fieldSelector": "metadata.name=x",
        "shardSelector": "shard",
    }
    assert server.requests[0].query == selectors | {"limit": "5"}
    assert server.requests[1].query == selectors | {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "10",
        "timeoutSeconds": "7",
    }


async def test_a1_instant_ends_are_backed_off_with_no_relisting(
    server, reflector, reflect, sink, listed, caplog
):
    server.script(listed(), *[server.stream() for _ in range(5)])
    reflect()
    await server.until(lambda requests: len(requests) == 7)
    assert versions(server) == [None] + ["10"] * 6
    assert reflector._backoff.failures == 5
    assert sink.listings == 1
    assert not warnings(caplog)


async def test_a1_backoff_is_reset_by_events(server, reflector, reflect, sink, listed, event):
    server.script(listed(), server.stream(), server.stream(), server.stream())
    server.script(server.stream(event("ADDED", "a", 11)))
    reflect()
    await server.until(lambda requests: len(requests) == 6)
    assert reflector._backoff.failures == 1


async def test_a2_silent_stall(server, reflector, reflect, sink, listed, event, settings):
    settings.watching.inactivity_timeout = 0.05
    server.script(listed(), server.stream(event("ADDED", "a", 11), server.HANG))
    server.script(server.stream(event("ADDED", "b", 12), server.HANG))
    reflect()
    await sink.until(("LISTED", ""), ("ADDED", "a"), ("ADDED", "b"))
    assert versions(server) == [None, "10", "11"]


async def test_a2_silence_before_the_headers(server, reflect, sink, listed, event, settings):
    settings.watching.inactivity_timeout = 0.05
    server.script(listed(), server.raw(server.HANG))
    server.script(server.stream(event("ADDED", "b", 12), server.HANG))
    reflect()
    await sink.until(("LISTED", ""), ("ADDED", "b"))
    assert versions(server) == [None, "10", "10"]


async def test_a4_cancellation_while_there_are_no_headers(server, reflect, listed):
    server.script(listed(), server.raw(server.HANG))
    task = reflect()
    await server.until(lambda requests: len(requests) == 2)
    task.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("where", ["status", "event"])
async def test_a5_gone_watches_are_relisted(server, reflect, sink, listed, event, where):
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    server.script(listed(["a"]))
    server.script(
        {
            "status": server.error(410),
            "event": server.stream(event("ADDED", "b", 11), {"type": "ERROR", "object": status}),
        }[where]
    )
    server.script(listed(["a", "b"], rv=20))
    reflect()
    first = [("ADDED", "b")] if where == "event" else []
    await sink.until((None, "a"), ("LISTED", ""), *first, (None, "a"), (None, "b"), ("LISTED", ""))
    await server.until(lambda requests: len(requests) == 4)
    assert versions(server) == [None, "10", None, "20"]


async def test_a5_gone_lists_are_restarted(server, reflect, sink, listed):
    server.script(server.error(410), listed(["a"]))
    reflect()
    await sink.until((None, "a"), ("LISTED", ""))


async def test_a5_gone_pages_are_restarted_from_the_first(server, reflect, sink, listed):
    server.script(listed(["a"], **{"continue": "page2"}), server.error(410))
    server.script(listed(["c"], **{"continue": "page2"}), listed(["b"]))
    reflect()
    await sink.until((None, "a"), (None, "c"), (None, "b"), ("DELETED", "a"), ("LISTED", ""))
    assert [r.query.get("continue") for r in server.requests[:4]] == [None, "page2", None, "page2"]


@pytest.mark.parametrize(
    "payload",
    [
        {"kind": "Status", "code": 500, "message": "boo"},
        {"kind": "Status", "code": 504, "message": "boo"},
        {"kind": "Status", "code": 429, "message": "boo"},
        {"kind": "Status", "message": "boo"},
        {"metadata": {"name": "not a status"}},
        {},
        [],
        None,
        "text",
    ],
)
async def test_a6_error_events(server, reflect, sink, listed, event, caplog, payload):
    server.script(listed(), server.stream({"type": "ERROR", "object": payload}))
    server.script(server.stream(event("ADDED", "a", 11), server.HANG))
    reflect()
    await sink.until(("LISTED", ""), ("ADDED", "a"))
    assert versions(server) == [None, "10", "10"]
    assert len(warnings(caplog)) == 1
    assert "The watch-stream for kopfexamples.v1.kopf.dev in 'ns' has failed" in warnings(caplog)[0]
    assert "The watch-stream for kopfexamples.v1.kopf.dev in 'ns' works again." in caplog.messages


@pytest.mark.parametrize(
    "garbage",
    [
        b'{"type": "ADDED", "obj',
        b'{"type": "ADDED", "object": "\xd0',
        b"{} {}\n",
        b"<html>\n",
    ],
)
async def test_a7_garbage_in_streams(server, reflect, sink, listed, event, garbage):
    server.script(listed(), server.stream(event("ADDED", "a", 11), garbage))
    server.script(server.stream(event("ADDED", "b", 12), server.HANG))
    reflect()
    await sink.until(("LISTED", ""), ("ADDED", "a"), ("ADDED", "b"))
    assert versions(server) == [None, "10", "11"]


@pytest.mark.parametrize("end", ["EOF", "RST"])
async def test_a7_broken_streams(server, reflect, sink, listed, event, end):
    gate = asyncio.Event()
    server.script(listed(), server.stream(event("ADDED", "a", 11), gate, getattr(server, end)))
    server.script(server.stream(event("ADDED", "b", 12), server.HANG))
    reflect()
    await sink.until(("LISTED", ""), ("ADDED", "a"))
    gate.set()
    await sink.until(("ADDED", "b"))
    assert versions(server) == [None, "10", "11"]


async def test_a7_empty_lines_are_harmless(server, reflect, sink, listed, event):
    server.script(
        listed(),
        server.stream(
            b"\n\n", event("ADDED", "a", 11), b"\r\n", event("ADDED", "b", 12), server.HANG
        ),
    )
    reflect()
    await sink.until(("LISTED", ""), ("ADDED", "a"), ("ADDED", "b"))
    assert len(server.requests) == 2


async def test_a8_big_events(server, reflect, sink, listed, event):
    server.script(
        listed(),
        server.stream(
            event("ADDED", "a", 11, spec={"x": "y" * 8_000_000}),
            event("ADDED", "b", 12),
            server.HANG,
        ),
    )
    reflect()
    await sink.until(("LISTED", ""), ("ADDED", "a"), ("ADDED", "b"))
    assert len(sink.raw[0]["object"]["spec"]["x"]) == 8_000_000


async def test_a8_many_small_events_are_consumed_in_batches(server, reflect, sink, listed, event):
    chunk = b"".join(
        json.dumps(event("ADDED", str(n), n + 11)).encode() + b"\n" for n in range(10_000)
    )
    server.script(listed(), server.stream(chunk, server.HANG))
    reflect()
    await sink.until(("LISTED", ""), *[("ADDED", str(n)) for n in range(10_000)])
    assert sink.drains < 1000


def deep(depth):
    return b'{"x":' * depth + b"1" + b"}" * depth


def deep_object(name, rv=1):
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(rv)}
    meta["labels"] = {"name": "wrong"}
    return b'{"metadata":' + json.dumps(meta).encode() + b',"spec":' + deep(2000) + b"}"


def deep_event(type_, name, rv):
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), deep_object(name, rv))


async def test_a9_depth_bombs_in_streams(server, reflector, reflect, sink, listed, event, caplog):
    server.script(
        listed(["a", "b"]),
        server.stream(
            deep_event("ADDED", "bomb", 11),
            deep_event("MODIFIED", "bomb", 12),
            event("MODIFIED", "a", 13),
            deep_event("DELETED", "bomb", 14),
            deep_event("MODIFIED", "b", 15),
            deep_event("DELETED", "b", 16),
        ),
    )
    reflect()
    await sink.until((None, "a"), (None, "b"), ("LISTED", ""), ("MODIFIED", "a"), ("DELETED", "b"))
    await server.until(lambda requests: len(requests) == 3)
    assert versions(server) == [None, "10", "16"]
    assert [message for message in warnings(caplog) if "ns/bomb." in message] == [
        "Ignoring an object of kopfexamples.v1.kopf.dev, as it is nested too deep to be handled: "
        "ns/bomb."
    ]


async def test_a9_depth_bombs_in_lists(server, reflect, sink, listed, event, caplog):
    bomb = b'{"kind":"XList","metadata":{"resourceVersion":"20"},"items":[%s,%s,%s]}' % (
        json.dumps({"metadata": {"name": "a", "uid": "a"}}).encode(),
        deep_object("bomb"),
        json.dumps({"metadata": {"name": "b", "uid": "b"}}).encode(),
    )
    server.script(server.reply(bomb), server.reply(bomb))
    server.script(server.stream(event("ADDED", "c", 21), server.HANG))
    reflect()
    await sink.until((None, "a"), (None, "b"), ("LISTED", ""), ("ADDED", "c"))
    assert server.requests[1].query == {"limit": "100"}  # to isolate it from others
    assert versions(server) == [None, None, "20"]
    assert any("ns/bomb" in message for message in warnings(caplog))


async def test_a9_known_objects_which_become_bombs_are_not_deleted(server, reflect, sink, listed):
    bomb = b'{"kind":"XList","metadata":{"resourceVersion":"20"},"items":[%s]}' % deep_object("a")
    server.script(listed(["a"]), server.error(410), server.reply(bomb), server.reply(bomb))
    reflect()
    await sink.until((None, "a"), ("LISTED", ""), ("LISTED", ""))


async def test_a10_nulls(server, reflect, sink, event):
    server.script(server.reply({"metadata": {"resourceVersion": "10"}, "items": None}))
    item = event("ADDED", "a", 11)
    item["object"] |= {"status": None, "spec": None}
    server.script(server.stream({"type": "ADDED", "object": {"metadata": None}}, item, server.HANG))
    reflect()
    await sink.until(("LISTED", ""), ("ADDED", "a"))


async def test_a11_bookmarks_are_remembered_but_not_reported(
    server, reflector, reflect, sink, listed
):
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "99"}}}
    server.script(listed(), server.stream(bookmark))
    reflect()
    await server.until(lambda requests: len(requests) == 3)
    assert versions(server) == [None, "10", "99"]
    assert sink.events == [("LISTED", "")]
    assert reflector._backoff.failures == 1


async def test_a12_idle_streams_are_relisted_ever_rarer(server, reflect, sink, listed, settings):
    settings.watching.inactivity_timeout = 0.05
    server.script(listed(), *[server.stream(server.HANG) for _ in range(3)])
    server.script(listed(), *[server.stream(server.HANG) for _ in range(6)])
    server.script(listed())
    reflect()
    await server.until(lambda requests: len(requests) == 13)
    assert versions(server)[:13] == [None, *["10"] * 3, None, *["10"] * 6, None, "10"]


@pytest.fixture
def end():
    return {
        "type": "BOOKMARK",
        "object": {
            "metadata": {
                "resourceVersion": "50",
                "annotations": {"k8s.io/initial-events-end": "true"},
            }
        },
    }


async def test_initial_streaming(server, reflector, reflect, sink, event, end, settings):
    settings.watching.initial_streaming = True
    progress = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "5"}}}
    server.script(
        server.stream(
            event("ADDED", "a", 3), progress, event("ADDED", "b", 1), end, event("ADDED", "c", 51)
        )
    )
    reflect()
    await sink.until((None, "a"), (None, "b"), ("LISTED", ""), ("ADDED", "c"))
    assert server.requests[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }
    await server.until(lambda requests: len(requests) == 2)
    assert server.requests[1].query["resourceVersion"] == "51"
    assert "sendInitialEvents" not in server.requests[1].query


async def test_a13_broken_initial_streams_are_restarted(
    server, reflector, reflect, sink, event, end, settings
):
    settings.watching.initial_streaming = True
    server.script(server.stream(event("ADDED", "a", 3), event("ADDED", "b", 1)))
    server.script(server.stream(event("ADDED", "b", 1), end, server.HANG))
    reflect()
    await sink.until((None, "a"), (None, "b"), (None, "b"), ("DELETED", "a"), ("LISTED", ""))
    assert "resourceVersion" not in server.requests[1].query
    assert server.requests[1].query["sendInitialEvents"] == "true"


async def test_k37_nothing_is_reached_until_a_streamed_list_is_over(
    server, reflector, reflect, sink, event, end, settings
):
    """Objects are streamed in any order: what was not streamed yet has not vanished."""
    settings.watching.initial_streaming = True
    senseless = event("ADDED", "c", 9)
    senseless["object"]["metadata"]["annotations"] = {"x": 1}
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}}
    parts = [event("ADDED", "a", 7), senseless, bookmark, event("ADDED", "b", 1)]
    gate = asyncio.Event()
    server.script(server.stream(*parts, gate, end, server.HANG))
    reflect()
    await sink.until((None, "a"), (None, "b"))
    assert reflector.version is None
    gate.set()
    await sink.until(("LISTED", ""))
    assert reflector.version == "50"


async def test_k37_versions_of_objects_of_a_broken_streamed_list_are_not_of_the_list(
    server, client, resource, sink, event, listed, settings, background
):
    """Quite usually, a list that is served next is of an older version than its newest object."""
    reversals = []
    settings.watching.initial_streaming = True
    server.script(server.stream(event("ADDED", "a", 90)), server.error(400), listed(["a"], rv=50))
    reflector = Reflector(
        client, resource, "ns", sink=sink, on_reversed=lambda: reversals.append(True)
    )
    background(reflector.run())
    await sink.until((None, "a"), (None, "a"), ("LISTED", ""))
    assert not reversals
    assert reflector.version == "50"


@pytest.mark.parametrize("status", [400, 422])
async def test_unsupported_initial_streaming_is_replaced_with_lists(
    server, reflect, sink, listed, settings, status
):
    settings.watching.initial_streaming = True
    server.script(server.error(status), listed(["a"]))
    reflect()
    await sink.until((None, "a"), ("LISTED", ""))


async def test_ignored_initial_streaming_is_replaced_with_lists(
    server, reflect, sink, listed, settings
):
    settings.watching.initial_streaming = True
    settings.watching.inactivity_timeout = 0.05
    server.script(*[server.stream(server.HANG) for _ in range(3)], listed(["a"]))
    reflect()
    await sink.until((None, "a"), ("LISTED", ""))


@pytest.mark.parametrize(
    "details",
    [
        {"message": "Too large resource version: 100, current: 5"},
        {"details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}},
    ],
)
async def test_a14_versions_from_the_future_are_relisted(server, reflect, sink, listed, details):
    server.script(listed(rv=100), *[server.error(504, **details) for _ in range(3)])
    server.script(listed(rv=5))
    reflect()
    await server.until(lambda requests: len(requests) == 6)
    assert versions(server) == [None, "100", "100", "100", None, "5"]


async def test_a14_restored_servers_are_relisted(
    server, reflect, sink, listed, event, settings, caplog
):
    """They accept the versions from the future, and are silent. Noticed by their absence before."""
    settings.networking.error_backoffs = []
    server.script(listed(["a"], rv=100), *[server.raw(server.RST)] * 2)  # also on a new connection
    server.script(listed(["b"], rv=5), listed(["b"], rv=6))
    reflect()
    await sink.until((None, "a"), ("LISTED", ""), (None, "b"), ("DELETED", "a"), ("LISTED", ""))
    await server.until(lambda requests: len(requests) == 6)
    assert versions(server) == [None, "100", "100", None, None, "6"]
    assert server.requests[3].query == {"limit": "1"}
    assert any("went back" in text and "100" in text for text in warnings(caplog))


async def test_a14_servers_of_the_same_state_are_not_relisted(
    server, reflect, sink, listed, settings
):
    settings.networking.error_backoffs = []
    server.script(listed(["a"], rv=100), *[server.raw(server.RST)] * 2)  # also on a new connection
    server.script(server.error(503), listed(["a"], rv=101), server.stream())
    reflect()
    await server.until(lambda requests: len(requests) == 7)
    assert versions(server) == [None, "100", "100", None, None, "100", "100"]
    assert sink.listings == 1


async def test_a14_bookmarks_from_the_past_mean_relisting(server, reflect, sink, listed, event):
    server.script(
        listed(["a"], rv=100),
        server.stream(event("BOOKMARK", None, 101), event("BOOKMARK", None, 5), server.HANG),
    )
    server.script(listed(["b"], rv=6))
    reflect()
    await sink.until((None, "a"), ("LISTED", ""), (None, "b"), ("DELETED", "a"), ("LISTED", ""))
    await server.until(lambda requests: len(requests) == 4)
    assert versions(server) == [None, "100", None, "6"]


def poison(name, rv):
    return {"metadata": {"name": name, "resourceVersion": str(rv), "annotations": {"x": 1}}}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([13, 12], "13"),
        ([99, 101, 100, 9], "101"),
        (["b", "a"], "a"),
        ([13, "a", 12], "12"),
        (["2_1", "1_9"], "1_9"),
    ],
)
async def test_sim21_streams_never_continue_from_repeated_versions(
    server, reflect, sink, listed, event, seen, expected
):
    """Since an older version, objects were deleted: their changes would come once more."""
    server.script(listed(["a"]), server.stream(*(event("MODIFIED", "a", rv) for rv in seen)))
    reflect()
    await server.until(lambda requests: len(requests) == 3)
    assert versions(server) == [None, "10", expected]
    assert sink.events[2:] == [("MODIFIED", "a")] * len(seen)


async def test_sim21_streams_never_continue_from_versions_of_repeated_impossible_objects(
    server, reflect, listed, event
):
    repeated = {"type": "MODIFIED", "object": poison("b", 11)}
    server.script(listed(["a"]), server.stream(event("DELETED", "a", 12), repeated))
    reflect()
    await server.until(lambda requests: len(requests) == 3)
    assert versions(server) == [None, "10", "12"]


async def test_sim21_backups_are_recognised_after_older_versions_in_the_same_stream(
    server, client, resource, sink, background, listed, event
):
    told = []
    older = [event("MODIFIED", "a", 5), event("BOOKMARK", None, 6)]
    server.script(listed(["a"]), server.stream(*older, server.HANG), listed(["a"], rv=6))
    reflector = Reflector(
        client, resource, "ns", sink=sink, on_reversed=lambda: told.append([*sink.events])
    )
    background(reflector.run())
    await server.until(lambda requests: len(requests) == 4)
    assert versions(server) == [None, "10", None, "6"]
    assert told == [[(None, "a"), ("LISTED", ""), ("MODIFIED", "a")]]


async def test_a15_missed_deletions_are_reported(server, reflector, reflect, sink, listed):
    server.script(listed(["a", "b"]), server.error(410), listed(["b", "c"], rv=20))
    reflect()
    await sink.until(
        (None, "a"),
        (None, "b"),
        ("LISTED", ""),
        (None, "b"),
        (None, "c"),
        ("DELETED", "a"),
        ("LISTED", ""),
    )
    assert sink.raw[-1] == {
        "type": "DELETED",
        "object": {
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "metadata": {"name": "a", "namespace": "ns", "uid": "uid-a"},
        },
    }


async def test_a15_deletions_while_paused_are_reported(server, reflect, sink, listed):
    server.script(listed(["a", "b"]))
    task = reflect()
    await server.until(lambda requests: len(requests) == 2)
    task.cancel()
    await asyncio.wait([task])
    sink.events.clear()
    server.script(listed(["b"]))
    reflect()
    await sink.until((None, "b"), ("DELETED", "a"), ("LISTED", ""))


async def test_a16_recreated_objects_are_two_objects(server, reflect, sink, listed, obj):
    server.script(listed([obj("a", uid="old")]), server.error(410))
    server.script(listed([obj("a", uid="new")]))
    reflect()
    await sink.until((None, "a"), ("LISTED", ""), (None, "a"), ("DELETED", "a"), ("LISTED", ""))
    uids = [event["object"]["metadata"]["uid"] for event in sink.raw]
    assert uids == ["old", "new", "old"]


async def test_a17_unknown_events_are_warned_of_once(server, reflect, sink, listed, event, caplog):
    server.script(
        listed(),
        server.stream(
            event("WHAT", "a", 11),
            event("WHAT", "a", 12),
            {"hello": "world"},
            event("ADDED", "b", 13),
            server.HANG,
        ),
    )
    reflect()
    await sink.until(("LISTED", ""), ("ADDED", "b"))
    assert len(warnings(caplog)) == 2
    assert "'WHAT'" in warnings(caplog)[0]


async def test_a18_too_many_watches_are_delayed_as_asked(
    server, reflector, reflect, sink, listed, caplog, monkeypatch
):
    delays = []
    original = asyncio.sleep

    async def sleep(delay):
        delays.append(delay)
        await original(0)

    monkeypatch.setattr("asyncio.sleep", sleep)
    server.script(listed(), server.error(429, headers={"Retry-After": "17"}))
    reflect()
    await server.until(lambda requests: len(requests) == 3)
    assert versions(server) == [None, "10", "10"]
    assert delays == [17]


async def test_a20_streams_survive_blocked_loops(server, reflect, sink, listed, event, settings):
    settings.watching.inactivity_timeout = 500
    gate = asyncio.Event()
    server.script(
        listed(), server.stream(event("ADDED", "a", 11), gate, event("ADDED", "b", 12), server.HANG)
    )
    server.script(listed(["wrong"]))
    reflect()
    await sink.until(("LISTED", ""), ("ADDED", "a"))
    gate.set()
    jump(1000)
    await sink.until(("ADDED", "b"))
    assert len(server.requests) == 2


@pytest.mark.parametrize("error", [ZeroDivisionError(), asyncio.CancelledError()], ids=repr)
async def test_r18_failures_of_those_who_process_the_events_do_not_end_the_stream(
    server, reflect, sink, listed, event, caplog, error
):
    failures = 0
    original = sink.on_event

    def on_event(event):
        nonlocal failures
        failures += 1
        if failures <= 2:
            raise error
        original(event)

    sink.on_event = on_event
    server.script(listed(["a"]), listed(["a"]), listed(["a"]))
    server.script(server.stream(event("ADDED", "b", 11), server.HANG))
    task = reflect()
    await sink.until((None, "a"), ("LISTED", ""), ("ADDED", "b"))
    assert not task.done()
    (warning,) = warnings(caplog)  # the same problem is not reported again and again
    assert "cannot be processed" in warning


@pytest.mark.parametrize("error", [ZeroDivisionError(), TimeoutError()], ids=repr)
async def test_r18_failures_of_those_who_process_the_changes_are_told_too(
    server, reflector, reflect, sink, listed, event, caplog, error
):
    failures = [error]
    original = sink.on_event

    def on_event(event):
        if event["object"]["metadata"]["name"] == "b" and failures:
            raise failures.pop()
        original(event)

    sink.on_event = on_event
    server.script(listed(["a"]))
    server.script(server.stream(event("ADDED", "b", 11), server.HANG))
    server.script(listed(["a", "b"]))
    reflect()
    await sink.until((None, "a"), ("LISTED", ""), (None, "a"), (None, "b"), ("LISTED", ""))
    (warning,) = warnings(caplog)
    assert "cannot be processed" in warning
    assert reflector._backoff.failures == 1


async def test_r18_the_stream_ends_when_it_is_cancelled_itself(server, reflect, sink, listed):
    sink.gate.clear()
    server.script(listed(["a"]))
    task = reflect()
    await sink.until((None, "a"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "poison",
    [
        {"type": {}, "object": {"metadata": {"name": "x"}}},
        {"type": "MODIFIED", "object": {"metadata": {"name": {"a": "b"}}}},
        {"type": "MODIFIED", "object": {"metadata": {"name": "x", "resourceVersion": 99}}},
        {"type": "MODIFIED", "object": {"metadata": {"name": "x", "annotations": {"a": 1}}}},
        {"type": "MODIFIED", "object": {"metadata": None}},
        {"type": "MODIFIED", "object": None},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": 99}}},
        {"type": "BOOKMARK", "object": {}},
        {"type": "BOOKMARK", "object": "abc"},
        {"type": "DELETED", "object": {"metadata": {"name": ["x"]}}},
    ],
    ids=str,
)
async def test_r19_senseless_events_are_kept_away_from_others(
    server, reflect, sink, listed, event, caplog, poison
):
    server.script(listed(["a"]))
    server.script(server.stream(poison, event("MODIFIED", "a", 11), poison))
    server.script(server.stream(event("MODIFIED", "a", 12), server.HANG))
    reflect()
    await sink.until((None, "a"), ("LISTED", ""), ("MODIFIED", "a"), ("MODIFIED", "a"))
    assert versions(server) == [None, "10", "11"]
    assert len(warnings(caplog)) <= 1


async def test_r11_quarantine_does_not_hide_deletions_in_lists(server, reflect, sink, listed, obj):
    """As many objects are listed as were known before, but they are not the same ones."""
    deep = obj("deep") | {"metadata": {"name": "deep", "annotations": {"poison": 1}}}
    server.script(listed(["a", "b"]), server.error(410), listed(["a", deep]))
    reflect()
    await sink.until(
        (None, "a"), (None, "b"), ("LISTED", ""), (None, "a"), ("DELETED", "b"), ("LISTED", "")
    )


@pytest.mark.parametrize(("version", "is_reversed"), [(5, True), (10, False), (15, False)])
async def test_r2_only_versions_that_really_went_back_are_told_of(
    server, client, resource, sink, background, listed, version, is_reversed
):
    told = []
    reflector = Reflector(
        client, resource, "ns", sink=sink, on_reversed=lambda: told.append([*sink.events])
    )
    server.script(listed(["a"], rv=10), server.error(410), listed(["a"], rv=version))
    background(reflector.run())
    await sink.until((None, "a"), ("LISTED", ""), (None, "a"), ("LISTED", ""))
    assert told == ([[(None, "a"), ("LISTED", "")]] if is_reversed else [])


def test_r2_initial_streams_of_restored_clusters_are_repeated(resource, obj):
    """Only their ends tell how old they are: what has come by then was taken for the past."""
    told = []
    sink = type("Sink", (), {"on_event": told.append, "on_listed": lambda: told.append("listed")})
    state = StreamState(
        resource,
        sink,
        title="",
        logger=logging.getLogger(),
        on_reversed=lambda: told.append("reversed"),
    )
    state.finish_list("10")
    annotations = {"k8s.io/initial-events-end": "true"}
    end = {"metadata": {"resourceVersion": "5", "annotations": annotations}}
    state.restart()
    with pytest.raises(VersionsReversed):
        state.add_batch(
            [{"type": "ADDED", "object": obj("a")}, {"type": "BOOKMARK", "object": end}]
        )
    state.restart()
    state.add_batch([{"type": "ADDED", "object": obj("a")}, {"type": "BOOKMARK", "object": end}])
    event = {"type": None, "object": obj("a")}
    assert told == ["listed", event, "reversed", event, "listed"]


async def test_selectors_of_the_stream_are_added_to_those_in_the_settings(
    server, client, resource, sink, background, listed, settings
):
    settings.watching.label_selectors["kopfexamples"] = "a=b"
    server.script(listed())
    background(Reflector(client, resource, "ns", sink=sink, selector="c=d").run())
    await server.until(lambda requests: len(requests) == 2)
    assert {request.query["labelSelector"] for request in server.requests} == {"a=b,c=d"}


@pytest.mark.parametrize("status", [500, 503, 400])
async def test_b1_failed_lists_are_retried(server, reflect, sink, listed, caplog, status):
    server.script(server.error(status), server.error(status), listed(["a"]))
    reflect()
    await sink.until((None, "a"), ("LISTED", ""))
    assert len(warnings(caplog)) == 1  # the same error is not reported again and again


async def test_b3_forbidden_lists_and_watches_are_retried(server, reflect, sink, listed, caplog):
    text = "kopfexamples.kopf.dev is forbidden: User cannot list"
    server.script(*[server.error(403, reason="Forbidden", message=text) for _ in range(3)])
    server.script(listed(["a"]), server.error(403, message=text), server.stream(server.HANG))
    reflect()
    await server.until(lambda requests: len(requests) == 6)
    assert versions(server) == [None, None, None, None, "10", "10"]
    assert warnings(caplog)[0] == (
        "Cannot watch kopfexamples.v1.kopf.dev in 'ns', will retry until permitted: "
        f"403 Forbidden: {text}"
    )
    assert len(warnings(caplog)) == 2  # once before the recovery, once after


async def test_b9_absent_resources_end_the_reflector(server, reflect, listed):
    server.script(listed(["a"]), server.error(404), server.error(404))
    with pytest.raises(errors.APINotFoundError):
        await reflect()
    assert versions(server) == [None, "10", None]


async def test_no_more_credentials_end_the_reflector(server, client, reflect, sink, listed):
    server.script(listed(["a"]))
    task = reflect()
    await server.until(lambda requests: len(requests) == 2)
    client.vault.close()
    server.requests.clear()
    for connection in client._pool.connections:
        await connection.close()
    with pytest.raises(LoginError):
        await task


async def test_freshness(server, client, reflector, reflect, sink, listed, event):
    before = reflector.freshness
    server.script(listed(), server.stream(event("ADDED", "a", 11), server.HANG))
    reflect()
    await sink.until(("LISTED", ""), ("ADDED", "a"))
    assert before < reflector.freshness <= client.clock.monotonic()


async def test_client_timeouts_are_not_errors(server, reflect, sink, listed, settings, caplog):
    settings.watching.client_timeout = 0.05
    server.script(listed(), server.stream(server.HANG), server.stream(server.HANG))
    reflect()
    await server.until(lambda requests: len(requests) == 3)
    assert versions(server) == [None, "10", "10"]
    assert not warnings(caplog)


async def test_backpressure_stops_the_reading(server, reflect, sink, listed, event):
    server.script(listed(), server.stream(event("ADDED", "a", 11), server.HANG))
    sink.gate.clear()
    reflect()
    await server.until(len)
    await sink.drained.wait()
    assert not sink.events  # the page is being drained, so the next things do not happen
    assert len(server.requests) == 1
    sink.gate.set()
    await sink.until(("LISTED", ""), ("ADDED", "a"))


async def test_o_servers_that_know_no_forms_send_whole_objects_of_which_only_the_form_is_left(
    server, client, resource, sink, listed, event, background
):
    server.script(
        listed([event(None, "a", 9)["object"] | {"spec": {"n": 1}}], rv=10),
        server.stream(
            {"type": "ADDED", "object": event(None, "b", 11)["object"] | {"spec": {"n": 1}}},
            server.HANG,
        ),
    )
    form = Form(is_metadata=True)
    background(Reflector(client, resource, "ns", sink=sink, form=form).run())
    await sink.until((None, "a"), ("LISTED", ""), ("ADDED", "b"))
    assert [event["object"].get("spec") for event in sink.raw] == [None, None]
    assert [request.headers["Accept"] for request in server.requests] == [
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;"
        "drop=metadata.managedFields,application/json",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;"
        "drop=metadata.managedFields,application/json",
    ]


async def test_o_objects_of_other_parts_are_dropped_before_anything_is_kept(
    server, client, resource, sink, background, listed, event
):
    part = Part(has=lambda key: key in {"uid-a", "uid-b", "uid-d"})
    reflector = Reflector(client, resource, "ns", sink=sink, choose_part=lambda: part)
    foreign = [event("MODIFIED", "y", 12), event("DELETED", "x", 13), event("ADDED", "z", 15)]
    server.script(
        listed(["a", "b", "x"], rv=10),
        server.stream(event("ADDED", "d", 11), *foreign[:2], event("DELETED", "b", 14), foreign[2]),
        server.stream(server.HANG),
    )
    background(reflector.run())
    await sink.until((None, "a"), (None, "b"), ("LISTED", ""), ("ADDED", "d"), ("DELETED", "b"))
    await server.until(lambda requests: len(requests) == 3)
    assert set(reflector.known) == {"uid-a", "uid-d"}
    assert versions(server) == [None, "10", "15"]  # the dropped changes are not sent again


def test_o_objects_of_other_parts_are_dropped_when_they_come_ahead(resource, sink, event):
    get_filter = lambda: lambda key: key == "uid-a"  # noqa: E731
    state = StreamState(resource, sink, title="kex", logger=None, get_filter=get_filter)
    state.add_ahead([event("ADDED", "a", 11), event("ADDED", "x", 12)])
    assert (list(state.known), state.ahead_version) == (["uid-a"], "12")


def test_o_bookmarks_are_in_all_parts(resource, sink):
    state = StreamState(
        resource, sink, title="kex", logger=None, get_filter=lambda: lambda _: False
    )
    state.finish_list("10")
    meta = {"name": "", "resourceVersion": "20"}  # some servers send names, too
    state.add_batch([{"type": "BOOKMARK", "object": {"metadata": meta}}])
    assert state.resource_version == "20"
