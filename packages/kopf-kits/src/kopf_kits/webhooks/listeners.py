"""Listening for connections: one socket for ever, with certificates that change under it."""

import asyncio
import logging
import os
import socket
import ssl
from typing import Any, NamedTuple

from aiohttp import web

from .endpoints import ReviewEndpoint

MAX_CONNECTIONS = 500
"""How many connections there can be at once: each takes up to 300 KB for TLS.

For new ones, those that have requested nothing yet are closed, the oldest first. API servers send
a request at once, and keep the connections that they have. It is the others who only connect.
"""

KEEPALIVE_TIMEOUT = 120.0
"""How long (in seconds) a connection is kept for the next request; API servers do for 90."""

ACCEPTING_DELAY = 1.0
"""How soon (in seconds) to try again if nothing can be accepted: e.g. too many files are open."""

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

    A TLS context cannot be changed as a whole while it is in use. So, connections are accepted
    one by one, each with the context of that moment: none is refused when it is replaced.
    The connections made before live on.
    """

    def __init__(self, endpoint: ReviewEndpoint, sock: socket.socket) -> None:
        super().__init__()
        self._sock = sock
        self._endpoint = endpoint
        self._context: ssl.SSLContext | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._greetings: set[asyncio.Task[None]] = set()
        self._newcomers: dict[Any, _Newcomer] = {}
        # With no routes: there is nothing to be chosen from, and reviews must be fast.
        server = web.Server(self._handle, handler_cancellation=True)  # when nobody waits for it
        self._runner = web.ServerRunner(server, shutdown_timeout=DRAINING_TIMEOUT)

    @property
    def port(self) -> int:
        """The port that is really listened on."""
        return int(self._sock.getsockname()[1])

    async def swap(self, context: ssl.SSLContext | None) -> None:
        """Accept all new connections with this context, or with no TLS. This starts it, too."""
        self._context = context
        if self._accepting is None:
            await self._runner.setup()
            self._sock.setblocking(False)
            self._accepting = asyncio.create_task(self._accept(), name="kopf-webhooks")

    async def close(self) -> None:
        """Accept nothing more, finish what is in work, and close all."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        self._sock.close()
        for newcomer in [*self._newcomers]:
            self._hang_up(newcomer)
        if self._greetings:
            await asyncio.wait(self._greetings)
        await self._runner.cleanup()

    async def _accept(self) -> None:
        while True:
            try:
                sock = await _accept_one(self._sock)
            except OSError as e:
                logger.debug(f"The webhook server cannot accept connections for now: {e}")
                await asyncio.sleep(ACCEPTING_DELAY)
                continue
            if self._is_full() and not self._newcomers:
                sock.close()
                continue
            if self._is_full():
                self._hang_up(next(iter(self._newcomers)))
            self._greet(sock)
            await asyncio.sleep(0)  # accepting never waits while there is anybody in the queue

    def _is_full(self) -> bool:
        server = self._runner.server
        established = 0 if server is None else len(server.connections)
        return established + len(self._greetings) >= MAX_CONNECTIONS

    def _greet(self, sock: socket.socket) -> None:
        assert self._runner.server is not None, "It is set up before anything is accepted."
        protocol = _Connection(self._runner.server)
        greeting = asyncio.create_task(self._shake_hands(sock, protocol))
        self._greetings.add(greeting)
        greeting.add_done_callback(self._greetings.discard)
        timer = asyncio.get_running_loop().call_later(SILENCE_TIMEOUT, self._hang_up, protocol)
        self._newcomers[protocol] = _Newcomer(greeting, timer)

    async def _shake_hands(self, sock: socket.socket, protocol: Any) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                sock,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else HANDSHAKE_TIMEOUT,
            )
        except OSError as e:  # incl. those of TLS, and the timeout
            logger.debug(f"A connection to the webhooks has failed: {type(e).__name__}")
            self._forget(protocol)

    def _hang_up(self, protocol: Any) -> None:
        """Close the connection that has requested nothing so far."""
        newcomer = self._forget(protocol)
        if newcomer is not None:
            newcomer.greeting.cancel()
            protocol.force_close()

    def _forget(self, protocol: Any) -> "_Newcomer | None":
        newcomer = self._newcomers.pop(protocol, None)
        if newcomer is not None:
            newcomer.timer.cancel()
        return newcomer

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        self._forget(request.protocol)
        return await self._endpoint.handle(request)


class _Newcomer(NamedTuple):
    """A connection that has requested nothing so far."""

    greeting: asyncio.Task[None]
    """The TLS handshake; with no TLS, it is over at once."""

    timer: asyncio.TimerHandle


class _Connection(web.RequestHandler):
    """A connection of the HTTP library, as quiet if it fails to parse as if it refuses to."""

    __slots__ = ()

    def __init__(self, server: web.Server) -> None:
        options: dict[str, Any] = {
            "access_log": None,
            "logger": _QuietLogger(logger),
            "auto_decompress": False,
            "keepalive_timeout": KEEPALIVE_TIMEOUT,
            "lingering_time": LINGERING_TIMEOUT,
        }
        super().__init__(server, loop=asyncio.get_running_loop(), **options)

    def data_received(self, data: bytes) -> None:
        """Parse the data; senseless addresses are failures in aiohttp before 3.14.5."""
        try:
            super().data_received(data)
        except Exception as e:
            logger.debug(f"A request to the webhooks cannot be parsed: {type(e).__name__}")
            self.force_close()


class _QuietLogger(logging.LoggerAdapter[logging.Logger]):
    """Of the HTTP library: its tracebacks of broken requests are of use only for those who debug.

    Otherwise, whoever can connect, could fill the log with them.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if self.isEnabledFor(logging.DEBUG):
            error = kwargs.pop("exc_info", None)
            reason = f": {type(error).__name__}" if isinstance(error, Exception) else ""
            self.logger.debug(f"{msg}{reason}", *args)


async def _accept_one(listening: socket.socket) -> socket.socket:
    """Accept a connection; if cancelled, none is lost, unlike with ``sock_accept()`` of loops."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            sock, _ = listening.accept()
        except (BlockingIOError, InterruptedError):
            readable = asyncio.Event()
            try:
                loop.add_reader(listening, readable.set)
            except NotImplementedError:  # the loops of Windows
                return (await loop.sock_accept(listening))[0]
            try:
                await readable.wait()
            finally:
                loop.remove_reader(listening)
        else:
            sock.setblocking(False)
            return sock


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
