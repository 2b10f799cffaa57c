"""Observed kinds: what is kept of their objects, and what is known of our own writes."""

import asyncio
import contextlib
import copy
from typing import Any

import pytest

from kopf_cogs.structs.resources import Resource
from kopf_core.engines.desired.changes import Change
from kopf_core.reactor.observed import KindView
from kopf_core.reactor.sharing import keep_fields_of
from kopf_core.reactor.stores import ObjectStore

RESOURCE = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
KEY = "1"


def make_body(version: int = 1, uid: str = "1") -> Any:
    owner = {f'k:{{"uid":"owner-of-{uid}"}}': {}}
    fields = {"f:data": {".": {}, "f:x": {}}, "f:metadata": {"f:ownerReferences": owner}}
    entries = [
        {"manager": "ours", "operation": "Apply", "fieldsV1": fields},
        {"manager": "theirs", "operation": "Update", "fieldsV1": {"f:data": {"f:y": {}}}},
    ]
    metadata = {"uid": uid, "name": f"cm-{uid}", "namespace": "ns"}
    return {
        "metadata": {**metadata, "resourceVersion": str(version), "managedFields": entries},
        "data": {"x": "1", "y": "2"},
    }


def test_only_our_fields_are_kept_and_the_rest_is_as_it_was() -> None:
    body = make_body()
    source = copy.deepcopy(body)
    kept: Any = keep_fields_of(lambda: "ours")(body)
    assert body == source
    assert kept["metadata"]["managedFields"] == source["metadata"]["managedFields"][:1]
    assert {**kept, "metadata": {}} == {**source, "metadata": {}}


def test_what_is_the_same_in_the_fields_is_shared() -> None:
    transform = keep_fields_of(lambda: "ours")
    one: Any = transform(make_body(uid="1"))
    other: Any = transform(make_body(uid="2"))
    fields = [body["metadata"]["managedFields"][0]["fieldsV1"] for body in (one, other)]
    assert fields[0]["f:data"] is fields[1]["f:data"]
    assert fields[0]["f:metadata"] != fields[1]["f:metadata"]


def test_what_is_the_same_in_the_texts_is_shared() -> None:
    def make(text: str) -> Any:
        body = make_body(uid=text)
        body["kind"] = "".join(["Config", "Map"])  # as texts are when parsed: equal, but others
        body["metadata"]["labels"] = {"app": "".join(["some", "thing"])}
        body["metadata"]["ownerReferences"] = [{"uid": "".join(["own", "er"])}, None, "odd"]
        return body

    transform = keep_fields_of(lambda: "ours")
    one, other = transform(make("1")), transform(make("2"))
    assert one == transform(make("1"))
    assert one["kind"] is other["kind"] == "ConfigMap"
    assert one["metadata"]["labels"]["app"] is other["metadata"]["labels"]["app"]
    refs = [body["metadata"]["ownerReferences"][0] for body in (one, other)]
    assert refs[0]["uid"] is refs[1]["uid"]
    assert one["metadata"]["labels"] is not other["metadata"]["labels"]  # people can modify these


@pytest.mark.parametrize("entries", [None, "text", [None, 1], [{"manager": "ours"}]])
def test_strange_fields_are_survived(entries: Any) -> None:
    body = make_body()
    body["metadata"]["managedFields"] = entries
    keep_fields_of(lambda: "ours")(body)


@pytest.fixture
def view() -> KindView:
    view = KindView(RESOURCE)
    view.stores[None] = ObjectStore(RESOURCE)
    return view


def test_all_our_writes_are_known_when_they_come_back(view: KindView) -> None:
    for version in (2, 3, 4):
        view.put(make_body(version))
    echoes = [view.is_own_echo(KEY, make_body(version)) for version in (2, 4, 4)]
    assert echoes == [True, True, False]


def test_changes_of_others_are_no_echoes(view: KindView) -> None:
    view.put(make_body(2))
    assert not view.is_own_echo(KEY, make_body(3))
    assert not view.is_own_echo(KEY, make_body(2))


class Listener:
    def __init__(self) -> None:
        self.versions: list[str] = []
        self.ours: list[str] = []

    def __call__(self, _: Resource, body: Any, change: Change) -> None:
        versions = self.ours if change is Change.OURS else self.versions
        versions.append(body["metadata"]["resourceVersion"])


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def stream(listener: Listener) -> Any:
    """What the stream brings: first to the store, then to those who are told of changes."""
    view = KindView(RESOURCE, listener)
    store = view.stores[None] = ObjectStore(RESOURCE)

    def feed(body: Any, type: Any = "MODIFIED") -> None:
        for subscriber in (store, view):
            subscriber.on_event(KEY, {"type": type, "object": body})

    feed.view = view  # type: ignore[attr-defined]
    return feed


def test_echoes_that_are_faster_than_responses_are_no_changes(
    stream: Any, listener: Listener
) -> None:
    with stream.view.writing("ns", "cm-1"):
        stream(make_body(2), "ADDED")
        stream.view.put(make_body(2))
    assert (listener.versions, listener.ours) == ([], ["2"])
    stream(make_body(3))
    assert (listener.versions, listener.ours) == (["3"], ["2"])


def test_changes_of_others_amid_a_write_are_told_after_it(stream: Any, listener: Listener) -> None:
    with stream.view.writing("ns", "cm-1"):
        stream(make_body(2))
        stream.view.put(make_body(2))
        stream(make_body(3))
        assert listener.versions == []
    assert listener.versions == ["3"]


async def test_two_who_write_the_same_object_wait_for_each_other(stream: Any) -> None:
    order: list[str] = []
    gate = asyncio.Event()

    async def write(name: str) -> None:
        await stream.view.wait_for_others("ns", "cm-1")
        with stream.view.writing("ns", "cm-1"):
            order.append(f"{name} begins")
            await gate.wait()
            order.append(f"{name} ends")

    writers = [asyncio.create_task(write(name)) for name in ("one", "two", "three")]
    for _ in range(3):
        await asyncio.sleep(0)
    await stream.view.wait_for_others("ns", "cm-2")
    assert order == ["one begins"]
    gate.set()
    await asyncio.gather(*writers)
    assert [line.partition(" ")[2] for line in order] == ["begins", "ends"] * 3


async def test_those_who_wait_for_a_failed_write_are_let_in(stream: Any) -> None:
    with contextlib.suppress(ZeroDivisionError), stream.view.writing("ns", "cm-1"):
        waiter = asyncio.create_task(stream.view.wait_for_others("ns", "cm-1"))
        await asyncio.sleep(0)
        assert not waiter.done()
        raise ZeroDivisionError
    await waiter


def test_changes_amid_a_failed_write_are_told_after_it(stream: Any, listener: Listener) -> None:
    with contextlib.suppress(ZeroDivisionError), stream.view.writing("ns", "cm-1"):
        stream(make_body(2))
        raise ZeroDivisionError
    assert listener.versions == ["2"]


def test_deletions_amid_a_write_are_told_at_once(stream: Any, listener: Listener) -> None:
    with stream.view.writing("ns", "cm-1"):
        stream(make_body(2), "DELETED")
        assert listener.versions == ["2"]


def test_h2_former_owners_are_told_of_what_they_have_lost() -> None:
    told: list[Any] = []
    view = KindView(RESOURCE, lambda _, body, change: told.append(body))
    store = view.stores[None] = ObjectStore(RESOURCE)
    owned, orphan = make_body(1), make_body(2)
    owned["metadata"]["ownerReferences"] = [{"uid": "owner"}]
    for body in (owned, orphan, make_body(3)):
        for subscriber in (store, view):
            subscriber.on_event(KEY, {"type": "MODIFIED", "object": body})
    assert told == [owned, owned, orphan, make_body(3)]
