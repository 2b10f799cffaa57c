"""Traces, by OpenTelemetry: a turn for an object, the handlers in it, and the requests in them.

Kopf traces nothing, and spends nothing on that, if the library is absent, or if there is no
configured provider, such as its SDK.
"""

import functools
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from kopf_cogs.aiokits.surroundings import get_clock
from kopf_cogs.clients.session import RequestRecord
from kopf_cogs.helpers.versions import get_version
from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.errors import SubhandlersPending
from kopf_core.actions.instruments import Instruments, name_handler, name_kind
from kopf_core.actions.outcomes import Outcome
from kopf_core.actions.retrying import describe

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


class Traces(Instruments):
    """Makes the spans of one operator, with the tracer of the configured provider.

    If the operator is for one of several clusters, all spans have the name of the cluster.
    """

    is_tracing = True

    def __init__(self, tracer: "Tracer", cluster: str | None) -> None:
        from opentelemetry import trace

        self._trace, self._tracer = trace, tracer
        self._common = {} if cluster is None else {"k8s.cluster.name": cluster}

    def trace_turn(
        self, resource: str, namespace: str | None, name: str
    ) -> AbstractContextManager[object]:
        attributes = {"kopf.resource": resource, "kopf.name": name}
        if namespace:
            attributes["k8s.namespace.name"] = namespace
        return self._start(f"turn {resource}", attributes)

    def trace_attempt(self, handler: BaseHandler) -> AbstractContextManager[object]:
        attributes = {"kopf.handler": str(handler.id), "kopf.handler.kind": name_kind(handler)}
        return self._start(f"handler {name_handler(handler)}", attributes)

    def on_attempt(self, handler: BaseHandler, outcome: Outcome, seconds: float) -> None:
        """Record the outcome in the current span, which is the span of the attempt."""
        span, exc = self._trace.get_current_span(), outcome.exception
        span.set_attribute("kopf.outcome", outcome.verdict)
        is_failure = outcome.verdict in ("failure", "retry")
        if exc is not None and is_failure and not isinstance(exc, SubhandlersPending):
            span.set_attribute("error.type", type(exc).__qualname__)
            span.record_exception(exc)
            span.set_status(self._trace.StatusCode.ERROR, describe(exc))

    def on_request(self, record: RequestRecord) -> None:
        """Make the span of an ended request, inside of the span that has sent the request."""
        end = int(get_clock().now().timestamp() * 1e9)
        span = self._tracer.start_span(
            record.method,  # the paths are not for titles: there are too many of them
            kind=self._trace.SpanKind.CLIENT,
            start_time=end - int(record.seconds * 1e9),
            attributes={
                "http.request.method": record.method,
                "url.full": f"{_hide_password(record.server)}{record.url}",
                "url.path": record.url.partition("?")[0],
                **_describe_server(record.server),
                **self._common,
            },
        )
        if record.code is not None:
            span.set_attribute("http.response.status_code", record.code)
        if record.code is None or record.code >= 400:
            span.set_attribute("error.type", record.error or str(record.code))
            span.set_status(self._trace.StatusCode.ERROR)
        span.end(end)

    @contextmanager
    def _start(self, title: str, attributes: Mapping[str, str]) -> Iterator[None]:
        with self._tracer.start_as_current_span(title, attributes={**attributes, **self._common}):
            yield


@functools.lru_cache(maxsize=8)
def _describe_server(url: str) -> Mapping[str, str | int]:
    parts = urllib.parse.urlsplit(url)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    return {"server.address": parts.hostname or "", "server.port": port}


@functools.lru_cache(maxsize=8)
def _hide_password(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")


def make_traces(cluster: str | None = None) -> Traces | None:
    """Make the traces; ``None`` if the library is absent, or if no provider takes them."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return Traces(provider.get_tracer("kopf", str(get_version())), cluster)
