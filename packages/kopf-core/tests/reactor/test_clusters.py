"""One process for several clusters: over HTTP, with a sandbox for each of them."""

import asyncio
import contextlib
import json
import logging
import random
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from free_ports import find_free_port
from idleness import until

from kopf_cogs.clients.session import Client
from kopf_cogs.structs.credentials import ConnectionInfo, LoginError
from kopf_core.actions import api
from kopf_core.actions.errors import TemporaryError
from kopf_core.actions.happenings import trigger
from kopf_core.engines.posting import info
from kopf_core.engines.serving.status_endpoint import REQUESTS
from kopf_core.intents import decorators as on
from kopf_core.reactor.life import operator_status
from kopf_core.reactor.life.clusters import Cluster
from kopf_core.reactor.life.exiting import AbandonedError
from kopf_core.reactor.process import keepers
from kopf_core.reactor.process.fleet import Fleet
from kopf_core.reactor.process.operator_arguments import choose_options
from kopf_core.reactor.process.running import operator
from kopf_core.reactor.process.supervising import supervise
from kopf_core.reactor.shape.preflight import SettingsError, SignatureError

sandboxes = pytest.importorskip("kopf_kits.sandbox")
natures = pytest.importorskip("kopf_kits.sandbox.base.nature")

KEXES = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
MERGE = "application/merge-patch+json"
NOWHERE = "http://127.0.0.1:1"


class Place:
    """A cluster, with a client of it that is not the operator's one."""

    def __init__(self, sandbox: Any, client: Client) -> None:
        self.sandbox = sandbox
        self.client = client

    async def create(self, name: str, **spec: Any) -> Any:
        body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample"}
        return await self.client.post(KEXES, {**body, "metadata": {"name": name}, "spec": spec})

    async def get(self, name: str) -> Any:
        return await self.client.get(f"{KEXES}/{name}")


@pytest.fixture
async def make_place(make_definition) -> AsyncIterator[Callable[..., Any]]:
    """Clusters of one nature: the first, second, etc objects of each have the same uids."""
    async with contextlib.AsyncExitStack() as stack:

        async def make_place() -> Place:
            nature = natures.Nature(chance=random.Random(1))
            options = sandboxes.ClusterOptions(nature=nature)
            sandbox = await stack.enter_async_context(sandboxes.Sandbox(options=options))
            await sandbox.apply(make_definition("v1"))
            client = await stack.enter_async_context(Client(ConnectionInfo(server=sandbox.url)))
            return Place(sandbox, client)

        yield make_place


@pytest.fixture
async def a(make_place) -> Place:
    return await make_place()


@pytest.fixture
async def b(make_place) -> Place:
    return await make_place()


def describe(name: str, server: str) -> Cluster:
    return Cluster(name, login=lambda **_: ConnectionInfo(server=server))


def name(**places: Place) -> list[Cluster]:
    return [describe(key, place.sandbox.url) for key, place in places.items()]


@pytest.fixture
def serve(registry, settings):
    """Run an operator for these clusters; its errors are raised in the end."""
    settings.posting.enabled = False

    @contextlib.asynccontextmanager
    async def serve(clusters: Any, **kwargs: Any) -> AsyncIterator[Fleet]:
        kwargs = {"registry": registry, "settings": settings, "clusterwide": True, **kwargs}
        fleet = Fleet(choose_options({"clusters": clusters, **kwargs}))
        task = asyncio.create_task(supervise(fleet))
        try:
            yield fleet
        finally:
            fleet.stop()
            async with asyncio.timeout(60):
                await task

    return serve


class Provider:
    """A provider of clusters, which tests change."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue()

    def set(self, *clusters: Cluster) -> None:
        self._queue.put_nowait(clusters)

    def fail(self) -> None:
        self._queue.put_nowait(None)

    async def __call__(self, **_: Any) -> AsyncIterator[Any]:
        while True:
            clusters = await self._queue.get()
            if clusters is None:
                raise ConnectionError("the provider is broken")
            yield clusters


async def test_o_objects_of_the_same_uid_and_name_never_mix(a, b, serve, registry, journal):
    @on.create("kopfexamples", registry=registry)
    async def create_fn(cluster, uid, name, spec, memo, patch, **_):
        memo.seen = [*getattr(memo, "seen", []), cluster]
        patch.status["cluster"] = cluster
        patch.status["others"] = [obj["spec"] for obj in await api.list("kopfexamples")]
        journal((cluster, uid, name, dict(spec)))

    @on.update("kopfexamples", registry=registry)
    def update_fn(cluster, memo, old, new, **_):
        journal((cluster, memo.seen, old["spec"], new["spec"]))

    created = [await a.create("obj", x=1), await b.create("obj", x=2)]
    uids = {one["metadata"]["uid"] for one in created}
    assert len(uids) == 1
    (uid,) = uids
    async with serve(name(a=a, b=b)):
        await journal.until(lambda seen: len(seen) == 2)
        assert sorted(journal) == [("a", uid, "obj", {"x": 1}), ("b", uid, "obj", {"x": 2})]
        for place, value in ((a, 3), (b, 4)):
            await place.client.patch(f"{KEXES}/obj", {"spec": {"x": value}}, content_type=MERGE)
        await journal.until(lambda seen: len(seen) == 4)
    assert sorted(journal[2:]) == [
        ("a", ["a"], {"x": 1}, {"x": 3}),
        ("b", ["b"], {"x": 2}, {"x": 4}),
    ]
    for place, key, x in ((a, "a", 1), (b, "b", 2)):
        status = (await place.get("obj"))["status"]
        assert (status["cluster"], status["others"]) == (key, [{"x": x}])


async def test_o_indices_are_of_one_cluster(a, b, serve, registry, journal):
    @on.index("kopfexamples", id="by_x", registry=registry)
    def by_x(cluster, spec, **_):
        return {spec["x"]: cluster}

    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, by_x, **_):
        journal((cluster, {key: [*values] for key, values in by_x.items()}))

    await a.create("obj", x=1)
    await b.create("obj", x=2)
    async with serve(name(a=a, b=b)):
        await journal.until(lambda seen: len(seen) == 2)
    assert sorted(journal) == [("a", {1: ["a"]}), ("b", {2: ["b"]})]


async def test_o_a_cluster_that_is_down_leaves_the_others_alone(
    a, b, serve, registry, journal, caplog
):
    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, name, **_):
        journal((cluster, name))

    await a.create("obj")
    down = describe("down", NOWHERE)
    async with serve([*name(a=a), down]) as fleet:
        await journal.until(lambda seen: ("a", "obj") in seen)
        await a.create("later")
        await journal.until(lambda seen: ("a", "later") in seen)
        assert {*fleet._keepers} == {"a", "down"}
        assert fleet._status.find_unready() == []
        assert fleet._status.find_problems() == []
    assert all(
        record.k8s_cluster == "down" for record in caplog.records if NOWHERE in record.message
    )


async def test_o_a_cluster_comes_up_later(
    a, b, serve, registry, settings, journal, caplog, monkeypatch
):
    monkeypatch.setattr(keepers, "RESTARTING", 0)
    settings.networking.error_backoffs = ()

    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, name, **_):
        journal((cluster, name))

    await a.create("obj")
    await b.create("obj")
    b.sandbox.faults.drop()
    async with serve(name(a=a, b=b)):
        await journal.until(lambda seen: ("a", "obj") in seen)
        await until(lambda: "Cluster b is not served: " in caplog.text)
        b.sandbox.faults.clear()
        await journal.until(lambda seen: {*seen} == {("a", "obj"), ("b", "obj")})


async def test_o_a_cluster_goes_down_and_comes_back(a, b, serve, registry, settings, journal):
    settings.networking.error_backoffs = ()
    settings.watching.reconnect_backoff = 0

    @on.event("kopfexamples", registry=registry)
    def event_fn(cluster, name, **_):
        journal((cluster, name))

    async with serve(name(a=a, b=b)) as fleet:
        await b.create("before")
        await journal.until(lambda seen: ("b", "before") in seen)
        with b.sandbox.faults.drop(method="GET"):
            b.sandbox.cut_watches()
            await a.create("meanwhile")
            await journal.until(lambda seen: ("a", "meanwhile") in seen)
            await b.create("meanwhile")
        await journal.until(lambda seen: ("b", "meanwhile") in seen)
        assert {*fleet._keepers} == {"a", "b"}


async def test_o_clusters_are_added_and_removed_under_load(
    make_place, a, b, serve, registry, journal
):
    @on.create("kopfexamples", registry=registry)
    async def create_fn(cluster, name, **_):
        journal((cluster, name))

    async def load(place: Place, count: int) -> None:
        for number in range(count):
            await place.create(f"obj-{number}")

    places = {"a": a, "b": b, "c": await make_place()}
    provider = Provider()
    provider.set(*name(a=a))
    async with serve(provider) as fleet:
        loading = [asyncio.create_task(load(place, 40)) for place in places.values()]
        await journal.until(lambda seen: len(seen) > 5)
        provider.set(*name(**places))
        await journal.until(lambda seen: {one for one, _ in seen} == {"a", "b", "c"})
        provider.set(*name(a=a, c=places["c"]))
        await until(lambda: {*fleet._keepers} == {"a", "c"})
        await asyncio.gather(*loading)
        handled = len(await _list_handled(b))
        await journal.until(lambda seen: len([1 for one, _ in seen if one != "b"]) == 80)
        provider.set(*name(**places))
        await journal.until(lambda seen: len(seen) == 120)
    assert len({*journal}) == 120
    assert handled <= 40


async def _list_handled(place: Place) -> list[Any]:
    mark = "kopf.zalando.org/last-handled-configuration"
    items = (await place.client.get(KEXES))["items"]
    return [one for one in items if mark in one["metadata"].get("annotations", {})]


async def test_o_nothing_is_requested_from_a_removed_cluster(a, b, serve, registry, journal):
    @on.event("kopfexamples", registry=registry)
    def event_fn(cluster, name, **_):
        journal((cluster, name))

    provider = Provider()
    provider.set(*name(a=a, b=b))
    async with serve(provider) as fleet:
        await a.create("obj")
        await b.create("obj")
        await journal.until(lambda seen: {*seen} == {("a", "obj"), ("b", "obj")})
        provider.set(*name(a=a))
        await until(lambda: {*fleet._keepers} == {"a"})
        await b.create("later")
        await a.create("later")
        await journal.until(lambda seen: ("a", "later") in seen)
    assert ("b", "later") not in journal


async def test_o_clusters_remain_when_their_provider_fails(a, serve, registry, journal, caplog):
    @on.event("kopfexamples", registry=registry)
    def event_fn(cluster, name, **_):
        journal((cluster, name))

    provider = Provider()
    provider.set(*name(a=a))
    async with serve(provider):
        await until(lambda: provider._queue.empty())
        provider.fail()
        await until(
            lambda: "The provider of clusters has failed: the provider is broken" in caplog.text
        )
        await a.create("obj")
        await journal.until(lambda seen: ("a", "obj") in seen)


async def test_o_startup_and_cleanup_are_of_the_process(a, b, serve, registry, journal):
    @on.startup(registry=registry)
    def startup_fn(settings, memo, **kwargs):
        assert "cluster" not in kwargs
        memo.name, settings.name = "shared", "op.example.com"
        journal("startup")

    @on.cleanup(registry=registry)
    def cleanup_fn(memo, **_):
        journal(f"cleanup {memo.name}")

    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, memo, **_):
        journal(f"{cluster} {memo.name}")

    await a.create("obj")
    await b.create("obj")
    async with serve(name(a=a, b=b)):
        await journal.until(lambda seen: len(seen) == 3)
    assert journal[0] == "startup"
    assert sorted(journal[1:3]) == ["a shared", "b shared"]
    assert journal[3:] == ["cleanup shared"]


async def test_o_logins_know_their_cluster(a, b, serve, registry, journal):
    urls = {"a": a.sandbox.url, "b": b.sandbox.url}

    @on.login(registry=registry)
    def login_fn(cluster, settings, **_):
        assert settings.cluster == cluster
        return ConnectionInfo(server=urls[cluster])

    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, **_):
        journal(cluster)

    await a.create("obj")
    await b.create("obj")
    async with serve(["a", "b"]):
        await journal.until(lambda seen: {*seen} == {"a", "b"})


@pytest.fixture
def kubeconfig(tmp_path, monkeypatch):
    """A kubeconfig with these contexts; the last one is the current one."""

    def write(**urls: str) -> None:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": [*urls][-1],
            "contexts": [{"name": key, "context": {"cluster": key, "user": "u"}} for key in urls],
            "clusters": [{"name": key, "cluster": {"server": url}} for key, url in urls.items()],
            "users": [{"name": "u", "user": {"token": "tok"}}],
        }
        (tmp_path / "config").write_text(json.dumps(content))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

    return write


async def test_o_names_are_contexts_by_default(a, b, serve, registry, journal, kubeconfig):
    kubeconfig(a=a.sandbox.url, b=b.sandbox.url)

    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, spec, **_):
        journal((cluster, spec["x"]))

    await a.create("obj", x=1)
    await b.create("obj", x=2)
    async with serve(["a", Cluster("second", context="b")]):
        await journal.until(lambda seen: len(seen) == 2)
    assert sorted(journal) == [("a", 1), ("second", 2)]


async def test_o_unknown_contexts_end_the_operator_at_once(serve, kubeconfig, registry, journal):
    kubeconfig(a=NOWHERE)
    on.startup(registry=registry)(lambda **_: journal("startup"))
    with pytest.raises(LoginError, match="absent"):
        async with serve(["a", "absent"]) as fleet:
            await fleet.exit.requested.wait()
    assert journal == []


async def test_o_external_happenings_reach_all_clusters(a, b, serve, registry, journal):
    @on.reconcile("kopfexamples", registry=registry)
    async def reconcile_fn(cluster, triggers, **_):
        journal((cluster, *sorted(one.subject for one in triggers)))
        return []

    await a.create("obj")
    await b.create("obj")
    async with serve(name(a=a, b=b)):
        await journal.until(lambda seen: {one[0] for one in seen} == {"a", "b"})
        journal.clear()
        trigger("kopfexamples", "obj", reason="from outside")
        await journal.until(lambda seen: len(seen) == 2)
    assert sorted(journal) == [("a", "from outside"), ("b", "from outside")]


async def test_o_exits_of_handlers_end_the_process(a, b, serve, registry):
    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, **_):
        if cluster == "b":
            raise SystemExit(3)

    await a.create("obj")
    await b.create("obj")
    with pytest.raises(Exception) as info:
        async with serve(name(a=a, b=b)) as fleet:
            await fleet.exit.requested.wait()
    assert info.value.code == 3


async def test_o_logs_name_the_cluster(a, b, serve, registry, caplog):
    caplog.set_level(logging.INFO)

    @on.create("kopfexamples", registry=registry)
    def create_fn(logger, **_):
        logging.getLogger("users").info("from the function")
        logger.info("from the logger")

    await a.create("obj")
    await b.create("obj")
    async with serve(name(a=a, b=b)):
        await until(lambda: caplog.text.count("Creation is processed") == 2)
    for text in ("from the function", "from the logger", "Creation is processed"):
        marks = [one.k8s_cluster for one in caplog.records if text in one.message]
        assert sorted(marks) == ["a", "b"]
    assert logging.getLogRecordFactory() is logging.LogRecord


async def test_o_webhooks_are_refused(a, serve, registry):
    on.validate("kopfexamples", registry=registry)(lambda **_: None)
    with pytest.raises(SettingsError, match="Webhooks and conversions do not work with several"):
        async with serve(name(a=a)) as fleet:
            await fleet.exit.requested.wait()


async def test_o_one_cluster_gives_no_cluster_to_handlers(operate, registry):
    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, **_):
        pass

    with pytest.raises(SignatureError, match=r"only if there are several clusters: .*=None"):
        async with operate() as one:
            await one.exit.requested.wait()


@pytest.mark.parametrize(
    ("clusters", "problem"),
    [
        ("a", "not one name: 'a'"),
        (["a", "a"], "must differ; they are: a, a"),
        ([""], "is a text, not ''"),
        ([None], "is a text, not None"),
    ],
)
async def test_o_senseless_clusters_are_refused(clusters, problem):
    with pytest.raises(TypeError, match=problem):
        await operator(clusters=clusters, clusterwide=True)


async def test_o_credentials_of_one_cluster_are_refused():
    with pytest.raises(TypeError, match="Either clusters= or vault= can be passed"):
        await operator(clusters=["a"], clusterwide=True, vault=object())  # type: ignore[arg-type]


async def test_o_startup_has_no_cluster_to_ask(a, serve, registry, journal):
    @on.startup(registry=registry)
    async def startup_fn(**_):
        with pytest.raises(LookupError, match="here are several"):
            await api.get("namespaces", "default")
        journal("refused")

    async with serve(name(a=a)):
        await journal.until(lambda seen: len(seen) == 1)


async def test_o_leases_are_of_each_cluster(a, b, serve, registry, settings, journal):
    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, **_):
        journal(cluster)

    settings.leasing.name, settings.leasing.namespace = "op", "default"
    await a.create("obj")
    await b.create("obj")
    async with serve(name(a=a, b=b)):
        await journal.until(lambda seen: {*seen} == {"a", "b"})
        for place in (a, b):
            url = "/apis/coordination.k8s.io/v1/namespaces/default/leases/op"
            assert (await place.client.get(url))["spec"]["holderIdentity"]


async def test_o_shards_are_of_each_cluster(a, b, serve, registry, settings, journal):
    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, **_):
        journal(cluster)

    settings.sharding.name, settings.sharding.namespace = "op", "default"
    settings.sharding.retry_period = 0.01
    await a.create("obj")
    await b.create("obj")
    async with serve(name(a=a, b=b)):
        await journal.until(lambda seen: {*seen} == {"a", "b"})


async def test_o_events_are_posted_in_their_cluster(a, b, serve, registry, settings):
    settings.posting.enabled = True

    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, body, **_):
        info(body, reason="Created", message=f"This is {cluster}.")

    async def get_messages(place: Place) -> set[str]:
        events = await place.client.get("/api/v1/namespaces/default/events")
        return {one["message"] for one in events["items"]}

    async def are_posted() -> bool:
        found = [await get_messages(place) for place in (a, b)]
        return found == [{"This is a."}, {"This is b."}]

    await a.create("obj")
    await b.create("obj")
    async with serve(name(a=a, b=b)):
        await until(are_posted)


@pytest.fixture
async def look(settings, monkeypatch):
    """Request a path of the endpoints."""
    monkeypatch.setattr(operator_status, "CACHE_TIME", 0)
    settings.serving.endpoint = f"http://127.0.0.1:{find_free_port()}"
    settings.serving.status = f"http://127.0.0.1:{find_free_port()}"
    async with aiohttp.ClientSession() as session:

        async def look(path: str) -> tuple[int, str]:
            serving = settings.serving
            url = serving.status if path.startswith("/status") else serving.endpoint
            try:
                async with session.get(url + path) as response:
                    return response.status, await response.text()
            except aiohttp.ClientConnectorError:
                return 0, "it does not listen yet"

        yield look


async def test_o_status_names_the_clusters(a, b, serve, registry, journal, look):
    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, **_):
        journal(cluster)
        if cluster == "b":
            raise TemporaryError("not yet", delay=3600)

    async def get_status() -> Any:
        code, text = await look("/status.json")
        status = json.loads(text) if code == 200 else {}
        return status if status.get("retries") else None

    await a.create("obj")
    await b.create("obj")
    async with serve([*name(a=a, b=b), describe("down", NOWHERE)]):
        await journal.until(lambda seen: len(seen) == 2)
        status = await until(get_status)
        _, page = await look("/status")
    states = {one["cluster"]: (one["is_ready"], one["objects"] > 0) for one in status["clusters"]}
    assert states == {"a": (True, True), "b": (True, True), "down": (False, False)}
    assert [(one["cluster"], one["name"]) for one in status["retries"]] == [("b", "obj")]
    assert {(one["cluster"], one["resource"]) for one in status["streams"]} >= {
        ("a", "kopfexamples.kopf.dev"),
        ("b", "kopfexamples.kopf.dev"),
    }
    errors = {(one["cluster"], one["logger"]): one["message"] for one in status["errors"]}
    assert sorted(errors) == [("b", "kopf.objects"), ("down", REQUESTS)]
    assert "not yet" in errors["b", "kopf.objects"]
    assert not status["is_paused"]
    assert any(text.startswith("cluster down: ") for text in status["unready"])
    for text in ("<h2>Clusters</h2>", "<th>cluster</th>", "<td>down</td>", "is not ready"):
        assert text in page


async def test_o_metrics_name_the_clusters(a, b, serve, registry, journal, look):
    pytest.importorskip("prometheus_client")

    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, **_):
        journal(cluster)

    async def get_metrics() -> str | None:
        _, text = await look("/metrics")
        attempts = [line for line in text.splitlines() if "handler_seconds_count{" in line]
        return text if len(attempts) == 2 else None

    await a.create("obj")
    await b.create("obj")
    async with serve(name(a=a, b=b)):
        await journal.until(lambda seen: len(seen) == 2)
        text = await until(get_metrics)
    lines = text.splitlines()
    for key in ("a", "b"):
        own = [line for line in lines if f'cluster="{key}"' in line]
        assert f'kopf_ready{{cluster="{key}"}} 1.0' in own
        for metric in ("kopf_objects", "kopf_request_seconds_count", "kopf_handler_seconds_count"):
            assert any(line.startswith(f"{metric}{{") for line in own)
    assert len([line for line in lines if line.startswith("# HELP kopf_objects ")]) == 1
    assert len([line for line in lines if line.startswith("python_info")]) == 1


async def test_o_probes_fail_only_if_all_clusters_fail(a, serve, registry, journal, look):
    on.event("kopfexamples", registry=registry)(lambda **_: None)

    async def get_unready() -> Any:
        code, text = await look("/readyz")
        return json.loads(text)["unready"] if code == 503 else None

    provider = Provider()
    provider.set(describe("down", NOWHERE))
    async with serve(provider):
        unready = await until(get_unready)
        assert all(text.startswith("cluster down: ") for text in unready)
        provider.set(*name(a=a), describe("down", NOWHERE))

        async def is_ready() -> bool:
            return (await look("/readyz"))[0] == 200

        await until(is_ready)
        assert (await look("/livez"))[0] == 200


async def test_o_clusters_share_the_threads(a, b, serve, registry, settings, journal):
    settings.execution.max_workers = 1

    @on.create("kopfexamples", registry=registry)
    def create_fn(**_):
        journal(threading.current_thread().name)

    provider = Provider()
    provider.set(*name(a=a, b=b))
    await a.create("obj")
    await b.create("obj")
    async with serve(provider) as fleet:
        await journal.until(lambda seen: len(seen) == 2)
        provider.set(*name(a=a))
        await until(lambda: {*fleet._keepers} == {"a"})
        await a.create("later")
        await journal.until(lambda seen: len(seen) == 3)
    assert len({*journal}) == 1


async def test_o_the_second_exit_interrupts_the_handlers(a, b, serve, registry, journal):
    @on.create("kopfexamples", registry=registry)
    async def create_fn(cluster, **_):
        journal(cluster)
        try:
            await asyncio.Event().wait()
        finally:
            journal(f"{cluster} is interrupted")

    await a.create("obj")
    await b.create("obj")
    async with serve(name(a=a, b=b)) as fleet:
        await journal.until(lambda seen: len(seen) == 2)
        assert fleet.exit.describe().count("of kopfexamples.v1.kopf.dev default/obj in ") == 2
        fleet.stop()
        fleet.abort()
    assert sorted(journal[2:]) == ["a is interrupted", "b is interrupted"]


async def test_o_a_removed_cluster_lets_its_handlers_finish(a, b, serve, registry, journal):
    gate = asyncio.Event()

    @on.create("kopfexamples", registry=registry)
    async def create_fn(cluster, patch, **_):
        journal(cluster)
        await gate.wait()
        patch.status["done"] = True

    provider = Provider()
    provider.set(*name(a=a, b=b))
    await b.create("obj")
    async with serve(provider) as fleet:
        await journal.until(lambda seen: seen == ["b"])
        provider.set(*name(a=a))
        await until(lambda: fleet._keepers["b"]._cluster is None)
        gate.set()
        await until(lambda: {*fleet._keepers} == {"a"})
        assert (await b.get("obj"))["status"] == {"done": True}


async def test_o_abandoned_handlers_are_named_with_their_cluster(
    a, b, serve, registry, settings, journal, caplog
):
    settings.process.ultimate_exiting_timeout = 0.1
    gate = threading.Event()

    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, **_):
        journal(cluster)
        gate.wait()

    await b.create("obj")
    try:
        with pytest.raises(AbandonedError, match="the handlers of cluster b"):
            async with serve(name(a=a, b=b)):
                await journal.until(lambda seen: seen == ["b"])
    finally:
        gate.set()
    assert "create_fn" in caplog.text


async def test_o_a_cluster_comes_back_while_it_is_left(a, b, serve, registry, journal, caplog):
    gate = asyncio.Event()

    @on.create("kopfexamples", registry=registry)
    async def create_fn(cluster, name, **_):
        journal(name)
        await gate.wait()

    provider = Provider()
    provider.set(*name(a=a, b=b))
    await b.create("obj")
    async with serve(provider) as fleet:
        await journal.until(lambda seen: seen == ["obj"])
        provider.set(*name(a=a))
        await until(lambda: fleet._keepers["b"]._cluster is None)
        provider.set(*name(a=a, b=b))
        await until(lambda: fleet._keepers["b"]._cluster is not None)
        gate.set()
        await b.create("later")
        await journal.until(lambda seen: seen == ["obj", "later"])
    assert "is not served: " not in caplog.text


async def test_o_another_cluster_of_the_same_name(a, b, serve, registry, journal, tmp_path):
    @on.create("kopfexamples", registry=registry)
    def create_fn(cluster, spec, **_):
        journal((cluster, spec["x"]))

    files = {tmp_path / "a": a, tmp_path / "b": b}
    paths = [place.sandbox.write_kubeconfig(path) for path, place in files.items()]
    provider = Provider()
    provider.set(Cluster("one", kubeconfig=paths[0]))
    await a.create("obj", x=1)
    await b.create("obj", x=2)
    async with serve(provider):
        await journal.until(lambda seen: seen == [("one", 1)])
        provider.set(Cluster("one", kubeconfig=paths[1]))
        await journal.until(lambda seen: seen == [("one", 1), ("one", 2)])


async def test_o_exits_during_logins_do_not_wait(a, serve, registry, journal):
    gate = threading.Event()

    def log_in(**_):
        journal("logs in")
        gate.wait()

    try:
        async with serve([*name(a=a), Cluster("b", login=log_in)]):
            await journal.until(lambda seen: seen)
    finally:
        gate.set()


async def test_o_no_cluster_is_added_at_the_exit(a, b, serve, registry, journal):
    gate = asyncio.Event()

    @on.create("kopfexamples", registry=registry)
    async def create_fn(cluster, **_):
        journal(cluster)
        await gate.wait()

    provider = Provider()
    provider.set(*name(a=a))
    await a.create("obj")
    await b.create("obj")
    async with serve(provider) as fleet:
        await journal.until(lambda seen: seen == ["a"])
        fleet.stop()
        provider.set(*name(a=a, b=b))
        await until(lambda: provider._queue.empty())
        assert {*fleet._keepers} == {"a"}
        gate.set()
    assert journal == ["a"]


async def test_o_traces_name_the_clusters(a, b, serve, registry, journal, monkeypatch):
    trace = pytest.importorskip("opentelemetry.trace")
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    exporting = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(exporting.SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)

    @on.create("kopfexamples", id="fn", registry=registry)
    def create_fn(cluster, **_):
        journal(cluster)

    await a.create("obj")
    await b.create("obj")
    async with serve(name(a=a, b=b)):
        await journal.until(lambda seen: {*seen} == {"a", "b"})
    spans = exporter.get_finished_spans()
    for beginning in ("turn ", "handler fn", "GET", "PATCH"):
        places = {
            span.attributes.get("k8s.cluster.name")
            for span in spans
            if span.name.startswith(beginning)
        }
        assert places == {"a", "b"}, beginning
