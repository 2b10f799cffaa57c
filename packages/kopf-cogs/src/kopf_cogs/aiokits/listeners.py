"""Listening for HTTP connections on one socket, with limits for the clients.

Any client that can reach the port can open connections, and be silent during a request or after it.
So no client holds an idle connection for long. When there are too many connections, the oldest idle
ones give way to the new ones. Requests that only read give way, too. Other requests never do.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection
from typing import Any, cast

import aiohttp
from aiohttp import web

MAX_CONNECTIONS = 500
"""How many connections there can be at once: each takes up to 300 KB for TLS."""

MAX_PEER_CONNECTIONS = 250
"""How many connections one address can have; all clients of a proxy have its address."""

KEEPALIVE_TIMEOUT = 120.0
"""How long (in seconds) a connection is kept for the next request; API servers keep it for 90."""

ACCEPTING_DELAY = 1.0
"""How soon (in seconds) to try again if nothing can be accepted: e.g. too many files are open."""

SILENCE_TIMEOUT = 30.0
"""How long (in seconds) a new connection can be without a request, silent or sending in parts."""

HANDSHAKE_TIMEOUT = 10.0
"""How long (in seconds) a TLS handshake can take."""

LINGERING_TIMEOUT = 2.0
"""How long (in seconds) the rest of a refused body is read, so that the caller sees the answer."""

DRAINING_TIMEOUT = 5.0
"""How long (in seconds) the server waits for running requests when it is closed."""

CLOSING_CYCLES = 3
"""How many cycles of the loop are enough to close the connections that are hung up."""

SAFE_METHODS = ("GET", "HEAD")
"""Such requests change nothing, and can be sent again."""

Handle = Callable[[web.BaseRequest], Awaitable[web.Response]]


class Listener:
    """An HTTP server on one socket.

    A TLS context cannot be changed as a whole while it is in use. So, the listener accepts
    connections one by one, each with the context of that moment. It refuses no connection when
    the context is replaced. The earlier connections live on.
    """

    def __init__(self, handle: Handle, sock: socket.socket, logger: logging.Logger) -> None:
        super().__init__()
        self._sock = sock
        self._handle = handle
        self._logger = logger
        self._context: ssl.SSLContext | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._greetings: set[asyncio.Task[None]] = set()
        self._connections: set[_Connection] = set()
        # With no routes: all requests go to one function, and reviews must be fast.
        server = web.Server(self._respond, handler_cancellation=True)  # when no client waits
        self._runner = web.ServerRunner(server, shutdown_timeout=DRAINING_TIMEOUT)

    @property
    def port(self) -> int:
        """The port that is really listened on."""
        return int(self._sock.getsockname()[1])

    async def swap(self, context: ssl.SSLContext | None) -> None:
        """Accept all new connections with this context, or with no TLS. It starts the listener."""
        self._context = context
        if self._accepting is None:
            await self._runner.setup()
            self._sock.setblocking(False)
            self._accepting = asyncio.create_task(self._accept(), name="kopf-listener")

    async def close(self) -> None:
        """Accept no more connections, finish the running requests, and close all connections."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        self._sock.close()
        for connection in [*self._connections]:
            if not connection.has_asked:
                connection.hang_up()
        if self._greetings:
            await asyncio.wait(self._greetings)
        await self._runner.cleanup()
        for connection in [*self._connections]:
            connection.hang_up()  # TLS waits for the farewells of peers, but the loop can end now
        for _ in range(CLOSING_CYCLES):
            await asyncio.sleep(0)

    async def _accept(self) -> None:
        while True:
            try:
                sock, peer = await _accept_one(self._sock)
            except OSError as e:
                self._logger.debug(f"Connections cannot be accepted for now: {e}")
                await asyncio.sleep(ACCEPTING_DELAY)
                continue
            if self._make_room(peer):
                self._greet(sock, peer)
            else:
                sock.close()
            await asyncio.sleep(0)  # accepting never waits while connections are queued

    def _make_room(self, peer: str) -> bool:
        """Whether one more connection can be accepted; an idle one gives way if needed."""
        same = [one for one in self._connections if one.peer == peer]
        if len(same) >= MAX_PEER_CONNECTIONS:
            return _hang_up_one(same)
        return len(self._connections) < MAX_CONNECTIONS or _hang_up_one(self._connections)

    def _greet(self, sock: socket.socket, peer: str) -> None:
        assert self._runner.server is not None, "It is set up before anything is accepted."
        connection = _Connection(self._runner.server, peer, self._connections, self._logger)
        greeting = asyncio.create_task(self._shake_hands(sock, connection))
        self._greetings.add(greeting)
        greeting.add_done_callback(self._greetings.discard)
        connection.greet(greeting)

    async def _shake_hands(self, sock: socket.socket, connection: "_Connection") -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                sock,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else HANDSHAKE_TIMEOUT,
            )
        except OSError as e:  # incl. errors of TLS, and the timeout
            self._logger.debug(f"A connection has failed: {type(e).__name__}")
            connection.leave()

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        connection = request.protocol
        assert isinstance(connection, _Connection), "All are made here."
        connection.begin(None if request.method in SAFE_METHODS else request.content)
        try:
            return await self._handle(request)
        finally:
            connection.rest()


class _Connection(web.RequestHandler):
    """A connection of the HTTP library that is as quiet on unparsable requests as on refused ones.

    It is busy since a request has come with its whole body, until the response is sent out to the
    system. Otherwise, it is idle: the listener can hang it up at any time, and does in the end.
    Requests that only read do not make it busy: e.g. hanging probes must not hold all places.
    Handlers limit the time of bodies, if they read any.
    """

    __slots__ = (
        "_all",
        "_content",
        "_greeting",
        "_quiet",
        "_timer",
        "_wire",
        "has_asked",
        "peer",
        "quiet_since",
    )

    def __init__(
        self,
        server: web.Server,
        peer: str,
        all: "set[_Connection]",
        logger: logging.Logger,
    ) -> None:
        options: dict[str, Any] = {
            "access_log": None,
            "logger": _QuietLogger(logger),
            "auto_decompress": False,
            "keepalive_timeout": KEEPALIVE_TIMEOUT,
            "lingering_time": LINGERING_TIMEOUT,
        }
        loop = asyncio.get_running_loop()
        super().__init__(server, loop=loop, **options)
        self.peer = peer
        self.has_asked = False
        self.quiet_since = loop.time()
        self._all = all
        self._quiet = logger
        self._content: aiohttp.StreamReader | None = None
        self._greeting: asyncio.Task[None] | None = None
        self._wire: asyncio.WriteTransport | None = None
        self._timer = loop.call_later(SILENCE_TIMEOUT, self.hang_up)

    def greet(self, greeting: asyncio.Task[None]) -> None:
        """Count the connection from the TLS handshake on; with no TLS, that ends at once."""
        self._greeting = greeting
        self._all.add(self)

    @property
    def is_busy(self) -> bool:
        """Whether there is a whole request, with no response yet."""
        return self._content is not None and self._content.is_eof()

    def begin(self, content: aiohttp.StreamReader | None) -> None:
        """There is a request. Its body can be on its way yet; requests that only read have none."""
        self.has_asked = True
        self.quiet_since = asyncio.get_running_loop().time()
        self._content = content
        self._timer.cancel()

    def rest(self) -> None:
        """There is a response: the connection is idle until the next request or a hang-up."""
        self._content = None
        if self in self._all:
            loop = asyncio.get_running_loop()
            self.quiet_since = loop.time()
            self._timer = loop.call_later(KEEPALIVE_TIMEOUT, self.hang_up)

    def leave(self) -> None:
        """Do not count the connection anymore."""
        self._timer.cancel()
        self._all.discard(self)

    def hang_up(self) -> None:
        """Close the connection at once, and do not wait until the peer agrees or reads the rest."""
        self.leave()
        if self._greeting is not None:
            self._greeting.cancel()
        if self._wire is not None:
            self._wire.abort()
        self.force_close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The library forgets the transport when it begins to close. uvloop has its own classes.
        self._wire = cast("asyncio.WriteTransport", transport)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data. Before 3.14.5, aiohttp fails on senseless addresses."""
        try:
            super().data_received(data)
        except Exception as e:
            self._quiet.debug(f"A request cannot be parsed: {type(e).__name__}")
            self.force_close()


class _QuietLogger(logging.LoggerAdapter[logging.Logger]):
    """The logger of the HTTP library: it logs broken requests only for debugging, in one line each.

    Otherwise, any client that can connect could fill the log with tracebacks.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if self.isEnabledFor(logging.DEBUG):
            error = kwargs.pop("exc_info", None)
            reason = f": {type(error).__name__}" if isinstance(error, Exception) else ""
            self.logger.debug(f"{msg}{reason}", *args)


def _hang_up_one(connections: Collection[_Connection]) -> bool:
    """Hang up the connection that is idle for the longest time: before, amid, or after a request.

    So, the clients that have just connected have the time for a handshake and a request.
    """
    idle = [one for one in connections if not one.is_busy]
    if idle:
        min(idle, key=lambda one: one.quiet_since).hang_up()
    return bool(idle)


async def _accept_one(listening: socket.socket) -> tuple[socket.socket, str]:
    """Accept a connection; return its socket, and the address of its client.

    A cancellation loses no connection, unlike with ``sock_accept()`` of loops.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            sock, address = listening.accept()
        except (BlockingIOError, InterruptedError):
            readable = asyncio.Event()
            try:
                loop.add_reader(listening, readable.set)
            except NotImplementedError:  # the loops of Windows
                sock, address = await loop.sock_accept(listening)
                return sock, str(address[0])
            try:
                await readable.wait()
            finally:
                loop.remove_reader(listening)
        else:
            sock.setblocking(False)
            return sock, str(address[0])
