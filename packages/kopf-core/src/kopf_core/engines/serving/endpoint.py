"""The endpoint: everything that the operator tells about itself, at one address.

* ``/livez`` is for liveness probes: restart the operator if it fails.
* ``/readyz`` is for readiness probes: all is known, all streams are there.
* ``/metrics`` is for Prometheus.
* ``/status`` is for people, ``/status.json`` is the same for scripts.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kopf_core.engines.listening import View, listen
from kopf_core.engines.serving.errors import LatestErrors
from kopf_core.engines.serving.page import render_page
from kopf_core.engines.serving.pulse import Pulse
from kopf_core.engines.serving.snapshots import Snapshot, StatusSource

if TYPE_CHECKING:
    from aiohttp import web

logger = logging.getLogger("kopf.serving")

Exposition = Callable[[Snapshot], tuple[bytes, str]]
"""Turns a snapshot into the text of metrics and its content type."""


class Endpoint:
    """Answers all the requests, but for liveness: that is the same as in the separate probes."""

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
        self._errors = LatestErrors()
        self._pulse = Pulse()

    async def serve(self, url: str) -> None:
        """Serve until cancelled. Raises the errors of :func:`listen`."""
        views = {
            "/": self._redirect,
            "/livez": self._livez,
            "/readyz": self._show_readiness,
            "/metrics": self._show_metrics,
            "/status": self._show_page,
            "/status.json": self._show_json,
        }
        with self._errors, self._pulse:
            logger.debug(f"Serving the probes, metrics & status at {url}")
            await listen(views, url, title="the status")

    def take(self) -> Snapshot:
        """The snapshot of the operator, with what is known only here."""
        snapshot = self._source.take()
        return replace(snapshot, errors=self._errors.items, loop_lag=self._pulse.lag)

    async def _redirect(self, _: "web.BaseRequest") -> "web.Response":
        from aiohttp import web

        return web.Response(status=302, headers={"Location": "/status"})

    async def _show_readiness(self, _: "web.BaseRequest") -> "web.Response":
        from aiohttp import web

        unready = list(self._source.find_unready())
        return web.json_response({"unready": unready}, status=503 if unready else 200)

    async def _show_json(self, _: "web.BaseRequest") -> "web.Response":
        from aiohttp import web

        text = json.dumps(self.take().as_json(), indent=2)
        return web.Response(text=text, content_type="application/json")

    async def _show_page(self, _: "web.BaseRequest") -> "web.Response":
        from aiohttp import web

        headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        text = render_page(self.take())
        return web.Response(text=text, content_type="text/html", headers=headers)

    async def _show_metrics(self, _: "web.BaseRequest") -> "web.Response":
        from aiohttp import web

        if self._expose is None:
            text = "There are no metrics: install the extra, e.g. `pip install kopf[metrics]`.\n"
            return web.Response(status=501, text=text)
        text_bytes, content_type = self._expose(self.take())
        return web.Response(body=text_bytes, headers={"Content-Type": content_type})
