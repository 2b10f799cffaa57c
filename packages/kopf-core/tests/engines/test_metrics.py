"""The metrics: their names, labels, and values."""

import pathlib

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from kopf_cogs.clients.session import RequestRecord
from kopf_core.actions.instruments import name_handler
from kopf_core.actions.outcomes import Outcome
from kopf_core.engines.serving.metrics import METRICS, Metrics, parse_request
from kopf_core.engines.serving.snapshots import (
    BackgroundSnapshot,
    QueueSnapshot,
    Snapshot,
    StreamSnapshot,
)
from kopf_core.intents import decorators as on
from kopf_core.intents.causes import Reason

DOCS = pathlib.Path(__file__).parents[4] / "docs/reference/metrics.md"


def make_snapshot(**kwargs):
    fields = {"version": "1", "uptime": 0, "time": "", "unready": (), "problems": ()}
    return Snapshot(**{**fields, "is_paused": False, **kwargs})


def parse(text):
    families = text_string_to_metric_families(text.decode())
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.fixture
def handler(registry):
    on.create("kopfexamples", id="fn/spec.field", registry=registry)(lambda **_: None)
    return registry.resource_handlers[0]


def test_i_snapshots_are_exposed():
    stream = StreamSnapshot(
        resource="r.g", namespace=None, objects=3, is_listed=True, age=5, connects=2, lists=1,
        events=9,
    )  # fmt: skip
    queue = QueueSnapshot(resource="r.g", namespace="ns", queued=1, working=2, delayed=3, held=4)
    timer = BackgroundSnapshot(
        handler="t", kind="timer", working=1, waiting=2, stopping=0, orphaned=0, lag=1.5
    )
    snapshot = make_snapshot(
        streams=(stream,), queues=(queue,), background=(timer,), indices={"idx": 7}
    )
    text, content_type = Metrics({"ns"}).expose(snapshot)
    samples = parse(text)
    assert content_type.startswith("text/plain")
    assert samples["kopf_objects", "", "r.g"] == 3
    assert samples["kopf_watch_events_total", "", "r.g"] == 9
    assert samples["kopf_queue_objects", "held", "ns", "r.g"] == 4
    assert samples["kopf_background_lag_seconds", "t", "timer"] == 1.5
    assert samples["kopf_index_keys", "idx"] == 7
    assert samples["kopf_ready",] == 1
    assert ("kopf_leading",) not in samples
    assert ("kopf_shards",) not in samples
    assert any(name.startswith("python_info") for name, *_ in samples)  # of the default registry


def test_i_cardinality_is_bounded_with_10000_objects(handler):
    metrics = Metrics()
    for number in range(10_000):
        for method in ("GET", "PATCH", "DELETE"):
            url = f"/apis/kopf.dev/v1/namespaces/ns{number % 3}/kopfexamples/obj-{number}"
            metrics.on_request(RequestRecord(method, url, "http://x", 0.01, 200))
        metrics.on_attempt(handler, Outcome(final=True), 0.01)
    text, _ = metrics.expose(make_snapshot())
    ours = [line for line in text.decode().splitlines() if line.startswith("kopf_")]
    assert len(ours) < 200
    assert "obj-" not in text.decode()
    samples = parse(text)
    assert samples["kopf_request_seconds_count", "200", "kopfexamples.kopf.dev", "patch"] == 10_000
    assert samples["kopf_handler_seconds_count", "changing", "fn/spec.field", "success"] == 10_000


def test_i_namespaces_of_patterns_are_joined():
    streams = tuple(
        StreamSnapshot(
            resource="r.g", namespace=f"team-{n}", objects=n, is_listed=True, age=n, connects=1,
            lists=1, events=n,
        )
        for n in range(5)
    )  # fmt: skip
    queues = tuple(
        QueueSnapshot(resource="r.g", namespace=f"team-{n}", queued=1, working=n, delayed=0, held=0)
        for n in range(5)
    )
    snapshot = make_snapshot(streams=streams, queues=queues)
    samples = parse(Metrics({"team-4"}).expose(snapshot)[0])
    assert samples["kopf_objects", "*", "r.g"] == 0 + 1 + 2 + 3
    assert samples["kopf_objects", "r.g", "team-4"] == 4
    assert samples["kopf_watch_age_seconds", "*", "r.g"] == 3
    assert samples["kopf_queue_objects", "*", "r.g", "working"] == 6
    assert not [labels for labels in samples if "team-1" in labels]


def test_i_openmetrics_are_negotiated(handler):
    metrics = Metrics()
    metrics.on_request(RequestRecord("GET", "/api/v1/pods", "http://x", 0.1, None, "OSError"))
    metrics.on_timeout(handler)
    metrics.on_round(handler)
    accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
    text, content_type = metrics.expose(make_snapshot(indices={"idx": 7}), accept)
    assert content_type.startswith("application/openmetrics-text")
    families = {family.name: family for family in openmetrics(text.decode())}
    assert families["kopf_handler_timeouts"].type == "counter"
    (rounds,) = [one for one in families["kopf_loop_rounds"].samples if one.name.endswith("_total")]
    assert (rounds.labels["handler"], rounds.value) == (name_handler(handler), 1)
    assert families["kopf_index_keys"].samples[0].value == 7
    codes = {sample.labels["code"] for sample in families["kopf_request_seconds"].samples}
    assert codes == {"error"}
    assert metrics.expose(make_snapshot(), "text/plain")[1].startswith("text/plain")


def test_i_subhandlers_of_one_handler_are_one_label(handler, registry):
    nested = type(handler)(fn=handler.fn, id="fn/obj-123", reason=Reason.CREATE)
    assert name_handler(handler) == "fn/spec.field"
    assert name_handler(nested) == "fn/*"


@pytest.mark.parametrize(
    ("method", "url", "expected"),
    [
        ("GET", "/api/v1/namespaces", ("list", "namespaces")),
        ("GET", "/api/v1/namespaces/ns", ("get", "namespaces")),
        ("GET", "/api/v1/namespaces/ns/pods/x", ("get", "pods")),
        ("GET", "/api/v1/pods?watch=true", ("watch", "pods")),
        ("POST", "/api/v1/namespaces/ns/events", ("create", "events")),
        ("PATCH", "/apis/g/v1/namespaces/ns/rs/x/status", ("patch", "rs/status.g")),
        ("GET", "/apis", ("get", "discovery")),
        ("GET", "/apis/g/v1", ("get", "discovery")),
    ],
)
def test_i_requests_are_named_as_in_roles(method, url, expected):
    assert parse_request(method, url) == expected


def test_i_alerts_and_the_board_name_existing_metrics():
    import json
    import re

    import yaml

    deploy = DOCS.parents[2] / "deploy"
    rules = yaml.safe_load((deploy / "alerts.yaml").read_text("utf-8"))
    board = json.loads((deploy / "grafana.json").read_text("utf-8"))
    for group in rules["groups"]:
        assert group["name"]
        for rule in group["rules"]:
            assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
    exprs = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    exprs += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    names = {name for expr in exprs for name in re.findall(r"kopf_\w+", expr)}
    histograms = {m.name + s for m in METRICS for s in ("_count", "_bucket", "_sum")}
    assert names
    assert names <= {m.name for m in METRICS} | histograms
