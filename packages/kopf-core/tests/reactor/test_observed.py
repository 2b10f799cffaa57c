"""Observed kinds: what is kept of their objects, and what is known of our own writes."""

import asyncio
import contextlib
import copy
import dataclasses
from typing import Any

import pytest

from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.engines.desired.sources import ObservedChange
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.streams.forms import Forms
from kopf_core.reactor.streams.observed import KindView, ObservedKinds
from kopf_core.reactor.streams.pool import InformerPool
from kopf_core.reactor.streams.readiness import Readiness
from kopf_core.reactor.streams.sharing import keep_fields_of
from kopf_core.reactor.streams.stores import ObjectStore

RESOURCE = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
KEX = Resource("kopf.dev", "v1", "kopfexamples", "KopfExample", namespaced=True)
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

    def __call__(self, _: Resource, body: Any, change: ObservedChange) -> None:
        versions = self.ours if change is ObservedChange.OURS else self.versions
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


def own(uid: str, version: int) -> Any:
    body = make_body(version, uid)
    body["metadata"]["ownerReferences"] = [{"uid": "owner"}]
    return body


def test_h2_owners_are_told_of_what_has_vanished_unseen() -> None:
    told: list[Any] = []
    view = KindView(RESOURCE, lambda _, *news: told.append(news))
    store = view.stores[None] = ObjectStore(RESOURCE)
    store.follow(lambda: "10")
    view.put(own("1", 5))
    store.on_listed()
    view.tell_vanished(None)
    view.put(own("2", 6))
    assert told == [(own("1", 5), ObservedChange.GONE), (own("2", 6), ObservedChange.GONE)]
    assert not view._written


def test_h2_owners_are_told_of_responses_when_nothing_is_observed_anymore() -> None:
    told: list[Any] = []
    view = KindView(RESOURCE, lambda _, *news: told.append(news))
    view.stores["ns"] = ObjectStore(RESOURCE)
    view.put(own("1", 5))
    view.leave("ns")
    assert not view._written
    view.put(own("1", 6))
    assert told == [(own("1", 6), ObservedChange.OTHERS)]


@pytest.fixture
async def observe(cluster: Any, settings: Any, journal: Any) -> Any:
    """The observed kinds as in operators; what is told of them goes to the journal."""
    settings.watching.reconnect_backoff = 0.01
    pool = InformerPool(cluster.client, settings)
    observed = ObservedKinds(
        pool=pool,
        selectors=[Selector.of("kopfexamples")],
        forms=Forms(OperatorRegistry(), settings),
        readiness=Readiness(),
        transform=lambda body: body,
        on_change=lambda _, body, change: journal((change, body["metadata"]["name"])),
        on_listed=lambda _: journal("listed"),
    )

    async def observe(namespaces: Any = ("default",), **changes: Any) -> KindView:
        kind = dataclasses.replace(KEX, **changes)
        since = len(journal)
        await observed.adjust([kind], namespaces)
        if namespaces:
            await journal.until(lambda calls: "listed" in calls[since:])
        (view,) = observed.get_sources([Selector.of("kopfexamples")]).values() or [None]
        return view

    yield observe
    await pool.stop()


async def test_h2_responses_later_than_the_list_are_not_of_what_exists(
    cluster: Any, observe: Any, journal: Any
) -> None:
    body = await cluster.create("a")
    await cluster.delete("a")
    view = await observe()
    view.put(body)
    assert view.find("default", "a") is None
    assert journal == ["listed", (ObservedChange.GONE, "a")]
    body = await cluster.create("a")
    view.put(body)
    assert view.find("default", "a") is body


async def test_h2_it_is_told_of_what_is_not_observed_anymore(observe: Any, cluster: Any, journal):
    await cluster.create("a")
    await observe()
    await observe(namespaces=["other"])
    assert journal.count((ObservedChange.GONE, "a")) == 1
    await observe(namespaces=["default", "other"])
    assert journal.count((ObservedChange.OTHERS, "a")) == 2


async def test_h2_other_versions_take_over_what_is_known(
    observe: Any, cluster: Any, journal: Any, make_definition: Any
) -> None:
    await cluster.redefine(make_definition("v1", "v2"))
    for name in "ab":
        await cluster.create(name)
    watches = {"path": "*/kopfexamples", "watch": True}
    await observe()
    with cluster.sandbox.faults.hold(**watches):
        await cluster.delete("a")
        await observe(version="v2")
    assert journal.count((ObservedChange.GONE, "a")) == 1
    assert (ObservedChange.GONE, "b") not in journal


async def test_h2_kinds_of_another_scope_are_observed_anew(
    observe: Any, cluster: Any, journal: Any
) -> None:
    await cluster.create("a")
    view = await observe(namespaces=[None], namespaced=False)
    assert view.find("default", "a") is None
    view = await observe(namespaces=[None], namespaced=True)
    assert view.resource.namespaced
    assert view.find("default", "a") is not None
    assert journal.count((ObservedChange.GONE, "a")) == 1
