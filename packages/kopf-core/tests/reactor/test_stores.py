"""The object store: what is found in it, and what never replaces what."""

from typing import Any

import pytest

from kopf_cogs.structs.keys import object_key
from kopf_cogs.structs.resources import Resource
from kopf_core.reactor.streams import stores
from kopf_core.reactor.streams.stores import ObjectStore, without_managed_fields

RESOURCE = Resource("kopf.dev", "v1", "kopfexamples", namespaced=True)


def make(name: str = "a", version: int | str = 1, *, owners: Any = (), **fields: Any) -> Any:
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "ownerReferences": [{"uid": uid} for uid in owners],
        }
        | fields
    }


class Feed:
    """What a watch-stream does to the store."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def __call__(self, type: Any, body: Any) -> None:
        self.store.on_event(object_key(RESOURCE, body), {"type": type, "object": body})


@pytest.fixture
def store() -> ObjectStore:
    return ObjectStore(RESOURCE)


@pytest.fixture
def feed(store: ObjectStore) -> Feed:
    return Feed(store)


def test_objects_are_found_by_everything(store: ObjectStore, feed: Feed) -> None:
    a, b = make("a", owners=["x", "y"]), make("b", owners=["x"])
    feed(None, a)
    feed("ADDED", b)
    assert len(store) == 2
    assert store["uid-a"] is a
    assert store.get("uid-c") is None
    assert store.find("ns", "b") is b
    assert store.find("other", "b") is None
    assert store.owned_by("x") == [a, b]
    assert store.owned_by("y") == [a]
    assert store.owned_by("z") == []


def test_changes_are_followed(store: ObjectStore, feed: Feed) -> None:
    feed("ADDED", make("a", 1, owners=["x"]))
    feed("MODIFIED", newest := make("a", 2, owners=["y"]))
    assert store.owned_by("x") == []
    assert store.owned_by("y") == [newest]
    feed("DELETED", make("a", 3))
    assert not store
    assert store.find("ns", "a") is None
    assert store.owned_by("y") == []


def test_recreated_objects_are_found_though_the_deletion_comes_later(
    store: ObjectStore, feed: Feed
) -> None:
    feed("ADDED", make("a", 1))
    feed("ADDED", newest := make("a", 3, uid="uid-new"))
    feed("DELETED", make("a", 2))
    assert store.find("ns", "a") is newest


def test_our_own_writes_are_read_before_they_are_streamed(store: ObjectStore, feed: Feed) -> None:
    feed("ADDED", make("a", 1))
    assert store.put(ours := make("a", 5))
    feed("MODIFIED", make("a", 3))
    assert store["uid-a"] is ours
    feed("MODIFIED", newest := make("a", 6))
    assert store["uid-a"] is newest
    assert not store.put(make("a", 5))
    assert store["uid-a"] is newest


def test_l_all_late_states_are_ignored_until_the_stream_brings_our_own_write(
    store: ObjectStore, feed: Feed
) -> None:
    """Others have changed the object several times before us, and the stream is far behind."""
    feed("ADDED", make("a", 1))
    assert store.put(ours := make("a", 5))
    for version in (2, 3, 4):
        feed("MODIFIED", make("a", version))
        assert store["uid-a"] is ours


def test_late_responses_do_not_revive_deleted_objects(
    store: ObjectStore, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "REMEMBERED_DELETIONS", 2)
    for name in "abc":
        feed("ADDED", make(name, 1))
        feed("DELETED", make(name, 3))
    assert not store.put(make("c", 2))
    assert not store
    assert len(store._deleted) == 2


@pytest.fixture
def reached(store: ObjectStore) -> list[str | None]:
    """How far the stream has got: the last one of these versions."""
    versions: list[str | None] = [None]
    store.follow(lambda: versions[-1])
    return versions


def test_own_objects_that_are_never_listed_do_not_stay(
    store: ObjectStore, feed: Feed, reached: list[str | None]
) -> None:
    """They are created by us, and deleted by others while the stream was broken."""
    store.put(deleted := make("deleted", 5))
    store.put(newest := make("newest", 15))
    feed(None, make("a", 3))
    assert not store.is_synced
    reached.append("10")
    store.on_listed()
    assert store.is_synced
    assert {*store} == {"uid-a", "uid-newest"}
    assert store["uid-newest"] is newest
    assert store.take_vanished() == [deleted]
    assert store.take_vanished() == []


def test_responses_from_before_the_list_are_of_the_past(
    store: ObjectStore, reached: list[str | None]
) -> None:
    reached.append("10")
    assert store.put(make("early", 5))  # it was not listed yet
    store.on_listed()
    assert not store.put(late := make("late", 7))
    assert store.take_vanished()[1:] == [late]
    assert store.put(make("new", 12))
    assert {*store} == {"uid-new"}
    assert not store.put(make("late", 6))
    assert not store.take_vanished()


def test_what_is_returned_again_is_there_though_it_is_never_streamed(
    store: ObjectStore, reached: list[str | None]
) -> None:
    """E.g. as the stream has selectors: otherwise, it would be made again and again."""
    store.on_listed()
    for version in (7, 17):
        reached.append(str(version))
        assert not store.put(make("hidden", 7)) or version > 7
        store.take_vanished()
        assert store.put(make("hidden", 7)) or version > 7
        assert store.find("ns", "hidden")
        assert not store.take_vanished()
    store.on_listed()
    assert store.take_vanished() == [make("hidden", 7)]
    assert store.put(make("hidden", 18))
    assert not store.take_vanished()


def test_versions_that_are_no_numbers_say_nothing(
    store: ObjectStore, reached: list[str | None]
) -> None:
    reached.append("abc")
    store.on_listed()
    assert store.put(make("a", "abb"))
    store.on_listed()
    assert store.find("ns", "a")


def test_those_expected_are_told_of_if_they_are_not_listed(store: ObjectStore, feed: Feed) -> None:
    known = {f"uid-{name}": make(name, 5) for name in "abc"}
    feed(None, make("a", 6))
    store.expect(known)
    feed("DELETED", {"metadata": {"name": "b", "namespace": "ns", "uid": "uid-b"}})
    assert store.former == known["uid-b"]
    assert not store.take_vanished()
    store.on_listed()
    assert store.take_vanished() == [known["uid-c"]]
    store.expect(known)
    assert store.take_vanished() == [known["uid-b"], known["uid-c"]]
    store.on_listed()
    assert not store.take_vanished()


def test_the_past_does_not_take_the_name_of_the_present(store: ObjectStore, feed: Feed) -> None:
    """Another one of the name was made and deleted by others before ours; the stream is late."""
    store.put(ours := make("a", 9))
    feed("ADDED", make("a", 5, uid="uid-other"))
    assert store.find("ns", "a") is ours
    feed("DELETED", make("a", 7, uid="uid-other"))
    feed("ADDED", make("a", 9))
    assert store.find("ns", "a") is ours


def test_older_versions_are_accepted_after_a_restoration(store: ObjectStore, feed: Feed) -> None:
    feed("ADDED", make("a", 10))
    feed("ADDED", gone := make("gone", 11))
    store.on_listed()
    store.on_reversed()
    assert not store.is_synced
    feed(None, older := make("a", 5))
    assert store["uid-a"] is older
    store.on_listed()
    assert store.is_synced
    assert store.take_vanished() == [gone]


def test_objects_are_trimmed_and_not_modified() -> None:
    store = ObjectStore(RESOURCE, transform=without_managed_fields)
    body = make("a", managedFields=[{"manager": "kubectl"}])
    Feed(store)("ADDED", body)
    assert "managedFields" not in store["uid-a"]["metadata"]
    assert "managedFields" in body["metadata"]


@pytest.mark.parametrize("owners", [None, "abc", [None], [{}], [{"uid": 1}]], ids=str)
def test_senseless_owners_are_ignored(store: ObjectStore, feed: Feed, owners: Any) -> None:
    feed("ADDED", make("a", ownerReferences=owners))
    assert len(store) == 1


def test_the_same_state_from_the_stream_replaces_nothing(store: ObjectStore, feed: Feed) -> None:
    ours = make(version=2)
    assert store.put(ours)
    feed("MODIFIED", make(version=2))
    assert store["uid-a"] is ours


def test_responses_slower_than_the_stream_are_no_news(store: ObjectStore, feed: Feed) -> None:
    feed("ADDED", make(version=2))
    assert not store.put(make(version=2))
    assert store.put(make(version=2, deletionTimestamp="2020-01-01T00:00:00Z"))
