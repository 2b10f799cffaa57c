"""The endpoint of probes and metrics: for machines, and open to all clients that reach it.

* ``/livez`` is for liveness probes: restart the operator if it fails.
* ``/readyz`` is for readiness probes: all is known, all streams are there.
* ``/metrics`` is for Prometheus.

There are neither names of objects nor texts of errors. The status has them.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kopf_core.engines.listening import View, listen
from kopf_core.engines.serving.snapshots import Snapshot, StatusSource

if TYPE_CHECKING:
    from aiohttp import web
import asyncio

logger = logging.getLogger("kopf.serving")

Exposition = Callable[[Snapshot, str], tuple[bytes, str]]
"""Turns a snapshot and the accepted types into the text of metrics and its content type."""


PERIOD = 1.0
"""How often (in seconds) the pulse is measured."""

REMEMBERED = 60.0
"""For how long (in seconds) a lag is shown: it is over before any client can ask for it."""


class Pulse:
    """Measures the lag of the loop it is started in, until it is stopped.

    ``lag`` is the largest lag of the last minute. With each beat, the source notes the
    facts that can only be noted regularly.
    """

    def __init__(self, source: StatusSource) -> None:
        self.lag = 0.0
        self._until = 0.0
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None

    def __enter__(self) -> "Pulse":
        self._schedule()
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _schedule(self) -> None:
        due = self._loop.time() + PERIOD
        self._handle = self._loop.call_at(due, self._beat, due)

    def _beat(self, due: float) -> None:
        now = self._loop.time()
        lag = max(0.0, now - due)
        if lag >= self.lag or now >= self._until:
            self.lag, self._until = lag, now + REMEMBERED
        self._source.look()
        self._schedule()


class Endpoint:
    """Answers all the requests; for liveness, by the same view as the separate probes."""

    def __init__(
        self,
        source: StatusSource,
        *,
        livez: View,
        expose: Exposition | None = None,
    ) -> None:
        self._source = source
        self._livez = livez
        self._expose = expose
        self._pulse = Pulse(source)

    async def serve(self, url: str) -> None:
        """Serve until cancelled. Raises the errors of :func:`listen`."""
        views = {
            "/livez": self._livez,
            "/readyz": self._show_readiness,
            "/metrics": self._show_metrics,
        }
        with self._pulse:
            logger.debug(f"Serving the probes & metrics at {url}")
            await listen(views, url, title="the probes & metrics")

    async def _show_readiness(self, _: "web.BaseRequest") -> "web.Response":
        from aiohttp import web

        unready = list(self._source.find_unready())
        return web.json_response({"unready": unready}, status=503 if unready else 200)

    async def _show_metrics(self, request: "web.BaseRequest") -> "web.Response":
        from aiohttp import web

        if self._expose is None:
            text = "There are no metrics: install the extra, e.g. `pip install 'kopf[metrics]'`.\n"
            return web.Response(status=501, text=text)
        snapshot = replace(self._source.take(), loop_lag=self._pulse.lag)
        text_bytes, content_type = self._expose(snapshot, request.headers.get("Accept", ""))
        return web.Response(body=text_bytes, headers={"Content-Type": content_type})
