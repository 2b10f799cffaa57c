"""Many namespaces of a kind share one cluster-wide stream, and nobody sees a difference."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from idleness import until

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.parts import ALL_OBJECTS
from kopf_cogs.structs.resources import Resource
from kopf_core.reactor.streams import feeds
from kopf_core.reactor.streams import pool as pooling
from kopf_core.reactor.streams.informers import StreamKey
from kopf_core.reactor.streams.pool import InformerPool

KEX = Resource("kopf.dev", "v1", "kopfexamples", "KopfExample", namespaced=True)
URL = "/apis/kopf.dev/v1"
ODDITIES = ("serve", "serve", "leave", "break", "compact", "pause", "renew", "rest", "rest")
MERGE = "application/merge-patch+json"


class Collector:
    """A subscriber that remembers the events of one namespace."""

    part = ALL_OBJECTS

    def __init__(self, journal: Any, namespace: str) -> None:
        self.journal = journal
        self.namespace = namespace
        self.gate = asyncio.Event()
        self.gate.set()

    def on_event(self, key: Any, event: Any) -> None:
        metadata = event["object"]["metadata"]
        assert metadata["namespace"] == self.namespace
        self.journal((self.namespace, event["type"], metadata["name"]))

    def on_listed(self) -> None:
        self.journal((self.namespace, "LISTED"))

    def on_reversed(self) -> None:
        self.journal((self.namespace, "REVERSED"))

    async def drain(self) -> None:
        await self.gate.wait()


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "MANY_NAMESPACES", 2)
    monkeypatch.setattr(pooling, "RESTART_BACKOFF", 0.01)


@pytest.fixture
async def pool(cluster: Any, settings: OperatorSettings) -> AsyncIterator[InformerPool]:
    settings.watching.reconnect_backoff = 0.01
    pool = InformerPool(cluster.client, settings)
    yield pool
    await pool.stop()


class Spaces:
    """The namespaces of a test: one letter each."""

    def __init__(self, cluster: Any, pool: InformerPool, journal: Any) -> None:
        self.cluster, self.pool, self.journal = cluster, pool, journal
        self.collectors: dict[str, Collector] = {}

    def serve(self, names: str, *, is_slow: bool = False) -> None:
        for name in names:
            self.collectors[name] = Collector(self.journal, name)
            if is_slow:
                self.collectors[name].gate.clear()
            self.pool.subscribe(StreamKey(KEX, name), self.collectors[name])

    async def leave(self, names: str) -> None:
        for name in names:
            await self.pool.unsubscribe(StreamKey(KEX, name), self.collectors.pop(name))

    async def create(self, space: str, name: str) -> None:
        body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": name}}
        await self.cluster.client.post(f"{URL}/namespaces/{space}/kopfexamples", body)

    async def change(self, space: str, name: str) -> None:
        url = f"{URL}/namespaces/{space}/kopfexamples/{name}"
        await self.cluster.client.patch(url, {"spec": {"x": 1}}, content_type=MERGE)

    async def delete(self, space: str, name: str) -> None:
        await self.cluster.client.delete(f"{URL}/namespaces/{space}/kopfexamples/{name}")

    async def listed(self, names: str) -> None:
        await self.journal.until(lambda calls: {(name, "LISTED") for name in names} <= {*calls})

    def find_requests(self, *, watch: bool) -> list[str]:
        return [
            entry.path.removeprefix(URL)
            for entry in self.cluster.sandbox.journal.select("GET")
            if entry.path.endswith("/kopfexamples") and bool(entry.watch) is watch
        ]

    def is_fed(self, names: str) -> bool:
        feed = self.pool._feeds.get(StreamKey(KEX))
        return feed is not None and {*names} <= {*feed.informers}


@pytest.fixture
async def spaces(cluster: Any, pool: InformerPool, journal: Any) -> Spaces:
    for name in "abcdz":
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await cluster.client.post("/api/v1/namespaces", body)
    return Spaces(cluster, pool, journal)


async def test_o_many_namespaces_share_one_stream(spaces: Spaces, journal: Any) -> None:
    for space in "abcz":
        await spaces.create(space, "one")
    spaces.serve("abc")
    await spaces.listed("abc")
    await spaces.create("z", "two")
    await spaces.change("a", "one")
    await spaces.delete("b", "one")
    await spaces.create("c", "two")
    await journal.until(lambda calls: ("c", "ADDED", "two") in calls)
    assert sorted(journal, key=str) == [
        ("a", "LISTED"),
        ("a", "MODIFIED", "one"),
        ("a", None, "one"),
        ("b", "DELETED", "one"),
        ("b", "LISTED"),
        ("b", None, "one"),
        ("c", "ADDED", "two"),
        ("c", "LISTED"),
        ("c", None, "one"),
    ]
    assert spaces.find_requests(watch=False) == ["/kopfexamples"]
    assert {*spaces.find_requests(watch=True)} == {"/kopfexamples"}
    informers = spaces.pool.informers
    assert {key.namespace: one.count for key, one in informers.items()} == {"a": 1, "b": 0, "c": 2}


async def test_o_a_few_namespaces_have_their_own_streams(spaces: Spaces) -> None:
    spaces.serve("ab")
    await spaces.listed("ab")
    assert not spaces.is_fed("")
    assert {*spaces.find_requests(watch=False)} == {
        f"/namespaces/{name}/kopfexamples" for name in "ab"
    }


async def test_o_namespaces_that_come_later_list_only_themselves(
    spaces: Spaces, journal: Any
) -> None:
    await spaces.create("d", "one")
    spaces.serve("abc")
    await spaces.listed("abc")
    spaces.serve("d")
    await until(lambda: spaces.is_fed("abcd"))
    await spaces.change("d", "one")
    await spaces.create("d", "two")
    await spaces.delete("d", "one")
    await journal.until(lambda calls: ("d", "DELETED", "one") in calls)
    assert [call for call in journal if call[0] == "d"] == [
        ("d", None, "one"),
        ("d", "LISTED"),
        ("d", "MODIFIED", "one"),
        ("d", "ADDED", "two"),
        ("d", "DELETED", "one"),
    ]
    assert spaces.find_requests(watch=False) == ["/kopfexamples", "/namespaces/d/kopfexamples"]


async def test_o_changes_are_seen_once_while_a_later_namespace_is_being_listed(
    spaces: Spaces, journal: Any, cluster: Any
) -> None:
    path = f"{URL}/namespaces/d/kopfexamples"
    await spaces.create("d", "one")
    spaces.serve("abc")
    await spaces.listed("abc")
    fault = cluster.sandbox.faults.fail(500, method="GET", path=path)
    spaces.serve("d")
    await spaces.create("d", "two")  # the feed brings this, and drops it
    await spaces.delete("d", "one")
    await spaces.create("a", "marker")
    await journal.until(lambda calls: ("a", "ADDED", "marker") in calls)
    fault.release()
    await until(lambda: spaces.is_fed("abcd"))
    await spaces.change("d", "two")
    await journal.until(lambda calls: ("d", "MODIFIED", "two") in calls)
    assert [call for call in journal if call[0] == "d"] == [
        ("d", None, "two"),
        ("d", "LISTED"),
        ("d", "MODIFIED", "two"),
    ]


async def test_o_the_feed_takes_over_when_a_later_namespace_has_what_the_feed_has_dropped(
    spaces: Spaces, journal: Any
) -> None:
    await spaces.create("d", "one")
    spaces.serve("abc")
    await spaces.listed("abc")
    spaces.serve("d", is_slow=True)
    await journal.until(lambda calls: ("d", None, "one") in calls)
    await spaces.change("d", "one")
    await spaces.create("a", "marker")
    await journal.until(lambda calls: ("a", "ADDED", "marker") in calls)
    spaces.collectors["d"].gate.set()
    await journal.until(lambda calls: ("d", "MODIFIED", "one") in calls)
    await until(lambda: spaces.is_fed("abcd"))
    assert journal.count(("d", "MODIFIED", "one")) == 1


async def test_o_a_late_feed_brings_nothing_that_a_later_namespace_knows(
    spaces: Spaces, journal: Any
) -> None:
    await spaces.create("d", "one")
    await spaces.create("d", "two")
    spaces.serve("abc")
    await spaces.listed("abc")
    spaces.collectors["a"].gate.clear()
    await spaces.create("a", "marker")
    await journal.until(lambda calls: ("a", "ADDED", "marker") in calls)
    await spaces.change("d", "one")  # the feed reads nothing now
    await spaces.delete("d", "two")
    spaces.serve("d")
    await until(lambda: spaces.is_fed("abcd"))
    spaces.collectors["a"].gate.set()
    await spaces.create("d", "three")
    await journal.until(lambda calls: ("d", "ADDED", "three") in calls)
    assert [call for call in journal if call[0] == "d"] == [
        ("d", None, "one"),
        ("d", "LISTED"),
        ("d", "ADDED", "three"),
    ]


async def test_o_a_later_namespace_is_listed_anew_if_the_feed_has_missed_a_deletion(
    spaces: Spaces, journal: Any, cluster: Any
) -> None:
    path = f"{URL}/kopfexamples"
    await spaces.create("d", "one")
    cluster.sandbox.faults.cut(events=1, path=path, watch=True, times=1)
    spaces.serve("abc")
    await spaces.listed("abc")
    await cluster.sandbox.journal.wait("GET", path, count=2)
    fault = cluster.sandbox.faults.fail(503, path=path, watch=True)
    await spaces.create("a", "marker")
    await journal.until(lambda calls: ("a", "ADDED", "marker") in calls)
    spaces.serve("d", is_slow=True)
    await journal.until(lambda calls: ("d", None, "one") in calls)
    await spaces.delete("d", "one")
    cluster.sandbox.compact()
    fault.release()
    await journal.until(lambda calls: calls.count(("a", "LISTED")) == 2)
    spaces.collectors["d"].gate.set()
    await journal.until(lambda calls: ("d", "DELETED", "one") in calls)
    await until(lambda: spaces.is_fed("abcd"))


async def test_o_nothing_is_lost_when_the_feed_begins_and_ends(
    spaces: Spaces, journal: Any
) -> None:
    await spaces.create("a", "one")
    await spaces.create("a", "two")
    spaces.serve("ab")
    await spaces.listed("ab")
    await spaces.delete("a", "one")
    spaces.serve("c")
    await until(lambda: spaces.is_fed("abc"))
    await journal.until(lambda calls: ("a", "DELETED", "one") in calls)
    await spaces.listed("c")
    await spaces.leave("bc")
    await spaces.delete("a", "two")
    await journal.until(lambda calls: ("a", "DELETED", "two") in calls)
    assert not spaces.is_fed("")
    await spaces.create("a", "three")
    await journal.until(lambda calls: ("a", "ADDED", "three") in calls)
    assert [call for call in journal if call[1] == "DELETED"] == [
        ("a", "DELETED", "one"),
        ("a", "DELETED", "two"),
    ]


async def test_o_namespaces_have_their_own_streams_if_the_cluster_may_not_be_watched(
    spaces: Spaces, journal: Any, cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.sandbox.faults.fail(403, method="GET", path=f"{URL}/kopfexamples")
    await spaces.create("a", "one")
    spaces.serve("abc")
    await spaces.listed("abc")
    await spaces.create("c", "two")
    await journal.until(lambda calls: ("c", "ADDED", "two") in calls)
    assert not spaces.is_fed("")
    assert spaces.find_requests(watch=False).count("/kopfexamples") == 1
    texts = [record.getMessage() for record in caplog.records]
    assert len([text for text in texts if "each namespace has its own watch-stream" in text]) == 1


async def test_o_after_a_pause_all_is_listed_by_one_stream_again(
    spaces: Spaces, journal: Any
) -> None:
    await spaces.create("a", "one")
    spaces.serve("abc")
    await spaces.listed("abc")
    spaces.pool.reach(is_watching=False)
    await spaces.pool.settle()
    await spaces.delete("a", "one")
    await spaces.create("b", "two")
    spaces.pool.reach(is_watching=True)
    await journal.until(lambda calls: ("a", "DELETED", "one") in calls)
    await journal.until(lambda calls: ("b", None, "two") in calls)
    assert spaces.find_requests(watch=False) == ["/kopfexamples"] * 2


async def test_o_a_renewed_namespace_renews_all_by_one_list(spaces: Spaces, journal: Any) -> None:
    await spaces.create("a", "one")
    spaces.serve("abc")
    await spaces.listed("abc")
    for name in "abc":
        spaces.pool.renew(StreamKey(KEX, name))
    await journal.until(lambda calls: calls.count(("a", None, "one")) == 2)
    assert spaces.find_requests(watch=False) == ["/kopfexamples"] * 2


class Model:
    """Checks the events of one namespace: what exists, and that no state comes back."""

    part = ALL_OBJECTS

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.versions: dict[str, int] = {}
        self.gone: set[str] = set()
        self.problems: list[str] = []

    def on_event(self, key: Any, event: Any) -> None:
        metadata = event["object"]["metadata"]
        uid = metadata["uid"]
        if metadata["namespace"] != self.namespace:
            self.problems.append(f"{metadata['namespace']} came to {self.namespace}")
        if uid in self.gone:
            self.problems.append(f"{event['type']} after the deletion of {metadata['name']}")
        if event["type"] == "DELETED":
            self.gone.add(uid)
            self.versions.pop(uid, None)
            return
        version = int(metadata["resourceVersion"])
        if version < self.versions.get(uid, 0):
            self.problems.append(f"an older state of {metadata['name']}")
        if event["type"] == "ADDED" and uid in self.versions:
            self.problems.append(f"{metadata['name']} was added twice")
        self.versions[uid] = version

    def on_listed(self) -> None:
        """Nothing is to be checked: the objects are compared in the end."""

    def on_reversed(self) -> None:
        self.problems.append("the versions went back")

    async def drain(self) -> None:
        await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(12))
async def test_o_whatever_happens_each_namespace_has_exactly_its_objects(
    spaces: Spaces, cluster: Any, seed: int
) -> None:
    dice, models, objects = random.Random(seed), dict[str, Model](), dict[tuple[str, str], str]()

    async def act(number: int) -> None:
        space = dice.choice("abcdz")
        names = [name for where, name in objects if where == space]
        match dice.choice(["create", "create", "change", "change", "delete", *ODDITIES]):
            case "create":
                await spaces.create(space, f"o{number}")
                objects[space, f"o{number}"] = space
            case "change" if names:
                await spaces.change(space, dice.choice(names))
            case "delete" if names:
                name = dice.choice(names)
                await spaces.delete(space, name)
                del objects[space, name]
            case "serve" if space not in models and space != "z":
                models[space] = Model(space)
                spaces.pool.subscribe(StreamKey(KEX, space), models[space])
            case "leave" if space in models:
                left = models.pop(space)
                await spaces.pool.unsubscribe(StreamKey(KEX, space), left)
                assert not left.problems
            case "break":
                cluster.sandbox.faults.cut(events=1, watch=True, times=1, path="*/kopfexamples")
            case "compact":
                cluster.sandbox.compact()
            case "pause":
                spaces.pool.reach(is_watching=False)
                await spaces.pool.settle()
                spaces.pool.reach(is_watching=True)
            case "renew" if space in models:
                spaces.pool.renew(StreamKey(KEX, space))
            case "rest":
                for _ in range(dice.randrange(100)):
                    await asyncio.sleep(0)

    for number in range(120):
        await act(number)
    for space in {*"abcd"} - models.keys():
        models[space] = Model(space)
        spaces.pool.subscribe(StreamKey(KEX, space), models[space])

    def is_known() -> bool:
        informers = spaces.pool.informers.items()
        found = {(key.namespace, name) for key, one in informers for (_, name), _ in one.names}
        return found == {place for place in objects if place[0] != "z"}

    await until(is_known)
    counts = {space: sum(where == space for where, _ in objects) for space in models}
    await until(lambda: {space: len(one.versions) for space, one in models.items()} == counts)
    assert [problem for one in models.values() for problem in one.problems] == []
