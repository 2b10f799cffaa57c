"""HTTP sessions made of credentials, and closed when both refused and unused."""

import asyncio
import contextvars
import logging
import math
import re
import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp
import yarl

from kopf_cogs.aiokits import clocks
from kopf_cogs.clients import errors, proxies, renewals
from kopf_cogs.clients.vault import Vault, VaultItem
from kopf_cogs.helpers import versions
from kopf_cogs.structs import credentials

# Watch-streams are read by big chunks when they bring a lot; nothing is allocated in advance.
_READ_BUFFER = 256 * 1024


MAX_REDIRECTS = 3
"""How many times in a row a request can be redirected."""

_REDIRECTS = frozenset({307, 308})

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
"""The characters that would end a header and begin another one."""


class Connection:
    """A pool of connections to one API server with the same credentials.

    A retired connection closes only when the last of its requests has finished. The requests
    that run in parallel with the refused one should end with their own outcomes.
    """

    __slots__ = (
        "_closing",
        "_identity",
        "_inflight",
        "_options",
        "_origin",
        "_parts",
        "_retired",
        "item",
        "session",
    )

    def __init__(self, item: VaultItem) -> None:
        super().__init__()
        self.item = item
        self._origin, self._parts = _parse_server(item.info.server)
        self._options = _make_options(item.info)
        identity = _make_identity(item.info)
        # Headers of the session go to the proxy, too; headers of requests go to the server only.
        self._identity = identity if "proxy" in self._options else []
        self.session = _make_session(item.info, [] if self._identity else identity)
        self._closing: asyncio.Task[None] | None = None
        self._inflight = 0
        self._retired = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.item.key}>"

    async def request(
        self,
        method: str,
        url: str,
        data: bytes | aiohttp.BytesPayload | None,
        headers: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send the request, and wait for the headers of the response.

        Redirects are followed within the same server, if they mean the same request (307, 308).
        """
        time = asyncio.get_running_loop().time
        target, redirects, began = self._locate(url), 0, time()
        while True:
            response = await self.session.request(
                method,
                target,
                data=data,
                headers=[*self._identity, *(headers or {}).items()] if self._identity else headers,
                timeout=timeout,
                allow_redirects=False,  # otherwise, credentials can be sent elsewhere
                **self._options,
            )
            if response.status not in _REDIRECTS or redirects == MAX_REDIRECTS:
                return response
            elsewhere = self._find_redirect(response)
            if elsewhere is None:
                return response
            response.release()
            target, redirects = elsewhere, redirects + 1
            timeout, began = _reduce(timeout, time() - began), time()

    def _find_redirect(self, response: aiohttp.ClientResponse) -> yarl.URL | None:
        """The URL for the same request, if the redirect is within the same server."""
        try:
            location = yarl.URL(response.headers.get("Location", ""), encoded=True)
            target = response.url.join(location)
            return target if location and target.origin() == self._origin else None
        except ValueError:
            return None

    def _locate(self, url: str) -> yarl.URL:
        """The whole URL, made of its known parts: to parse it would take several times longer."""
        scheme, authority, root = self._parts
        path, _, query = url.partition("?")
        return yarl.URL.build(
            scheme=scheme, authority=authority, path=root + path, query_string=query, encoded=True
        )

    def __enter__(self) -> "Connection":
        self._inflight += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._inflight -= 1
        if self._retired and not self._inflight:
            self._close()

    @property
    def retired(self) -> bool:
        """Whether the connection is only for the requests that use it already."""
        return self._retired

    @property
    def closed(self) -> bool:
        """Whether there is nothing left to be closed."""
        return self._closing is not None and self._closing.done()

    def retire(self) -> None:
        """Close the connection as soon as no requests use it."""
        self._retired = True
        if not self._inflight:
            self._close()

    async def close(self) -> None:
        """Close the connection now, and wait until it is closed."""
        self._retired = True
        await asyncio.shield(self._close())

    def _close(self) -> "asyncio.Task[None]":
        if self._closing is None:
            self._closing = asyncio.create_task(self.session.close(), name="connection closing")
        return self._closing


class ConnectionPool:
    """The connections of one client: one for each of the credentials in use.

    The pool renews the credentials ahead of their end, for as long as it is used.
    """

    def __init__(
        self,
        vault: Vault,
        logger: logging.Logger | logging.LoggerAdapter[Any],
        clock: clocks.Clock,
    ) -> None:
        super().__init__()
        self._vault = vault
        self._logger = logger
        self._renewer = renewals.Renewer(vault, clock=clock)
        self._renewal: asyncio.Task[None] | None = None
        self._context = contextvars.copy_context()
        self._connections: dict[VaultItem, Connection] = {}
        self._retired: list[Connection] = []
        self._closed = False

    @property
    def connections(self) -> list[Connection]:
        """The connections for new requests."""
        return [*self._connections.values()]

    @property
    def retired(self) -> list[Connection]:
        """The connections that are retired, but maybe still used for old requests."""
        return [connection for connection in self._retired if not connection.closed]

    async def acquire(self) -> Connection:
        """Choose a connection to use; wait for the credentials if necessary.

        Raises :class:`LoginError` if there are no credentials, or if they are unusable.
        """
        while True:
            try:
                item = await self._vault.acquire()
            except credentials.LoginError:
                if await self._revive():
                    continue
                raise
            connection = self._connections.get(item) or self._open(item)
            if connection is not None:
                return connection

    def can_revive(self) -> bool:
        """Whether there can be credentials later, though there are none now."""
        return not (self._closed or self._vault.refillable) and self._renewer.can_revive()

    def is_usable(self, connection: Connection) -> bool:
        """Whether the connection is not retired, and its credentials are not replaced."""
        return connection.item in self._vault and not connection.retired

    def fail(self, connection: Connection, exc: BaseException) -> errors.APIConnectionError:
        """Make the error of a request with no reply. Its reason can be the credentials, too."""
        error = errors.make_connection_error(exc)
        if errors.is_distrust(exc):
            self._vault.doubt(connection.item, error)
        return error

    async def refuse(self, connection: Connection, error: errors.APIStatusError) -> None:
        """Raise the error, unless it makes sense to repeat the request with other credentials."""
        if not isinstance(error, errors.APIUnauthorizedError):
            raise error
        self._vault.invalidate(connection.item, error)
        if self._connections.get(connection.item) is connection:
            self._retire(connection.item)
        if not self._vault.refillable and self._vault.is_empty():
            is_first = not connection.item.usable_since  # otherwise, retries would go on for ever
            if not (is_first and await self._revive()):
                raise error

    async def close(self) -> None:
        """Close all connections, including those being used."""
        self._closed = True
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])
        closing = [*self._connections.values(), *self._retired]
        self._connections.clear()
        self._retired.clear()
        await asyncio.gather(*(connection.close() for connection in closing))

    def _open(self, item: VaultItem) -> Connection | None:
        if self._closed:
            raise errors.APIConnectionError("the client is closed")
        for outdated in [known for known in self._connections if known not in self._vault]:
            self._retire(outdated)
        try:
            connection = Connection(item)
        except credentials.LoginError as e:
            self._vault.invalidate(item, e)
            if not self._vault.refillable and self._vault.is_empty():
                raise
            self._logger.warning(f"Ignoring the credentials of {item.key}: {e}")
            return None
        self._connections[item] = connection
        if self._renewal is None:  # not in the context of the first request
            self._renewal = asyncio.create_task(
                self._renewer.run(), name="credentials renewer", context=self._context
            )
        return connection

    async def _revive(self) -> bool:
        """Get new credentials in place of the refused ones, if no login handlers do so."""
        return not (self._closed or self._vault.refillable) and await self._renewer.revive()

    def _retire(self, item: VaultItem) -> None:
        connection = self._connections.pop(item)
        connection.retire()
        self._retired = [*self.retired, connection]


def _reduce(timeout: aiohttp.ClientTimeout, passed: float) -> aiohttp.ClientTimeout:
    """The rest of the timeout, which is for all redirects: leaders must not write later."""
    return aiohttp.ClientTimeout(
        total=None if timeout.total is None else max(0.001, timeout.total - passed),
        sock_connect=timeout.sock_connect,
        ceil_threshold=math.inf,  # must not be rounded up to a whole second
    )


def _parse_server(address: str) -> tuple[yarl.URL, tuple[str, str, str]]:
    try:
        server = yarl.URL(address.rstrip("/"), encoded=True)
        origin = server.origin()
        if server.port is None:  # the port is not parsed until now
            raise ValueError("It is not HTTP.")
    except ValueError as e:
        text = f"The address of the server makes no sense: {address!r}"
        raise credentials.LoginError(errors.hide_credentials(text)) from e
    return origin, (server.scheme, server.raw_authority, server.raw_path.rstrip("/"))


def _make_options(info: credentials.KubeContext) -> Mapping[str, Any]:
    """The arguments of every request."""
    if not isinstance(info, credentials.ConnectionInfo):
        return {}
    proxy = proxies.find_proxy(info)
    return {**info.as_aiohttp_kwargs(), **({"proxy": proxy} if proxy else {})}


def cut(response: aiohttp.ClientResponse) -> None:
    """End a response that goes on: no task reads the rest, and no request shares the connection.

    A polite end of TLS would wait for the server, often for longer than the event loop lives.
    """
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()


def _make_session(
    info: credentials.KubeContext, identity: list[tuple[str, str]]
) -> aiohttp.ClientSession:
    match info:
        case credentials.AiohttpSession():
            info.aiohttp_session.headers.setdefault("User-Agent", versions.get_user_agent())
            return info.aiohttp_session
        case credentials.ConnectionInfo():
            headers = [
                ("User-Agent", versions.get_user_agent()),
                ("Accept", "application/json"),
                ("Accept-Encoding", "gzip"),
                *identity,
            ]
            return aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=_make_ssl(info)),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=headers,
                auth=info.as_aiohttp_basic_auth(),
                read_bufsize=_READ_BUFFER,
            )
        case _:
            raise credentials.LoginError(
                f"Credentials of type {type(info).__name__} are not supported."
            )


def _make_identity(info: credentials.KubeContext) -> list[tuple[str, str]]:
    """The headers of the credentials; impersonation can have several of the same name."""
    pairs = info.as_header_pairs() if isinstance(info, credentials.ConnectionInfo) else []
    if any(_CONTROLS.search(value) for _, value in pairs):
        raise credentials.LoginError("There are control characters in the token or in its scheme.")
    return pairs


def _make_ssl(info: credentials.ConnectionInfo) -> ssl.SSLContext | bool:
    if info.server.startswith("http://"):
        return True  # unused; and it takes time to make a context
    try:
        return info.as_ssl_context()
    except (OSError, ValueError) as e:
        # Incl. SSL errors. Python does not say in them which file is wrong, or why.
        raise credentials.LoginError(f"TLS certificates or keys cannot be used: {e}") from e
