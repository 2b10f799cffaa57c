"""The metrics: their names, labels, and values."""

import pathlib

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kopf_core.actions.outcomes import Outcome
from kopf_core.engines.serving.metrics import METRICS, Metrics, name_handler, parse_request
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
    text, content_type = Metrics().expose(snapshot)
    samples = parse(text)
    assert content_type.startswith("text/plain")
    assert samples["kopf_objects", "", "r.g"] == 3
    assert samples["kopf_watch_events_total", "", "r.g"] == 9
    assert samples["kopf_queue_objects", "held", "ns", "r.g"] == 4
    assert samples["kopf_background_lag_seconds", "t", "timer"] == 1.5
    assert samples["kopf_index_keys", "idx"] == 7
    assert samples["kopf_ready",] == 1
    assert ("kopf_leading",) not in samples
    assert any(name.startswith("python_info") for name, *_ in samples)  # of the default registry


def test_i_cardinality_is_bounded_with_10000_objects(handler):
    metrics = Metrics()
    for number in range(10_000):
        for method in ("GET", "PATCH", "DELETE"):
            url = f"/apis/kopf.dev/v1/namespaces/ns{number % 3}/kopfexamples/obj-{number}"
            metrics.on_request(method, url, 200, 0.01)
        metrics.on_attempt(handler, Outcome(final=True), 0.01)
    text, _ = metrics.expose(make_snapshot())
    ours = [line for line in text.decode().splitlines() if line.startswith("kopf_")]
    assert len(ours) < 200
    assert "obj-" not in text.decode()
    samples = parse(text)
    assert samples["kopf_request_seconds_count", "200", "kopfexamples.kopf.dev", "patch"] == 10_000
    assert samples["kopf_handler_seconds_count", "changing", "fn/spec.field", "success"] == 10_000


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
