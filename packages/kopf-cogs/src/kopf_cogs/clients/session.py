"""
The client of a Kubernetes API: requests with credentials, timeouts, and retries.
"""

import asyncio
import contextlib
import logging
import urllib.parse
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import aiohttp

from kopf_cogs.aiokits import clocks
from kopf_cogs.clients import connections, errors, retries, vault
from kopf_cogs.helpers import jsons
from kopf_cogs.structs import credentials

if TYPE_CHECKING:
    from kopf_cogs.configs.settings import OperatorSettings

Logger = logging.Logger | logging.LoggerAdapter[Any]

logger = logging.getLogger(__name__)

_NETWORK_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)

MAX_CONCURRENCY = 64
"""How many requests are in flight at once; the others wait. The watch-streams do not count.

New connections (with TLS handshakes) cost more than the requests themselves,
and a burst of thousands of objects would open as many of them otherwise.
"""


class Client:
    """
    A client of one Kubernetes cluster: all requests go through it, there is no global state.

    It is made of credentials, or of a vault of credentials that are renewed by someone else.
    All timeouts and retries are as in the settings, and can be changed there at any time.

    Usage::

        async with Client(login_with_kubeconfig()) as client:
            pods = await client.get('/api/v1/namespaces/default/pods')
    """

    def __init__(
        self,
        src: vault.Vault | credentials.KubeContext,
        /,
        settings: "OperatorSettings | None" = None,
        *,
        clock: clocks.Clock | None = None,
        logger: Logger = logger,
    ) -> None:
        super().__init__()
        self.clock = clock or clocks.SystemClock()
        self.settings = settings if settings is not None else _make_settings()
        self.vault = (
            src
            if isinstance(src, vault.Vault)
            else vault.Vault({"credentials": src}, refillable=False, clock=self.clock)
        )
        self._logger = logger
        self._connections: dict[vault.VaultItem, connections.Connection] = {}
        self._retired: list[connections.Connection] = []
        self._timeouts: dict[tuple[float | None, float | None], aiohttp.ClientTimeout] = {}
        self._slots = asyncio.Semaphore(MAX_CONCURRENCY)
        self._closed = False

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Nothing can be requested with this client anymore."""
        self._closed = True
        closing = [*self._connections.values(), *self._retired]
        self._connections.clear()
        self._retired.clear()
        await asyncio.gather(*(connection.close() for connection in closing))

    @property
    def default_namespace(self) -> str | None:
        """The namespace of the current credentials' context, if they say so."""
        item = self.vault.select()
        return None if item is None else item.info.default_namespace

    async def get(self, url: str, **kwargs: Any) -> Any:
        return await self.request("GET", url, **kwargs)

    async def post(self, url: str, payload: object, **kwargs: Any) -> Any:
        return await self.request("POST", url, payload=payload, **kwargs)

    async def put(self, url: str, payload: object, **kwargs: Any) -> Any:
        return await self.request("PUT", url, payload=payload, **kwargs)

    async def patch(self, url: str, payload: object, *, content_type: str, **kwargs: Any) -> Any:
        kwargs["content_type"] = content_type
        return await self.request("PATCH", url, payload=payload, **kwargs)

    async def delete(self, url: str, **kwargs: Any) -> Any:
        return await self.request("DELETE", url, **kwargs)

    async def request(
        self,
        method: str,
        url: str,
        *,
        payload: object = None,
        content_type: str = "application/json",
        accept: str | None = None,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
        backoffs: float | Iterable[float] | None = None,
    ) -> Any:
        """
        Do the request, and return the decoded JSON of the response (``None`` if it is empty).

        ``url`` is relative to the server and must be escaped already; ``params`` are escaped here.
        ``timeout`` and ``backoffs`` (in seconds) are of the settings unless specified;
        ``backoffs=()`` disables the retrying.

        Raises :class:`APIError` in many forms when the retries are over or make no sense.
        Raises :class:`LoginError` if there are no credentials and there will be none.
        """
        if params:
            url = f"{url}?{urllib.parse.urlencode(params)}"
        headers: dict[str, str] | None = None
        data: bytes | None = None
        if payload is not None:
            data = jsons.dumps(payload)
            headers = {"Content-Type": content_type}
        if accept is not None:
            headers = {**(headers or {}), "Accept": accept}
        limits = self._get_timeout(timeout)
        try:
            async with self._slots:
                return await self._attempt(method, url, data, headers, limits)
        except errors.APIError as e:
            if not retries.is_retriable(e):
                raise
            error = e
        delays = retries.iter_backoffs(
            self.settings.networking.error_backoffs if backoffs is None else backoffs
        )
        for number, backoff in enumerate(delays, start=1):
            await self._back_off(f"{method} {_hide_query(url)}", number, backoff, error)
            try:
                async with self._slots:
                    return await self._attempt(method, url, data, headers, limits)
            except errors.APIError as e:
                if not retries.is_retriable(e):
                    raise
                error = e
        raise error

    async def _back_off(
        self,
        title: str,
        number: int,
        backoff: float,
        error: errors.APIError,
    ) -> None:
        enforce = self.settings.networking.enforce_retry_after
        delay = retries.choose_delay(error, backoff, clock=self.clock, enforce=enforce)
        self._logger.warning(
            f"Request attempt #{number} failed; will retry in {delay:g} seconds: {title} -> {error}"
        )
        await asyncio.sleep(delay)

    async def _attempt(
        self,
        method: str,
        url: str,
        data: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout,
    ) -> Any:
        """One request, or several if the credentials are refused and there are others."""
        while True:
            with await self._connect() as connection:
                try:
                    response = await connection.request(
                        method, url, data=data, headers=headers, timeout=timeout
                    )
                    if response.status < 300:
                        body = await response.read()
                        if connection.item.usable_since:
                            self.vault.confirm(connection.item)
                        return _decode(body) if body else None
                    error = await self._fail(response)
                except _NETWORK_ERRORS as e:
                    raise errors.make_connection_error(e) from e
                self._refuse(connection, error)

    @contextlib.asynccontextmanager
    async def stream(
        self,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
        connect_timeout: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """
        Open a long-living response, to be read in parts; it is not retried if broken.

        ``timeout`` limits the life of the response in seconds (unlimited by default),
        ``connect_timeout`` limits the TCP handshake (by default, as for all other requests).

        The errors of the request are as usual; the errors in reading are those of aiohttp.
        """
        if params:
            url = f"{url}?{urllib.parse.urlencode(params)}"
        networking = self.settings.networking
        if connect_timeout is None:
            connect_timeout = networking.connect_timeout or networking.request_timeout
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=connect_timeout)
        while True:
            with await self._connect() as connection:
                try:
                    response = await connection.request(
                        "GET", url, data=None, headers=None, timeout=limits
                    )
                    error = None if response.status < 300 else await self._fail(response)
                except _NETWORK_ERRORS as e:
                    raise errors.make_connection_error(e) from e
                if error is None:
                    try:
                        if connection.item.usable_since:
                            self.vault.confirm(connection.item)
                        yield response
                    finally:
                        response.close()
                    return
                self._refuse(connection, error)

    async def _connect(self) -> connections.Connection:
        item = await self.vault.acquire()
        connection = self._connections.get(item)
        return connection if connection is not None else self._open(item)

    def _open(self, item: vault.VaultItem) -> connections.Connection:
        if self._closed:
            raise errors.APIConnectionError("the client is closed")
        for outdated in [item for item in self._connections if item not in self.vault]:
            self._retire(outdated)
        try:
            connection = connections.Connection(item)
        except credentials.LoginError as e:
            self.vault.invalidate(item, e)
            raise
        self._connections[item] = connection
        return connection

    def _retire(self, item: vault.VaultItem) -> None:
        connection = self._connections.pop(item)
        connection.retire()
        self._retired = [known for known in self._retired if not known.closed] + [connection]

    async def _fail(self, response: aiohttp.ClientResponse) -> errors.APIStatusError:
        try:
            return await errors.parse_status_error(response)
        finally:
            response.release()

    def _refuse(
        self,
        connection: connections.Connection,
        error: errors.APIStatusError,
    ) -> None:
        """Raise the error, unless it makes sense to repeat the request with other credentials."""
        if not isinstance(error, errors.APIUnauthorizedError):
            raise error
        self.vault.invalidate(connection.item, error)
        if self._connections.get(connection.item) is connection:
            self._retire(connection.item)
        if not self.vault.refillable and self.vault.is_empty():
            raise error

    def _get_timeout(self, timeout: float | None) -> aiohttp.ClientTimeout:
        networking = self.settings.networking
        total = networking.request_timeout if timeout is None else timeout
        key = (total, networking.connect_timeout)
        found = self._timeouts.get(key)
        if found is None:
            found = aiohttp.ClientTimeout(total=total, sock_connect=networking.connect_timeout)
            self._timeouts[key] = found
        return found


def _make_settings() -> "OperatorSettings":
    from kopf_cogs.configs.settings import OperatorSettings

    return OperatorSettings()


def _decode(body: bytes) -> Any:
    try:
        return jsons.loads(body)
    except jsons.TooDeepError:
        raise errors.APITooDeepError(body) from None
    except ValueError:
        raise errors.APIResponseError(f"the response is not JSON ({len(body)} bytes)") from None


def _hide_query(url: str) -> str:
    return url.partition("?")[0]
