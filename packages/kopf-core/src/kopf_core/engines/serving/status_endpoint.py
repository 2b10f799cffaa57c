"""The status: the work of the operator, for people at ``/status``, for scripts as JSON.

It names objects, and has texts of errors. So Kopf does not serve it by default. On a loopback
address, only users who can get into the pod see it. On other addresses, only clients with the token
see it.
"""

import datetime
import hmac
import ipaddress
import json
import logging
import urllib.parse
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kopf_core.engines.listening import View, listen, parse_endpoint
from kopf_core.engines.serving.endpoint import Pulse
from kopf_core.engines.serving.page import render_page
from kopf_core.engines.serving.snapshots import NOT_SHOWN, ErrorSnapshot, Snapshot, StatusSource

if TYPE_CHECKING:
    from aiohttp import web

logger = logging.getLogger("kopf.serving")

TITLE = "the status"
"""The name of the served page, for messages, and for the supervisor of several processes."""

PAGE = "/status"
DATA = "/status.json"

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    ),
}


class StatusSetupError(Exception):
    """The status cannot be served as it is configured."""

    expected = True


MAX_ERRORS = 20
"""How many of the errors are remembered."""

MAX_FAILURES = 3
"""How many of the failed requests are remembered: in an outage, there are too many of them."""

REQUESTS = "kopf_cogs.clients.session"
"""The logger of the requests that are repeated."""

MAX_LENGTH = 500
"""How long the remembered messages can be."""


class LatestErrors(logging.Handler):
    """Remembers the latest messages of one logger, while entered."""

    def __init__(self, name: str, level: int, size: int) -> None:
        super().__init__(level)
        self.items: deque[ErrorSnapshot] = deque(maxlen=size)
        self._logger = logging.getLogger(name)

    def __enter__(self) -> "LatestErrors":
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        time = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        try:
            message = record.getMessage()
        except Exception:
            return  # other handlers of the logger report wrong formats of messages
        self.items.append(
            ErrorSnapshot(
                time=time.isoformat(timespec="seconds"),
                cluster=getattr(record, "k8s_cluster", None),
                logger=record.name,
                message=(_name_object(record) + (NOT_SHOWN if _is_secret(record) else message))[
                    :MAX_LENGTH
                ],
            )
        )


def _is_secret(record: logging.LogRecord) -> bool:
    ref = getattr(record, "k8s_ref", None)
    is_of_object = isinstance(ref, Mapping) and ref.get("kind") == "Secret"
    return is_of_object or (record.name == REQUESTS and "/secrets" in record.getMessage())


def _name_object(record: logging.LogRecord) -> str:
    """Name the object of the record, if there is one."""
    ref = getattr(record, "k8s_ref", None)
    if not isinstance(ref, Mapping):
        return ""
    path = "/".join(str(ref[key]) for key in ("namespace", "name") if ref.get(key))
    return f"{ref.get('kind') or 'object'} {path}: "


class StatusEndpoint:
    """Shows the status to the clients that may see it."""

    def __init__(self, source: StatusSource, url: str, token: str | None) -> None:
        self._source = source
        self._url = url
        self._host = parse_endpoint(url)[0] or ""
        self._token = token or None
        self._errors = LatestErrors("kopf", logging.ERROR, MAX_ERRORS)
        self._failures = LatestErrors(REQUESTS, logging.WARNING, MAX_FAILURES)
        self._pulse = Pulse(source)

    async def serve(self) -> None:
        """Serve until cancelled. Raises the errors of :func:`listen`.

        Raises :class:`StatusSetupError` if any client could see the status.
        """
        if self._token is None and not is_loopback(self._host):
            raise StatusSetupError(
                f"The status is not to be served at {self._url}: it names objects, and shows "
                "texts of errors. Use a loopback address, such as http://127.0.0.1:8081, or set "
                "`settings.serving.token`."
            )
        views = {"/": self._redirect, PAGE: self._show, DATA: self._show}
        guarded = {path: self._guard(view) for path, view in views.items()}
        with self._errors, self._failures, self._pulse:
            logger.debug(f"Serving the status at {self._url}")
            await listen(guarded, self._url, title=TITLE)

    def _guard(self, view: View) -> View:
        async def guarded(request: "web.BaseRequest") -> "web.Response":
            from aiohttp import web

            if not is_own_host(request.headers.get("Host", ""), self._host):
                return web.Response(status=403, text="403: The Host is not known here.\n")
            if self._token is not None and not has_token(request.headers, self._token):
                headers = {"WWW-Authenticate": "Bearer"}
                return web.Response(status=401, text="401: A token is needed.\n", headers=headers)
            response = await view(request)
            response.headers.update(HEADERS)
            return response

        return guarded

    def _take(self) -> Snapshot:
        """The snapshot of the operator, with the errors and the lag that are known only here."""
        snapshot = self._source.take()
        errors = [*reversed(self._failures.items), *reversed(self._errors.items)]
        errors.sort(key=lambda error: error.time, reverse=True)
        return replace(snapshot, errors=tuple(errors), loop_lag=self._pulse.lag)

    async def _redirect(self, _: "web.BaseRequest") -> "web.Response":
        from aiohttp import web

        return web.Response(status=302, headers={"Location": PAGE})

    async def _show(self, request: "web.BaseRequest") -> "web.Response":
        return show_snapshot(self._take(), request.path)


def show_snapshot(snapshot: Snapshot, path: str) -> "web.Response":
    """Make the page for people, or the JSON for scripts."""
    from aiohttp import web

    if path == PAGE:
        return web.Response(text=render_page(snapshot), content_type="text/html")
    text = json.dumps(snapshot.as_json(), indent=2)
    return web.Response(text=text, content_type="application/json")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_own_host(header: str, host: str) -> bool:
    """Whether the browser asks for an address, and not for a foreign name that resolves to it."""
    try:
        name = urllib.parse.urlsplit(f"//{header}").hostname or ""
        if name in (host, "localhost"):
            return True
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def has_token(headers: Mapping[str, str], token: str) -> bool:
    scheme, _, given = headers.get("Authorization", "").partition(" ")
    sent = given.encode("utf-8", "surrogateescape")  # the very bytes, even if they are not UTF-8
    return scheme.lower() == "bearer" and hmac.compare_digest(sent, token.encode())
