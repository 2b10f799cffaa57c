"""Lists that take long, as their objects are handled page by page: changes do not wait for it."""

import asyncio

import pytest

from kopf_cogs.clients import reflector as reflectors
from kopf_cogs.clients.reflector import Reflector
from kopf_cogs.clients.stream_state import StreamState
from kopf_cogs.configs.forms import Form

URL = "/apis/kopf.dev/v1/namespaces/ns/kopfexamples"


@pytest.fixture(autouse=True)
def _hasty(monkeypatch):
    monkeypatch.setattr(reflectors, "LONG_LIST", 0)


@pytest.fixture
def reflector(client, resource, sink):
    return Reflector(client, resource, "ns", sink=sink)


@pytest.fixture
def reflect(reflector, background, sink):
    """Begin the list; its next page is requested only when the gate of the sink is opened."""
    sink.gate.clear()
    return lambda: background(reflector.run())


def versions(server):
    return [r.query.get("resourceVersion") if "watch" in r.query else None for r in server.requests]


async def test_o_changes_are_reported_before_the_end_of_the_list(
    server, reflector, reflect, sink, listed, event
):
    server.script(
        listed(["a", "b"], **{"continue": "token"}),
        server.stream(
            event("MODIFIED", "a", 11),
            event("MODIFIED", "c", 12),
            event("MODIFIED", "c", 13),
            event("ADDED", "new", 14),
            server.HANG,
        ),
        listed(["c", "d"]),
    )
    reflect()
    await sink.until(
        (None, "a"),
        (None, "b"),
        ("MODIFIED", "a"),
        (None, "c"),
        ("MODIFIED", "c"),
        ("ADDED", "new"),
    )
    assert not reflector.synced
    assert reflector.version is None
    sink.gate.set()
    await sink.until((None, "d"), ("LISTED", ""))
    await server.until(lambda requests: len(requests) == 4)
    assert versions(server) == [None, "10", None, "14"]
    assert len(reflector.known) == 5


async def test_o_what_is_deleted_during_the_list_does_not_return_with_its_next_page(
    server, reflector, reflect, sink, listed, event
):
    server.script(
        listed(["a", "b"], **{"continue": "token"}),
        server.stream(event("DELETED", "a", 11), event("DELETED", "c", 12), server.HANG),
        listed(["c", "d"]),
    )
    reflect()
    await sink.until((None, "a"), (None, "b"), ("DELETED", "a"), ("DELETED", "c"))
    sink.gate.set()
    await sink.until((None, "d"), ("LISTED", ""))
    assert {*reflector.known} == {"uid-b", "uid-d"}


async def test_o_bookmarks_are_where_the_usual_stream_begins(server, reflect, sink, listed, event):
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "50"}}}
    server.script(
        listed(["a"], **{"continue": "token"}),
        server.stream(bookmark, event("ADDED", "new", 51), bookmark, server.HANG),
        listed(["b"]),
    )
    reflect()
    await sink.until((None, "a"), ("ADDED", "new"))
    sink.gate.set()
    await sink.until((None, "b"), ("LISTED", ""))
    await server.until(lambda requests: len(requests) == 4)
    assert versions(server)[-1] in {"50", "51"}


@pytest.mark.parametrize(
    "problem",
    [
        {"type": "ERROR", "object": {"kind": "Status", "code": 410}},
        {"type": "ADDED", "object": {"metadata": {}}},
        {"type": "STRANGE"},
        b"not json\n",
    ],
)
async def test_o_what_is_unusual_waits_for_the_usual_stream(
    server, reflect, sink, listed, event, problem
):
    broken = server.stream(event("ADDED", "x", 11), problem, server.HANG)
    server.script(listed(["a"], **{"continue": "token"}), broken, server.stream(server.HANG))
    server.script(listed(["b"]))
    reflect()
    await sink.until((None, "a"), ("ADDED", "x"))
    await server.until(lambda requests: len(requests) == 3)  # it is tried again
    sink.gate.set()
    await sink.until((None, "b"), ("LISTED", ""))
    await server.until(lambda requests: len(requests) == 5)
    assert versions(server) == [None, "10", "11", None, "11"]


async def test_o_refused_streams_do_not_disturb_the_list(server, reflect, sink, listed):
    server.script(listed(["a"], **{"continue": "token"}), server.error(403))
    server.script(server.stream(), server.stream(server.HANG), listed(["b"]))
    reflect()
    await server.until(lambda requests: len(requests) == 4)
    sink.gate.set()
    await sink.until((None, "a"), (None, "b"), ("LISTED", ""))
    await server.until(lambda requests: len(requests) == 6)
    assert versions(server) == [None, "10", "10", "10", None, "10"]


async def test_o_lists_that_fail_begin_anew_without_what_was_seen(
    server, reflector, reflect, sink, listed, event
):
    server.script(listed(["a"], **{"continue": "token"}))
    server.script(server.stream(event("MODIFIED", "b", 11), server.HANG))
    server.script(server.error(410, reason="Expired"), listed(["a", "b"], rv=20))
    reflect()
    await sink.until((None, "a"), (None, "b"))
    sink.gate.set()
    await sink.until((None, "a"), (None, "b"), ("LISTED", ""))
    await server.until(lambda requests: len(requests) == 5)
    assert versions(server)[-1] == "20"


async def test_o_nothing_is_watched_after_the_list_but_the_usual_stream(
    server, reflect, sink, listed, event
):
    server.script(listed(["a"], **{"continue": "token"}), server.stream(server.HANG))
    server.script(listed(["b"]), server.stream(event("ADDED", "c", 11), server.HANG))
    reflect()
    await server.until(lambda requests: len(requests) == 2)
    sink.gate.set()
    await sink.until((None, "a"), (None, "b"), ("LISTED", ""), ("ADDED", "c"))
    names = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}
    assert "Reflector.run" in names
    assert "Reflector._look_ahead" not in names


async def test_o_objects_in_forms_are_made_such_when_they_come_ahead(
    server, client, resource, sink, background, listed, event
):
    def transform(body):
        body.pop("spec", None)
        return body

    sink.gate.clear()
    form = Form(transforms=(transform,))
    background(Reflector(client, resource, "ns", sink=sink, form=form).run())
    server.script(listed(["a"], **{"continue": "token"}))
    server.script(server.stream(event("ADDED", "x", 11, spec={"big": 1}), server.HANG))
    await sink.until((None, "a"), ("ADDED", "x"))
    assert "spec" not in sink.raw[-1]["object"]


def test_o_events_with_no_versions_keep_the_known_one(resource, sink, event):
    state = StreamState(resource, sink, title="kex", logger=None)
    first, second = event("ADDED", "a", 11), event("ADDED", "b", 12)
    del second["object"]["metadata"]["resourceVersion"]
    state.add_ahead([first, second])
    assert state.ahead_version == "11"


def test_sim21_repeated_versions_are_not_where_the_changes_go_on_after_a_list(
    resource, sink, event
):
    state = StreamState(resource, sink, title="kex", logger=None)
    state.add_ahead([event("DELETED", "a", 12), event("MODIFIED", "b", 9)])
    state.finish_list("10")
    assert state.resource_version == "12"
