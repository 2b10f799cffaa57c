"""The endpoint of a running operator, over real HTTP."""

import asyncio
import datetime
import json
import threading
from dataclasses import fields

import aiohttp
import pytest
from free_ports import find_free_port
from idleness import until
from virtual_time import jump

from kopf_core.actions.errors import PermanentError, TemporaryError
from kopf_core.engines.admission import reviewing
from kopf_core.engines.serving import Snapshot, StatusSetupError
from kopf_core.engines.serving.endpoint import PERIOD
from kopf_core.engines.serving.snapshots import NOT_SHOWN
from kopf_core.intents import decorators as on
from kopf_core.reactor.life import operator_status

FORBIDDEN = 'configmaps is forbidden: User "op" cannot list resource "configmaps" in API group ""'


def find_url():
    return f"http://127.0.0.1:{find_free_port()}"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """The status is that of now, not of a second ago; the exit expects no more of webhooks."""
    monkeypatch.setattr(operator_status, "CACHE_TIME", 0)
    monkeypatch.setattr(reviewing, "QUIET_TIME", 0)


@pytest.fixture
async def get(settings):
    """Request a path of the endpoints; they can be not there yet."""
    settings.serving.endpoint = find_url()
    settings.serving.status = find_url()
    async with aiohttp.ClientSession() as session:

        async def get(path, **headers):
            serving = settings.serving
            url = serving.status if path.startswith("/status") else serving.endpoint
            while True:
                try:
                    async with session.get(url + path, headers=headers) as response:
                        return response.status, await response.text()
                except aiohttp.ClientConnectorError:
                    await asyncio.sleep(0)

        yield get


async def until_ready(get):
    async def is_ready():
        return (await get("/readyz"))[0] == 200

    await until(is_ready)


async def hand_over(cluster):
    """Give the lease to a holder that keeps it for long."""
    url = "/apis/coordination.k8s.io/v1/namespaces/default/leases/op"
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 999999, "renewTime": None}
    await cluster.client.patch(url, {"spec": spec}, content_type="application/merge-patch+json")


async def test_i_status_of_a_working_operator(cluster, operate, registry, journal, get, clock):
    @on.create("kopfexamples", id="fail", registry=registry)
    def fail(**_):
        journal("called")
        raise TemporaryError("<b>not yet</b>", delay=999)

    @on.timer("kopfexamples", id="tick", registry=registry, interval=999)
    def tick(**_):
        pass

    @on.index("kopfexamples", id="names", registry=registry)
    def names(name, **_):
        return {name: 1}

    await cluster.create("one")
    async with operate() as operator:
        await until_ready(get)
        await journal.until(lambda j: j)

        async def get_status():
            status = json.loads((await get("/status.json"))[1])
            return status if status["retries"] else None

        status = await until(get_status)
        _, page = await get("/status")
        assert operator.handling.pool.informers

    of_several = {"processes", "clusters", "shards"}
    assert set(status) == {field.name for field in fields(Snapshot)} - of_several
    (stream,) = (s for s in status["streams"] if s["resource"] == "kopfexamples.kopf.dev")
    assert (stream["objects"], stream["is_listed"], stream["lists"]) == (1, True, 1)
    (retry,) = status["retries"]
    assert retry.pop("delayed") is not None
    assert retry == {
        "resource": "kopfexamples.kopf.dev",
        "namespace": "default",
        "name": "one",
        "handler": "fail",
        "retries": 1,
        "message": "<b>not yet</b>",
    }
    assert status["pending_retries"] == 1
    assert status["indices"] == {"names": 1}
    assert [(b["kind"], b["handler"], b["waiting"]) for b in status["background"]] == [
        ("timer", "tick", 1)
    ]
    [message] = [e["message"] for e in status["errors"] if "not yet" in e["message"]]
    assert message.startswith("KopfExample default/one: Handler 'fail'")
    assert status["unready"] == []
    assert "&lt;b&gt;not yet&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "http://" not in page  # everything is in the page itself
    assert "<script" not in page


async def test_met1_planned_passes_are_no_retries(cluster, operate, registry, journal, get):
    @on.reconcile("kopfexamples", every=999, registry=registry)
    def shape(name, **_):
        journal(name)
        if name == "bad":
            raise TemporaryError("not yet", delay=999)

    for name in ("good", "bad", "fine"):
        await cluster.create(name)
    async with operate():
        await until_ready(get)
        await journal.until(lambda j: len(j) == 3)

        async def get_status():
            status = json.loads((await get("/status.json"))[1])
            return status if [queue["delayed"] for queue in status["queues"]] == [3] else None

        assert (await until(get_status))["pending_retries"] == 1


async def test_i_paused_objects_are_named_until_they_are_not_paused(
    cluster, operate, registry, settings, get, clock
):
    settings.execution.honor_pauses = True
    on.create("kopfexamples", registry=registry)(lambda **_: None)
    total = 103
    reason = {"kopf.zalando.org/paused": "by ann: <b>migration</b>"}

    async def annotate(name, annotations):
        await cluster.client.patch(
            f"/apis/kopf.dev/v1/namespaces/default/kopfexamples/{name}",
            {"metadata": {"annotations": annotations}},
            content_type="application/merge-patch+json",
        )

    async def get_paused(count):
        clock.advance(1)  # snapshots are not taken more often
        status = json.loads((await get("/status.json"))[1])
        return status if status["paused_objects"] == count else None

    for i in range(total):
        await cluster.create(f"obj{i}")
        await annotate(f"obj{i}", reason)
    async with operate(clock=clock):
        status = await until(lambda: get_paused(total))
        _, page = await get("/status")
        for i in range(1, total - 1):
            await annotate(f"obj{i}", {"kopf.zalando.org/paused": None})
        await cluster.delete("obj0")
        rest = await until(lambda: get_paused(1))
    assert len(status["paused"]) == 100
    assert rest["paused"] == [
        {
            "resource": "kopfexamples.kopf.dev",
            "namespace": "default",
            "name": f"obj{total - 1}",
            "reason": "by ann: <b>migration</b>",
        }
    ]
    assert f"Paused by people: {total} objects" in page
    assert "by ann: &lt;b&gt;migration&lt;/b&gt;" in page


async def test_q_attempts_that_take_over_a_minute_are_named_with_their_objects(
    cluster, operate, registry, settings, get, clock, journal
):
    settings.execution.max_workers = 5
    release, released = asyncio.Event(), threading.Event()

    def only(name):
        return {"registry": registry, "when": lambda **kwargs: kwargs["name"] == name}

    @on.create("kopfexamples", id="asynchronous", **only("one"))
    async def asynchronous(**_):
        journal("asynchronous")
        await release.wait()

    @on.timer("kopfexamples", id="synchronous", interval=999, **only("two"))
    def synchronous(**_):
        journal("synchronous")
        released.wait()

    @on.reconcile("kopfexamples", id="reconciler", **only("three"))
    async def reconciler(**_):
        journal("reconciler")
        await release.wait()

    @on.daemon("kopfexamples", id="daemon", **only("four"))
    async def daemon(stopped, **_):
        journal("daemon")
        await stopped.wait()

    @on.create("kopfexamples", id="brief", **only("five"))
    async def brief(**_):
        journal("brief")

    for name in ("one", "two", "three", "four", "five"):
        await cluster.create(name)
    async with operate(clock=clock):
        await until_ready(get)
        await journal.until(lambda j: len(j) == 5)
        jump(PERIOD)  # it is noticed regularly, though nobody has asked for the status
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        clock.advance(61)
        status = json.loads((await get("/status.json"))[1])
        _, page = await get("/status")
        release.set()
        released.set()

        async def are_over():
            status = json.loads((await get("/status.json"))[1])
            return status["long_attempts"] == 0 and status["attempts"] == []

        await until(are_over)

    place = {"resource": "kopfexamples.kopf.dev", "namespace": "default", "age": 61}
    assert sorted(status["attempts"], key=lambda row: row["name"]) == [
        {**place, "name": "one", "handler": "asynchronous"},
        {**place, "name": "three", "handler": "reconciler"},
        {**place, "name": "two", "handler": "synchronous"},
    ]
    assert status["long_attempts"] == 3
    assert "Attempts of over a minute: 3" in page
    assert "<td>synchronous</td><td>61 s</td>" in page


async def test_q_the_list_of_long_attempts_is_bounded_and_the_longest_ones_go_first(
    cluster, operate, registry, get, clock, journal
):
    release = asyncio.Event()
    total = 102

    @on.create("kopfexamples", id="fn", registry=registry)
    async def fn(name, **_):
        journal(name)
        await release.wait()

    await cluster.create("first")
    async with operate(clock=clock):
        await journal.until(lambda j: j)
        await get("/status.json")
        clock.advance(10)
        for i in range(1, total):
            await cluster.create(f"obj{i}")
        await journal.until(lambda j: len(j) == total)
        await get("/status.json")
        clock.advance(60)
        status = json.loads((await get("/status.json"))[1])
        release.set()
    assert status["long_attempts"] == total
    assert len(status["attempts"]) == 100
    assert (status["attempts"][0]["name"], status["attempts"][0]["age"]) == ("first", 70)
    assert {row["age"] for row in status["attempts"][1:]} == {60}


async def test_q_a_long_activity_is_named_without_an_object(
    cluster, operate, registry, get, clock, journal
):
    release = asyncio.Event()

    @on.probe(id="probing", registry=registry)
    async def probing(**_):
        journal("probing")
        await release.wait()

    on.event("kopfexamples", registry=registry)(lambda **_: None)
    async with operate(clock=clock):
        await until_ready(get)
        probe = asyncio.create_task(get("/livez"))
        await journal.until(lambda j: j)
        await get("/status.json")
        clock.advance(60)
        status = json.loads((await get("/status.json"))[1])
        _, page = await get("/status")
        release.set()
        await probe
    assert status["attempts"] == [
        {"resource": None, "namespace": None, "name": None, "handler": "probing", "age": 60}
    ]
    assert "<td>the operator</td>" in page


async def test_i_not_ready_until_it_can_be_elected_but_ready_when_it_cannot_anymore(
    cluster, operate, registry, get, settings
):
    settings.leasing.name, settings.leasing.namespace = "op", "default"
    settings.leasing.retry_period = 0.01
    on.create("kopfexamples", registry=registry)(lambda **_: None)
    faults, requests = cluster.sandbox.faults, cluster.sandbox.journal
    faults.fail(403, path="*/leases*", message="leases are forbidden")
    async with operate():

        async def is_forbidden():
            unready = json.loads((await get("/status.json"))[1])["unready"]
            return len(unready) == 1 and "forbidden" in unready[0] and unready

        (problem,) = await until(is_forbidden)
        assert await get("/readyz") == (503, '{"unready": ["not in the election"]}')
        faults.clear()
        await until_ready(get)
        faults.fail(403, path="*/leases*")
        await requests.wait(path="*/leases/op", count=3, since=requests[-1].number)
        assert (await get("/readyz"))[0] == 200
        faults.clear()
    assert problem.startswith("not in the election: The lease default/op is out of reach: ")


async def test_o_not_ready_until_it_is_one_of_the_replicas_and_has_its_part(
    cluster, operate, registry, get, settings
):
    settings.sharding.name, settings.sharding.namespace = "op", "default"
    settings.sharding.retry_period = 0.01
    on.create("kopfexamples", registry=registry)(lambda **_: None)
    cluster.sandbox.faults.fail(403, path="*/leases*", message="leases are forbidden")
    async with operate():

        async def is_forbidden():
            unready = json.loads((await get("/status.json"))[1])["unready"]
            return [text for text in unready if "leases are forbidden" in text]

        (problem,) = await until(is_forbidden)
        assert "kopf_shards 0.0" in (await get("/metrics"))[1]
        cluster.sandbox.faults.clear()
        await until_ready(get)

        async def has_all():
            return "kopf_shards 64.0" in (await get("/metrics"))[1]

        await until(has_all)
    assert problem.startswith("not at work as a replica: The lease default/op")


async def test_i_liveness_runs_the_probe_handlers(cluster, operate, registry, get):
    on.event("kopfexamples", registry=registry)(lambda **_: None)
    on.probe(id="it", registry=registry)(lambda **_: "fine")
    async with operate():
        assert await get("/livez") == (200, '{"it": "fine"}')
        assert (await get("/absent"))[0] == 404


async def test_i_not_ready_until_the_indices_are_filled(cluster, operate, registry, journal, get):
    release = asyncio.Event()

    @on.index("kopfexamples", registry=registry)
    async def slow(**_):
        journal("indexing")
        await release.wait()

    await cluster.create("one")
    async with operate():
        await journal.until(lambda j: j)
        status, text = await get("/readyz")
        assert status == 503
        assert "the indices are not filled" in json.loads(text)["unready"]
        release.set()
        await until_ready(get)


async def test_s3_kinds_that_may_not_be_listed_are_named(cluster, operate, registry, settings, get):
    settings.watching.reconnect_backoff = 0.01
    on.reconcile("kopfexamples", owns=["configmaps"], registry=registry)(lambda **_: None)
    cluster.sandbox.faults.fail(403, path="*/configmaps*", message=FORBIDDEN)
    async with operate():

        async def is_explained():
            text = (await get("/status.json"))[1]
            unready = json.loads(text)["unready"]
            return "forbidden" in text and len(unready) == 1 and unready

        unready = await until(is_explained)  # the others are listed by then
        assert await get("/readyz") == (503, '{"unready": ["not listed: configmaps.v1"]}')
        cluster.sandbox.faults.clear()
        await until_ready(get)
    assert unready == [
        "not listed: configmaps.v1: Cannot watch configmaps.v1 cluster-wide, "
        f"will retry until permitted: 403 Forbidden: {FORBIDDEN}. Add this rule to the role "
        'of the operator: {apiGroups: [""], resources: [configmaps], verbs: [list]}.',
    ]


async def test_s3_kinds_that_are_being_listed_are_named(cluster, operate, registry, get):
    on.event("kopfexamples", registry=registry)(lambda **_: None)
    with cluster.sandbox.faults.hang(path="*/kopfexamples*"):
        async with operate():

            async def is_explained():
                status, text = await get("/readyz")
                unready = json.loads(text)["unready"]
                return status == 503 and "kopfexamples" in text and len(unready) == 1 and unready

            unready = await until(is_explained)
    assert unready == ["not listed: kopfexamples.v1.kopf.dev"]


async def test_q_operators_with_conversions_are_ready_before_all_is_listed(
    cluster, operate, registry, settings, get
):
    """API servers cannot list objects in other versions before they can ask the operator."""

    listening = asyncio.Event()

    async def serve(_fn):
        await listening.wait()
        yield {"url": "https://localhost:1"}
        await asyncio.Event().wait()

    settings.admission.server = serve
    on.event("kopfexamples", registry=registry)(lambda **_: None)
    on.convert("v1beta1", "v1", kind="Website.example.com", registry=registry)(lambda **_: None)
    with cluster.sandbox.faults.hang(path="*/kopfexamples*"):
        async with operate() as operator:

            async def is_only_unserved():
                text = (await get("/readyz"))[1]
                return json.loads(text)["unready"] == ["the webhooks are not served"]

            await until(is_only_unserved)
            listening.set()
            await until_ready(get)
            listed = [key for key, one in operator.handling.pool.informers.items() if one.is_listed]
            assert "kopfexamples" not in str(listed)


async def test_i_dead_watches_are_seen(cluster, operate, registry, get, clock):
    on.event("kopfexamples", registry=registry)(lambda **_: None)
    async with operate(clock=clock) as operator:
        await until_ready(get)
        assert (await get("/livez"))[0] == 200
        clock.advance(10_000)
        assert operator.handling.find_problems()
        status, text = await get("/livez")
        assert status == 503
        assert "kopfexamples" in text
        _, page = await get("/status")
        assert "no signs of life" in page


async def test_an_operator_does_not_say_that_it_works_while_the_api_is_away(
    cluster, operate, registry, settings, get, clock
):
    settings.watching.reconnect_backoff = 0
    on.event("kopfexamples", registry=registry)(lambda **_: None)
    faults = cluster.sandbox.faults

    async def look(is_cut_off):
        status = json.loads((await get("/status.json"))[1])
        return status if (status["cut_off"] is not None) == is_cut_off else None

    async with operate(clock=clock):
        await until_ready(get)
        assert ">works<" in (await get("/status"))[1]
        with faults.drop(watch=True):
            cluster.sandbox.cut_watches()
            clock.advance(120)
            status = await until(lambda: look(True))
            _, page = await get("/status")
        assert (await until(lambda: look(False)))["problems"] == []
        assert ">works<" in (await get("/status"))[1]

    assert status["cut_off"] == 120
    (problem,) = {stream["problem"] for stream in status["streams"]}
    text = "The watch-stream for kopfexamples.v1.kopf.dev cluster-wide is broken: "
    assert problem.startswith(text)
    assert ">works<" not in page
    assert ">is cut off from the API<" in page
    since = datetime.datetime.fromisoformat(status["time"]) - datetime.timedelta(seconds=120)
    assert f"Nothing comes from the API since {since.isoformat()}. The watch-stream for " in page


async def test_a_kind_that_fails_alone_is_no_outage(cluster, operate, registry, settings, get):
    settings.watching.reconnect_backoff = 0
    for kind in ("kopfexamples", "configmaps"):
        on.event(kind, registry=registry)(lambda **_: None)

    async def get_problems():
        status = json.loads((await get("/status.json"))[1])
        problems = [stream["problem"] for stream in status["streams"] if stream["problem"]]
        return (status["cut_off"], problems) if problems else None

    async with operate():
        await until_ready(get)
        with cluster.sandbox.faults.drop(watch=True, path="*/configmaps"):
            cluster.sandbox.cut_watches("*/configmaps")
            cut_off, [problem] = await until(get_problems)
            page = (await get("/status"))[1]
    assert cut_off is None
    assert ">works<" in page
    assert "s ago: The watch-stream for configmaps.v1 " in page
    assert problem.startswith("The watch-stream for configmaps.v1 cluster-wide is broken: ")


async def test_i_thousand_parallel_scrapes_are_one_snapshot(
    cluster, operate, registry, get, clock, monkeypatch
):
    monkeypatch.setattr(operator_status, "CACHE_TIME", 1)
    on.event("kopfexamples", registry=registry)(lambda **_: None)
    async with operate(clock=clock) as operator:
        await until_ready(get)
        taken = []
        background = operator.handling.find_problems
        monkeypatch.setattr(
            operator.handling, "find_problems", lambda: taken.append(1) or background()
        )
        clock.advance(10)
        answers = await asyncio.gather(*(get("/status.json") for _ in range(1000)))
        assert {status for status, _ in answers} == {200}
        assert len(taken) == 1


async def test_i_lease_is_seen(cluster, operate, registry, settings, get):
    settings.leasing.name, settings.leasing.namespace = "op", "default"
    on.event("kopfexamples", registry=registry)(lambda **_: None)

    async def get_lease():
        _, text = await get("/status.json")
        lease = json.loads(text)["lease"]
        return lease if lease["is_leading"] else None

    async with operate():
        await until_ready(get)
        assert (await until(get_lease))["holder"]


async def test_i_leaders_and_followers_are_ready_and_a_lost_lease_is_seen_at_once(
    cluster, operate, registry, settings, get, clock
):
    settings.leasing.name, settings.leasing.namespace = "op", "default"
    settings.leasing.retry_period = 0.01
    on.event("kopfexamples", registry=registry)(lambda **_: None)

    def expect(value, holder):
        async def check():
            clock.advance(2)  # the snapshots are cached for a second
            _, metrics = await get("/metrics")
            _, page = await get("/status")
            status = json.loads((await get("/status.json"))[1])["lease"]
            is_seen = f"kopf_leading {value}.0" in metrics and status["is_leading"] == bool(value)
            return is_seen and (not holder or (status["holder"] == holder and holder in page))

        return check

    async with operate(clock=clock):
        await until_ready(get)
        await until(expect(1, ""))
        assert (await get("/readyz"))[0] == 200
        await hand_over(cluster)
        await until(expect(0, "other"))
        await until_ready(get)  # the follower is warm again
        assert (await get("/livez"))[0] == 200


async def test_i_a_former_leader_is_ready_even_if_it_cannot_list_the_objects_again(
    cluster, operate, registry, settings, get, clock
):
    """It serves webhooks as all other followers do."""
    settings.leasing.name, settings.leasing.namespace = "op", "default"
    settings.leasing.retry_period = 5
    on.event("kopfexamples", registry=registry)(lambda **_: None)
    async with operate(clock=clock) as operator:
        await until_ready(get)
        fault = cluster.sandbox.faults.fail(503, path="*/kopfexamples*")
        await hand_over(cluster)
        clock.advance(5)
        await until(lambda: operator.is_paused and fault.hits)
        [informer] = operator.handling.pool.informers.values()
        assert not informer.is_listed
        assert (await get("/readyz"))[0] == 200


async def test_i_a_suspended_leader_does_not_say_that_it_leads(
    cluster, operate, registry, settings, get, clock
):
    settings.leasing.name, settings.leasing.namespace = "op", "default"
    settings.leasing.retry_period = 5  # it does not know yet that the lease is lost
    on.event("kopfexamples", registry=registry)(lambda **_: None)

    async def is_leading():
        clock.advance(1)  # the snapshots are cached for a second
        return "kopf_leading 1.0" in (await get("/metrics"))[1]

    async with operate(clock=clock):
        await until_ready(get)
        await until(is_leading)
        clock.advance(100)
        assert not await is_leading()


async def test_i_a_blocked_loop_is_seen_in_the_metrics(cluster, operate, registry, get, clock):
    on.event("kopfexamples", registry=registry)(lambda **_: None)

    async def is_seen():
        clock.advance(1)  # the snapshots are cached for a second
        lines = (await get("/metrics"))[1].splitlines()
        lags = [line.split()[1] for line in lines if line.startswith("kopf_loop_lag_seconds ")]
        return float(lags[0]) > 1

    async with operate(clock=clock):
        await until_ready(get)
        jump(5)  # more than a period of the pulse
        await until(is_seen)


async def test_i_requests_and_handlers_are_measured(cluster, operate, registry, journal, get):
    on.create("kopfexamples", id="fn", registry=registry)(lambda name, **_: journal(name))
    await cluster.create("one")

    async def get_metrics():
        status, text = await get("/metrics")
        assert status == 200
        return text if 'outcome="success"' in text and 'verb="patch"' in text else None

    async with operate():
        await until_ready(get)
        await journal.until(lambda j: j)
        text = await until(get_metrics)
    handlers = 'kopf_handler_seconds_count{handler="fn",kind="changing",outcome="success"} 1.0'
    assert handlers in text
    assert 'resource="kopfexamples.kopf.dev",verb="patch"' in text
    assert 'kopf_objects{namespace="",resource="kopfexamples.kopf.dev"} 1.0' in text


async def test_i_nothing_is_measured_without_the_endpoint(cluster, operate, registry, journal):
    on.create("kopfexamples", registry=registry)(lambda name, **_: journal(name))
    await cluster.create("one")
    async with operate() as operator:
        await journal.until(lambda j: j)
        assert operator.essentials.client.on_request is None
        assert operator.essentials.execution.panel.instruments is None


async def test_k24_the_status_is_apart_from_probes_and_metrics(
    cluster, operate, registry, settings, get, journal
):
    """Whoever reaches the port of the probes, is told neither names of objects nor errors."""

    @on.create("kopfexamples", id="fail", registry=registry)
    def fail(**_):
        raise TemporaryError("the-text-of-the-error", delay=999)

    @on.probe(id="probe", registry=registry)
    def probe(**_):
        journal("probed")
        raise ValueError("the-text-of-the-error")

    url = settings.serving.endpoint
    await cluster.create("the-name-of-the-object")
    async with operate(), aiohttp.ClientSession() as session:

        async def is_retried():
            return json.loads((await get("/status.json"))[1])["retries"]

        await until(is_retried)
        await until_ready(get)
        texts = []
        for path in ("/", "/status", "/status.json", "/livez", "/readyz", "/metrics"):
            async with session.get(url + path) as response:
                texts.append(await response.text())
                assert (response.status == 404) == (path in ("/", "/status", "/status.json"))
    assert not [text for text in texts if "the-name-of" in text or "the-text-of" in text]
    await journal.until(lambda j: j)


async def test_k24_there_is_no_status_unless_it_is_asked_for(
    cluster, operate, registry, settings, get
):
    on.event("kopfexamples", registry=registry)(lambda **_: None)
    settings.serving.status = None
    async with operate():
        await until_ready(get)
        settings.serving.status = settings.serving.endpoint  # for the requests of the test only
        assert (await get("/status"))[0] == 404
        assert (await get("/status.json"))[0] == 404


@pytest.mark.parametrize("url", ["http://0.0.0.0:1", "http://[::]:1", "http://example.com:1"])
async def test_k24_the_status_is_not_for_everybody(operate, registry, settings, url):
    on.event("kopfexamples", registry=registry)(lambda **_: None)
    settings.serving.status = url
    with pytest.raises(StatusSetupError, match=r"set `settings.serving.token`"):
        async with operate() as operator:
            await operator.exit.requested.wait()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8081", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8081", 200),
        ("evil.example", 403),
        ("evil.example:8081", 403),
        ("127.0.0.1.evil.example", 403),
        ("[", 403),
        ("", 403),
    ],
)
async def test_k24_names_that_others_lead_here_are_refused(
    cluster, operate, registry, get, host, status
):
    on.event("kopfexamples", registry=registry)(lambda **_: None)
    async with operate():
        for path in ("/status", "/status.json"):
            assert (await get(path, Host=host))[0] == status


async def test_k24_the_status_is_shown_for_the_token(cluster, operate, registry, settings, get):
    on.event("kopfexamples", registry=registry)(lambda **_: None)
    settings.serving.token = "s3cr3t"
    settings.serving.status = settings.serving.status.replace("127.0.0.1", "0.0.0.0")
    async with operate():
        for wrong in ({}, {"Authorization": "Bearer s3cr3"}, {"Authorization": "Basic s3cr3t"}):
            assert (await get("/status.json", **wrong))[0] == 401
        assert (await get("/status.json", Authorization="Bearer s3cr3t"))[0] == 200
    assert "s3cr3t" not in repr(settings)


async def test_k24_tokens_of_any_bytes_are_refused(operate, registry, settings, get):
    on.event("kopfexamples", registry=registry)(lambda **_: None)
    settings.serving.token = "s3cr3t"
    async with operate():
        assert (await get("/status.json"))[0] == 401
        port = settings.serving.status.rpartition(":")[2]
        reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
        writer.write(b"GET /status.json HTTP/1.1\r\nHost: localhost\r\n")
        writer.write(b"Authorization: Bearer \xff\xd0\r\n\r\n")
        assert b" 401 " in await reader.readline()
        writer.close()


async def test_k24_values_of_secrets_are_not_shown(cluster, operate, registry, get):
    @on.create("secrets", id="fail", registry=registry)
    def fail(body, logger, **_):
        logger.error(f"The password {body['data']['password']} is wrong")
        raise TemporaryError(f"The password {body['data']['password']} is too short", delay=999)

    secret = {"metadata": {"name": "one"}, "data": {"password": "cGFzcw=="}}
    await cluster.client.post("/api/v1/namespaces/default/secrets", secret)
    async with operate():

        async def get_status():
            status = json.loads((await get("/status.json"))[1])
            return status if status["retries"] and status["errors"] else None

        status = await until(get_status)
        _, page = await get("/status")
    assert "cGFzcw==" not in json.dumps(status)
    assert "cGFzcw==" not in page
    assert "Secret" in status["retries"][0]["message"]


@pytest.mark.parametrize(
    ("resource", "shown"),
    [("kopfexamples", "kopfexamples/one -> 503 ServiceUnavailable: boo"), ("secrets", NOT_SHOWN)],
)
async def test_q_refused_requests_are_shown_while_they_are_retried(
    cluster, operate, registry, get, resource, shown
):
    on.create(resource, id="fn", registry=registry)(lambda **_: None)
    await cluster.create("one")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}}
    await cluster.sandbox.create(secret)
    fault = cluster.sandbox.faults.fail(503, method="PATCH", path="*/one", message="boo")
    async with operate():

        async def get_errors():
            return json.loads((await get("/status.json"))[1])["errors"]

        [error, *_] = await until(get_errors)
        fault.release()
    assert error["message"].endswith(shown)


async def test_k35_waiting_is_no_attempt_and_times_are_not_broken(cluster, operate, registry, get):
    on.create("kopfexamples", id="fn", registry=registry)(lambda **_: None)
    record = {
        "started": "2020-01-01T00:00:00+00:00",
        "delayed": "2999-12-31T00:00:00+00:00",
        "purpose": "create",
        "retries": 0,
        "message": "It must wait.",
    }
    meta = {"name": "one", "annotations": {"kopf.zalando.org/fn": json.dumps(record)}}
    body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": meta}
    await cluster.client.post("/apis/kopf.dev/v1/namespaces/default/kopfexamples", body)
    async with operate():

        async def get_retry():
            return json.loads((await get("/status.json"))[1])["retries"]

        (retry,) = await until(get_retry)
        _, page = await get("/status")
    assert (retry["retries"], retry["message"]) == (0, "It must wait.")
    assert f'<td>waits</td><td class="time">{retry["delayed"]}</td><td>It must wait.</td>' in page
    assert ".time { white-space: nowrap }" in page


def make_review(**spec):
    body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "spec": spec}
    return {
        "request": {
            "uid": "x",
            "operation": "CREATE",
            "resource": {"group": "kopf.dev", "version": "v1", "resource": "kopfexamples"},
            "userInfo": {},
            "object": body | {"metadata": {"name": "one", "namespace": "default"}},
        }
    }


async def test_k13_a_leaving_replica_is_not_ready_but_answers(
    cluster, operate, registry, settings, get, journal
):
    """So, the others get the requests of the webhooks; and this one answers what still comes."""
    asked, answered, released = asyncio.Queue(), asyncio.Queue(), asyncio.Event()
    settings.queueing.exit_timeout = 999

    async def server(fn):
        yield {"url": "https://127.0.0.1:1"}
        while True:
            answered.put_nowait(await fn(await asked.get(), webhook="check"))

    @on.create("kopfexamples", registry=registry)
    async def fn(**_):
        journal("begun")
        await released.wait()

    on.validate("kopfexamples", id="check", registry=registry)(lambda **_: None)
    settings.admission.server = server
    await cluster.create("one")
    async with operate() as operator:
        await until_ready(get)
        await journal.until(lambda j: j)
        operator.stop()
        assert await get("/readyz") == (503, '{"unready": ["the operator is stopping"]}')
        asked.put_nowait(make_review())
        assert (await answered.get())["response"]["allowed"]
        released.set()


async def test_k35_webhooks_are_seen(cluster, operate, registry, settings, get):
    asked, answered = asyncio.Queue(), asyncio.Queue()

    async def server(fn):
        yield {"url": "https://127.0.0.1:1"}
        while True:
            answered.put_nowait(await fn(await asked.get(), webhook="check"))

    @on.validate("kopfexamples", id="check", registry=registry)
    def check(spec, **_):
        if not spec.get("good"):
            raise PermanentError("It is not good.")

    on.mutate("kopfexamples", id="amend", registry=registry)(lambda **_: None)
    settings.admission.server = server
    async with operate():
        for good in (True, False):
            asked.put_nowait(make_review(good=good))
            assert (await answered.get())["response"]["allowed"] is good

        async def get_reviewed():
            webhooks = json.loads((await get("/status.json"))[1])["webhooks"]
            return webhooks[0]["reviews"] == 2 and webhooks

        webhooks = await until(get_reviewed)
        _, page = await get("/status")
    keys = ("handler", "kind", "working", "reviews", "denied")
    assert [tuple(map(one.get, keys)) for one in webhooks] == [
        ("check", "validating", 0, 2, 1),
        ("amend", "mutating", 0, 0, 0),
    ]
    assert "<h2>Webhooks</h2>" in page
