"""Metrics: the snapshots in the format of Prometheus, and the times of requests and handlers.

Everything that can be seen at the moment of scraping is taken from the snapshot: it costs nothing
between the scrapes. Only requests and handlers are measured when they happen.

The labels are of a bounded number of values: names of objects are never there.
"""

import operator
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kopf_cogs.clients.session import RequestRecord
from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.instruments import Instruments, name_handler, name_kind
from kopf_core.actions.outcomes import Outcome
from kopf_core.engines.serving.snapshots import Snapshot

Sample = tuple[tuple[str, ...], float]

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""The buckets of the histograms, in seconds: from a fast request to a slow handler."""

NO_RESPONSE = "error"
"""The label in place of the status code."""

BY_PATTERN = "*"
"""The label for all namespaces that are served by patterns: their number is not bounded."""

_STREAM = ("resource", "namespace")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name, its meaning, and its source."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str
    sample: Callable[[Snapshot], Iterable[Sample]] = lambda _: ()
    join: Callable[[float, float], float] = operator.add
    """The function that joins the samples with the same labels."""


def _one(get: Callable[[Snapshot], float]) -> Callable[[Snapshot], Iterable[Sample]]:
    return lambda snapshot: [((), float(get(snapshot)))]


def _streams(get: Callable[[Any], float]) -> Callable[[Snapshot], Iterable[Sample]]:
    return lambda snapshot: [
        ((stream.resource, stream.namespace or ""), float(get(stream)))
        for stream in snapshot.streams
    ]


def _sample_queues(snapshot: Snapshot) -> Iterator[Sample]:
    for queue in snapshot.queues:
        for stage in ("queued", "working", "delayed", "held"):
            yield (queue.resource, queue.namespace or "", stage), getattr(queue, stage)


def _sample_background(snapshot: Snapshot) -> Iterator[Sample]:
    for one in snapshot.background:
        for stage in ("working", "waiting", "stopping", "orphaned"):
            yield (one.kind, one.handler, stage), getattr(one, stage)


def _sample_lease(snapshot: Snapshot) -> Iterator[Sample]:
    if snapshot.lease is not None:
        yield (), float(snapshot.lease.is_leading)


def _sample_shards(snapshot: Snapshot) -> Iterator[Sample]:
    if snapshot.shards is not None:
        yield (), float(snapshot.shards)


PULLED = (
    Metric("kopf_info", "gauge", ("version",), "The version of the framework; always 1.",
           lambda snapshot: [((snapshot.version,), 1.0)]),
    Metric("kopf_ready", "gauge", (), "1 if the operator is ready, 0 if not.",
           _one(lambda snapshot: not snapshot.unready)),
    Metric("kopf_problems", "gauge", (), "The number of reasons for the liveness to fail.",
           _one(lambda snapshot: len(snapshot.problems))),
    Metric("kopf_paused", "gauge", (),
           "1 if nothing is handled for now: the operator starts, or others lead.",
           _one(lambda snapshot: snapshot.is_paused)),
    Metric("kopf_leading", "gauge", (), "1 if the lease is held; absent if there is no lease.",
           _sample_lease),
    Metric("kopf_shards", "gauge", (), "The owned shards; absent if all objects are handled here.",
           _sample_shards),
    Metric("kopf_loop_lag_seconds", "gauge", (),
           "The largest lag of the event loop in the last minute.",
           _one(lambda snapshot: snapshot.loop_lag)),
    Metric("kopf_objects", "gauge", _STREAM, "The number of objects.",
           _streams(lambda stream: stream.objects)),
    Metric("kopf_watch_age_seconds", "gauge", _STREAM, "For how long there were no signs of life.",
           _streams(lambda stream: stream.age), join=max),
    Metric("kopf_watch_lists_total", "counter", _STREAM, "The number of complete lists.",
           _streams(lambda stream: stream.lists)),
    Metric("kopf_watch_streams_total", "counter", _STREAM, "The number of opened streams.",
           _streams(lambda stream: stream.connects)),
    Metric("kopf_watch_events_total", "counter", _STREAM, "The number of received changes.",
           _streams(lambda stream: stream.events)),
    Metric("kopf_queue_objects", "gauge", (*_STREAM, "stage"),
           "Objects that have something to be done for: queued, working, delayed, held.",
           _sample_queues),
    Metric("kopf_long_attempts", "gauge", (),
           "The number of attempts of handlers that have taken more than a minute so far.",
           _one(lambda snapshot: snapshot.long_attempts)),
    Metric("kopf_retries_pending", "gauge", (),
           "The number of objects that wait for a retry, a delay, or the end of a daemon.",
           _one(lambda snapshot: snapshot.pending_retries)),
    Metric("kopf_paused_objects", "gauge", (), "The number of objects that people have paused.",
           _one(lambda snapshot: snapshot.paused_objects)),
    Metric("kopf_background", "gauge", ("kind", "handler", "stage"),
           "Daemons and timers: working, waiting, stopping, orphaned.", _sample_background),
    Metric("kopf_background_lag_seconds", "gauge", ("kind", "handler"),
           "By how much the most late of them is late.",
           lambda snapshot: (((one.kind, one.handler), one.lag) for one in snapshot.background)),
    Metric("kopf_index_keys", "gauge", ("index",), "The number of keys in the index.",
           lambda snapshot: (((name,), size) for name, size in snapshot.indices.items())),
    Metric("kopf_events_posted_total", "counter", (), "Kubernetes events that were posted.",
           _one(lambda snapshot: snapshot.posted_events)),
    Metric("kopf_events_dropped_total", "counter", (), "Kubernetes events that were dropped.",
           _one(lambda snapshot: snapshot.dropped_events)),
)  # fmt: skip
"""The metrics that are taken from the snapshots."""

HANDLERS = Metric(
    "kopf_handler_seconds", "histogram", ("handler", "kind", "outcome"),
    "The duration of attempts; the outcomes are success, retry, failure, waiting, rejection.",
)  # fmt: skip

REQUESTS = Metric(
    "kopf_request_seconds", "histogram", ("verb", "resource", "code"),
    "The duration of requests to the API; the code is `error` if there was no response.",
)  # fmt: skip

TIMEOUTS = Metric(
    "kopf_handler_timeouts_total", "counter", ("handler", "kind"),
    "Attempts that took longer than settings.execution.attempt_timeout.",
)  # fmt: skip

ROUNDS = Metric(
    "kopf_loop_rounds_total", "counter", ("handler", "kind"),
    "Calls for the operator's own changes, again and again: each of them delays the next one.",
)  # fmt: skip

METRICS = (*PULLED, HANDLERS, TIMEOUTS, ROUNDS, REQUESTS)
"""All the metrics: for the documentation, the board, and the alerts."""


def add_label(families: Iterable[Any], label: str, value: str) -> Iterator[Any]:
    """The families of metrics, with one more label of their samples."""
    for family in families:
        family.samples = [
            sample._replace(labels={**sample.labels, label: value}) for sample in family.samples
        ]
        yield family


def join_families(families: Iterable[Any]) -> Collection[Any]:
    """Join the families of metrics of the same name: each name can be exposed only once."""
    joint: dict[str, Any] = {}
    for family in families:
        known = joint.setdefault(family.name, family)
        if known is not family:
            known.samples = [*known.samples, *family.samples]
    return joint.values()


class Metrics(Instruments):
    """The metrics of one operator, beside the users' metrics in the default registry."""

    def __init__(self, namespaces: Collection[str] = ()) -> None:
        """Only the ``namespaces`` are labels as they are: all others are served by patterns."""
        import prometheus_client as prometheus
        from prometheus_client import core

        self._prometheus, self._core = prometheus, core
        self.registry = prometheus.CollectorRegistry()
        self._handlers = self._make_histogram(HANDLERS)
        self._requests = self._make_histogram(REQUESTS)
        self._timeouts = self._make_counter(TIMEOUTS)
        self._rounds = self._make_counter(ROUNDS)
        self._snapshot: Snapshot | None = None
        self._namespaces = {"", *namespaces}
        self.registry.register(self)

    def expose(self, snapshot: Snapshot, accept: str = "") -> tuple[bytes, str]:
        """The text of all the metrics, and its content type: one of the accepted types."""
        self._snapshot = snapshot
        return encode(self.registry, accept)

    def gather(self, snapshot: Snapshot) -> Iterable[Any]:
        """The families of these metrics, without the users' metrics."""
        self._snapshot = snapshot
        families: Iterable[Any] = self.registry.collect()
        return families

    def collect(self) -> Iterator[Any]:
        """Make the families: the library calls this when it makes the text."""
        if self._snapshot is None:
            return
        core = self._core
        for metric in PULLED:
            is_counter = metric.kind == "counter"
            cls = core.CounterMetricFamily if is_counter else core.GaugeMetricFamily
            family = cls(metric.name, metric.help, labels=metric.labels)
            for labels, value in self._bound(metric, self._snapshot):
                family.add_metric(labels, value)
            yield family

    def _bound(self, metric: Metric, snapshot: Snapshot) -> Iterable[Sample]:
        """The samples; all namespaces that are served by patterns have the same label."""
        if "namespace" not in metric.labels:
            return metric.sample(snapshot)
        position = metric.labels.index("namespace")
        joint: dict[tuple[str, ...], float] = {}
        for labels, value in metric.sample(snapshot):
            if labels[position] not in self._namespaces:
                labels = (*labels[:position], BY_PATTERN, *labels[position + 1 :])
            joint[labels] = metric.join(joint[labels], value) if labels in joint else value
        return joint.items()

    def on_attempt(self, handler: BaseHandler, outcome: Outcome, seconds: float) -> None:
        labels = (name_handler(handler), name_kind(handler), outcome.verdict)
        self._handlers.labels(*labels).observe(seconds)

    def on_timeout(self, handler: BaseHandler) -> None:
        self._timeouts.labels(name_handler(handler), name_kind(handler)).inc()

    def on_round(self, handler: BaseHandler) -> None:
        self._rounds.labels(name_handler(handler), name_kind(handler)).inc()

    def on_request(self, record: RequestRecord) -> None:
        verb, resource = parse_request(record.method, record.url)
        code = NO_RESPONSE if record.code is None else str(record.code)
        self._requests.labels(verb, resource, code).observe(record.seconds)

    def _make_counter(self, metric: Metric) -> Any:
        return self._prometheus.Counter(
            metric.name, metric.help, metric.labels, registry=self.registry
        )

    def _make_histogram(self, metric: Metric) -> Any:
        return self._prometheus.Histogram(
            metric.name, metric.help, metric.labels, buckets=BUCKETS, registry=self.registry
        )


def encode(registry: Any, accept: str) -> tuple[bytes, str]:
    """The text of these metrics and of the users' metrics, and its content type."""
    from prometheus_client import REGISTRY
    from prometheus_client.exposition import choose_encoder

    encoder, content_type = choose_encoder(accept)
    text = encoder(registry).removesuffix(b"# EOF\n")  # it ends the whole text only
    return text + encoder(REGISTRY), content_type


def make_registry(families: Collection[Any]) -> Any:
    """A registry that has just these families."""
    from prometheus_client.registry import Collector, CollectorRegistry

    class Joint(Collector):
        def collect(self) -> Collection[Any]:
            return families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Joint())
    return registry


def make_metrics(namespaces: Collection[str]) -> Metrics | None:
    """The metrics, if the library is installed. These namespaces are served by their names."""
    try:
        return Metrics(namespaces)
    except ImportError:
        return None


def parse_request(method: str, url: str) -> tuple[str, str]:
    """Tell the verb, as in the roles of Kubernetes, and the resource, with no names of objects."""
    path, _, query = url.partition("?")
    parts = path.strip("/").split("/")
    root = 3 if parts[0] == "apis" else 2
    group = parts[1] if parts[0] == "apis" and len(parts) > 1 else ""
    rest = parts[root:]
    if not rest:
        return method.lower(), "discovery"
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource = "/".join([rest[0], *rest[2:3]])
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    verb = verbs.get(method) or ("get" if len(rest) > 1 else "list")
    verb = "watch" if verb == "list" and "watch=true" in query else verb
    return verb, f"{resource}.{group}" if group else resource
