"""Listening for connections: one socket for ever, with certificates that change under it."""

import asyncio
import logging
import os
import socket
import ssl
from typing import Any

from aiohttp import web

from .endpoints import ReviewEndpoint

MAX_CONNECTIONS = 1000
"""How many connections are served at once; more are closed at once. An API server keeps a few."""

SILENCE_TIMEOUT = 30.0
"""How long (in seconds) a new connection can be without a request, be it whole or in parts."""

HANDSHAKE_TIMEOUT = 10.0
"""How long (in seconds) a TLS handshake can take."""

LINGERING_TIMEOUT = 2.0
"""How long (in seconds) the rest of a refused body is read, so that the caller sees the answer."""

DRAINING_TIMEOUT = 5.0
"""How long (in seconds) the requests in work are waited for when the server is closed."""

logger = logging.getLogger("kopf.webhooks")


class WebhookServerError(Exception):
    """The webhooks cannot be served; the message is one line for the user."""

    expected = True


class Listener:
    """An HTTP server on one socket.

    A TLS context cannot be changed as a whole while it is in use. So, a new one gets a duplicate
    of the socket, and the previous duplicate is closed. The queue of connections is common for
    them: none is refused. The connections made before live on.
    """

    def __init__(self, endpoint: ReviewEndpoint, sock: socket.socket) -> None:
        super().__init__()
        self._sock = sock
        self._endpoint = endpoint
        self._accepting: asyncio.Server | None = None
        self._silent: dict[Any, asyncio.TimerHandle] = {}
        # With no routes: there is nothing to be chosen from, and reviews must be fast.
        server = web.Server(
            self._handle,
            access_log=None,
            logger=_QuietLogger(logger),
            auto_decompress=False,
            handler_cancellation=True,  # nobody waits for the answer anymore
            lingering_time=LINGERING_TIMEOUT,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=DRAINING_TIMEOUT)

    @property
    def port(self) -> int:
        """The port that is really listened on."""
        return int(self._sock.getsockname()[1])

    async def swap(self, context: ssl.SSLContext | None) -> None:
        """Accept all new connections with this context, or with no TLS. This starts it, too."""
        if self._runner.server is None:
            await self._runner.setup()
        loop = asyncio.get_running_loop()
        previous = self._accepting
        self._accepting = await loop.create_server(
            self._make_protocol,
            sock=self._sock.dup(),
            ssl=context,
            ssl_handshake_timeout=None if context is None else HANDSHAKE_TIMEOUT,
        )
        if previous is not None:
            previous.close()

    async def close(self) -> None:
        """Accept nothing more, finish what is in work, and close all."""
        if self._accepting is not None:
            self._accepting.close()
        self._sock.close()
        await self._runner.cleanup()
        for timer in self._silent.values():
            timer.cancel()
        self._silent.clear()

    def _make_protocol(self) -> asyncio.Protocol:
        server = self._runner.server
        if server is None or len(server.connections) >= MAX_CONNECTIONS:
            return _Refusing()
        protocol = server()
        loop = asyncio.get_running_loop()
        self._silent[protocol] = loop.call_later(SILENCE_TIMEOUT, self._hang_up, protocol)
        return protocol

    def _hang_up(self, protocol: Any) -> None:
        self._silent.pop(protocol, None)
        protocol.force_close()

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        timer = self._silent.pop(request.protocol, None)
        if timer is not None:
            timer.cancel()
        return await self._endpoint.handle(request)


class _QuietLogger(logging.LoggerAdapter[logging.Logger]):
    """Of the HTTP library: its tracebacks of broken requests are of use only for those who debug.

    Otherwise, whoever can connect, could fill the log with them.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if self.isEnabledFor(logging.DEBUG):
            error = kwargs.pop("exc_info", None)
            reason = f": {type(error).__name__}" if isinstance(error, Exception) else ""
            self.logger.debug(f"{msg}{reason}", *args)


class _Refusing(asyncio.Protocol):
    """Closes the connection as soon as it is there."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def open_socket(addr: str | None, port: int | None) -> socket.socket:
    """Listen on the address (all addresses by default) and the port (any free one by default).

    Raises :class:`WebhookServerError` if it is not possible.
    """
    try:
        return _open_socket(addr, port or 0)
    except OSError as e:
        reason = os.strerror(e.errno).lower() if e.errno and e.errno > 0 else str(e)
        place = f"{addr or '*'}:{port}" if port else addr or "*"
        raise WebhookServerError(f"Cannot serve the webhooks at {place}: {reason}") from e


def _open_socket(addr: str | None, port: int) -> socket.socket:
    if addr:
        infos = socket.getaddrinfo(addr, port, type=socket.SOCK_STREAM)
        family, _, _, _, target = infos[0]
        return socket.create_server(target, family=family)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError:
            pass  # IPv6 can be compiled in, but switched off
    return socket.create_server(("", port))
