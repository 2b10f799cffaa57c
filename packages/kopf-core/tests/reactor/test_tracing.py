"""Traces of a working operator, taken by the SDK of OpenTelemetry, in memory."""

from typing import Any

import pytest
from free_ports import find_free_port
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kopf_cogs.clients.session import RequestRecord
from kopf_core.actions.errors import PermanentError, TemporaryError
from kopf_core.engines.tracing import make_traces
from kopf_core.intents import decorators as on


@pytest.fixture
def exporter(monkeypatch):
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


def find(exporter: Any, name: str, **attributes: Any) -> Any:
    """The only span with that beginning of the name, and with these attributes."""
    found = [
        span
        for span in exporter.get_finished_spans()
        if span.name.startswith(name)
        and all(
            span.attributes.get(key.replace("__", ".")) == value
            for key, value in attributes.items()
        )
    ]
    assert len(found) == 1, [(span.name, dict(span.attributes)) for span in found]
    return found[0]


def work(journal: Any) -> None:
    tracer = trace.get_tracer_provider().get_tracer("mine")
    with tracer.start_as_current_span("my own"):
        journal("called")


async def async_work(journal: Any) -> None:
    work(journal)


@pytest.mark.parametrize("fn", [work, async_work])
async def test_i_handlers_and_requests_are_in_turns_and_those_of_users_are_in_handlers(
    cluster, operate, registry, exporter, journal, fn
):
    on.create("kopfexamples", id="fn", registry=registry)(lambda **_: fn(journal))
    await cluster.create("one")
    async with operate():
        await cluster.sandbox.journal.wait("PATCH", "*/one")
    handler = find(exporter, "handler fn")
    patch = find(exporter, "PATCH")
    turn = next(
        span
        for span in exporter.get_finished_spans()
        if span.context.span_id == handler.parent.span_id
    )
    assert (turn.parent, turn.name) == (None, "turn kopfexamples.v1.kopf.dev")
    assert turn.attributes == {
        "kopf.resource": "kopfexamples.v1.kopf.dev",
        "kopf.name": "one",
        "k8s.namespace.name": "default",
    }
    assert patch.parent.span_id == turn.context.span_id
    assert find(exporter, "my own").parent.span_id == handler.context.span_id
    assert handler.attributes == {
        "kopf.handler": "fn",
        "kopf.handler.kind": "changing",
        "kopf.outcome": "success",
    }
    assert patch.kind is trace.SpanKind.CLIENT
    assert patch.attributes["http.response.status_code"] == 200
    path = patch.attributes["url.path"]
    assert path.endswith("/namespaces/default/kopfexamples/one")
    assert patch.attributes["url.full"] == f"{cluster.sandbox.url}{path}"
    assert patch.start_time <= patch.end_time


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (PermanentError("no way"), "failure"),
        (TemporaryError("not yet", delay=999), "retry"),
        (ValueError("oops"), "retry"),
    ],
)
async def test_i_errors_of_handlers_are_in_their_spans(
    cluster, operate, registry, exporter, error, outcome
):
    @on.create("kopfexamples", id="fn", registry=registry)
    async def fn(**_: Any) -> None:
        raise error

    await cluster.create("one")
    async with operate():
        await cluster.sandbox.journal.wait("PATCH", "*/one")
    span = find(exporter, "handler fn")
    assert span.attributes["kopf.outcome"] == outcome
    assert span.status.status_code is trace.StatusCode.ERROR
    assert [event.attributes["exception.message"] for event in span.events] == [f"{error}"]


async def test_i_failed_requests_are_errors(cluster, operate, registry, exporter, journal):
    cluster.sandbox.faults.fail(403, method="PATCH", path="*/one", times=1)
    on.create("kopfexamples", id="fn", registry=registry)(lambda name, **_: journal(name))
    await cluster.create("one")
    async with operate():
        await cluster.sandbox.journal.wait("PATCH", "*/one")
    span = find(exporter, "PATCH", http__response__status_code=403)
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.attributes["error.type"] == "403"
    assert span.attributes["server.address"] == "127.0.0.1"
    assert span.attributes["server.port"] == int(cluster.sandbox.url.rpartition(":")[2])


@pytest.mark.parametrize("server", ["https://user:secret@host:8443/base", "https://host:8443/base"])
def test_q_addresses_of_requests_are_whole_and_have_no_passwords(exporter, server):
    record = RequestRecord("GET", "/api/v1/pods?watch=true", server, seconds=1, code=200)
    make_traces().on_request(record)
    attributes = find(exporter, "GET").attributes
    assert attributes["url.full"] == "https://host:8443/base/api/v1/pods?watch=true"
    assert (attributes["server.address"], attributes["server.port"]) == ("host", 8443)


async def test_i_requests_with_no_response_have_no_status_code(
    cluster, operate, registry, exporter, settings
):
    settings.networking.error_backoffs = [0.01]
    cluster.sandbox.faults.drop(method="PATCH", path="*/one", times=1)
    on.create("kopfexamples", id="fn", registry=registry)(lambda **_: None)
    await cluster.create("one")
    async with operate():
        await cluster.sandbox.journal.wait("PATCH", "*/one", count=2)
    span = find(exporter, "PATCH", error__type="ServerDisconnectedError")
    assert "http.response.status_code" not in span.attributes
    assert span.status.status_code is trace.StatusCode.ERROR


async def test_i_names_of_spans_are_bounded(cluster, operate, registry, exporter):
    @on.create("kopfexamples", id="fn", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        on.subhandler(id=f"of-{name}")(lambda **_: None)

    await cluster.create("one")
    async with operate():
        await cluster.sandbox.journal.wait("PATCH", "*/one")
    assert find(exporter, "handler fn/*").attributes["kopf.handler"] == "fn/of-one"


async def test_i_nothing_is_traced_if_nobody_takes_it(cluster, operate, registry, journal):
    on.create("kopfexamples", registry=registry)(lambda name, **_: journal(name))
    await cluster.create("one")
    async with operate() as operator:
        await journal.until(lambda j: j)
        assert make_traces() is None
        assert operator.essentials.client.on_request is None
        assert operator.essentials.execution.panel.instruments is None


async def test_i_traces_and_metrics_are_taken_together(
    cluster, operate, registry, exporter, journal, settings
):
    settings.serving.endpoint = f"http://127.0.0.1:{find_free_port()}"
    on.create("kopfexamples", id="fn", registry=registry)(lambda name, **_: journal(name))
    await cluster.create("one")
    async with operate() as operator:
        await cluster.sandbox.journal.wait("PATCH", "*/one")
        metrics, _ = operator.essentials.execution.panel.instruments.members
        counts = {
            (sample.name, *sorted(sample.labels.values()))
            for family in metrics.registry.collect()
            for sample in family.samples
        }
    assert find(exporter, "handler fn")
    assert ("kopf_handler_seconds_count", "changing", "fn", "success") in counts
