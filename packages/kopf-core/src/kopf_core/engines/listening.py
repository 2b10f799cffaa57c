"""Listening: a small HTTP server of the operator itself, such as for probes and metrics."""

import asyncio
import errno
import functools
import logging
import os
import socket
import urllib.parse
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from aiohttp import web

View: TypeAlias = "Callable[[web.BaseRequest], Awaitable[web.Response]]"

Relay: TypeAlias = "Callable[[Mapping[str, View], str, str], Awaitable[None]]"
"""Serves the views for that address and title, until cancelled."""

relay_var: "ContextVar[Relay | None]" = ContextVar("kopf_relay", default=None)
"""The relay that listens instead of this process, if it is one of several."""

logger = logging.getLogger("kopf.serving")


class ListeningError(OSError):
    """The address cannot be listened on; the message says why, in one line."""

    expected = True


def parse_endpoint(endpoint: str) -> tuple[str | None, int, str]:
    """Take the host, the port, and the path of the URL, such as ``http://0.0.0.0:8080/healthz``.

    Raises :class:`ValueError` if it is not understood.
    """
    parts = urllib.parse.urlsplit(endpoint)
    if parts.scheme != "http" or not parts.port:
        raise ValueError(f"Only http://host:port/path is supported: {endpoint!r}")
    return parts.hostname, parts.port, parts.path


async def listen(views: Mapping[str, View], endpoint: str, *, title: str) -> None:
    """Serve the views by their paths, until cancelled.

    Raises :class:`ListeningError` if the address cannot be listened on.
    """
    relay = relay_var.get()
    if relay is not None:
        await relay(views, endpoint, title)
        return
    host, port, _ = parse_endpoint(endpoint)
    try:
        sockets = await open_sockets(host, port)
    except OSError as e:
        reason = os.strerror(e.errno) if e.errno is not None and e.errno > 0 else str(e)
        message = f"Cannot serve {title} at {endpoint}: {reason.lower()}"
        raise ListeningError(message) from e
    await serve(views, sockets)


async def serve(views: Mapping[str, View], sockets: Collection[socket.socket]) -> None:
    """Serve the views on these sockets, until cancelled; then, close them."""
    from kopf_cogs.aiokits.listeners import Listener  # most operators serve nothing; it is heavy

    handle = functools.partial(_dispatch, views)
    listeners = [Listener(handle, sock, logger) for sock in sockets]
    try:
        for listener in listeners:
            await listener.swap(None)
        await asyncio.Event().wait()
    finally:
        await asyncio.gather(*(listener.close() for listener in listeners))


async def _dispatch(views: Mapping[str, View], request: "web.BaseRequest") -> "web.Response":
    """Answer one request of the connection. Thousands at once would block the event loop."""
    response = await _answer(views, request)
    response.force_close()
    return response


async def _answer(views: Mapping[str, View], request: "web.BaseRequest") -> "web.Response":
    from aiohttp import web

    view = views.get(request.path)
    if view is None:
        return web.Response(status=404, text="404: Not Found")
    if request.method not in ("GET", "HEAD"):
        return web.Response(status=405, text="405: Method Not Allowed", headers={"Allow": "GET"})
    try:
        return await view(request)
    except Exception as e:
        logger.exception(f"A request to {request.path} has failed: {type(e).__name__}")
        return web.Response(status=500, text="500: Internal Server Error")


async def open_sockets(host: str | None, port: int) -> list[socket.socket]:
    """Listen on all addresses of the host, except for addresses that this machine does not have."""
    loop, sockets, problem = (
        asyncio.get_running_loop(),
        list[socket.socket](),
        OSError("no address"),
    )
    kinds = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, _, _, _, address in dict.fromkeys(kinds):
            try:
                sockets.append(socket.create_server(address, family=family))
            except OSError as e:
                if e.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                problem = e
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    if not sockets:
        raise problem
    return sockets
