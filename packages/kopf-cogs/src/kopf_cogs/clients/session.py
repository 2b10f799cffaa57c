"""The client of a Kubernetes API: requests with credentials, timeouts, and retries."""

import asyncio
import contextlib
import copy
import functools
import logging
import math
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import aiohttp

from kopf_cogs.aiokits import clocks
from kopf_cogs.aiokits.surroundings import get_clock
from kopf_cogs.clients import budgets, connections, errors, retries, slots, unanswered, vault
from kopf_cogs.helpers import jsons
from kopf_cogs.structs import credentials

if TYPE_CHECKING:
    from kopf_cogs.configs.settings import OperatorSettings

Logger = logging.Logger | logging.LoggerAdapter[Any]

logger = logging.getLogger(__name__)

_NETWORK_ERRORS = (aiohttp.ClientError, OSError, TimeoutError, ValueError)
"""The errors of the HTTP client; a ValueError is for a request that it cannot send."""


class RequestRecord(NamedTuple):
    """A request that has ended: for the code that measures requests."""

    method: str
    url: str
    """The path with the query, from the root of the API."""

    server: str
    """The URL of the API server."""

    seconds: float
    code: int | None
    """The status code of the response; ``None`` if there was none."""

    error: str | None = None
    """The type of the error if there was no response, e.g. ``TimeoutError``."""


OnRequest = Callable[[RequestRecord], None]


class _Call(NamedTuple):
    """A request that is ready to be sent, maybe several times."""

    method: str
    url: str
    data: bytes | aiohttp.BytesPayload | None
    headers: Mapping[str, str] | None
    timeout: aiohttp.ClientTimeout


class Fence(Protocol):
    """Decides whether the client may send writing requests now."""

    @property
    def term(self) -> int:
        """The number that changes each time when writing becomes possible again."""

    @property
    def is_open(self) -> bool:
        """Whether the client may write now."""

    def check(self) -> float:
        """For how many seconds the client may write. Raise an error if it may not write at all."""


class Client:
    """A client of one Kubernetes cluster: all requests go through it, there is no global state.

    It is made of credentials, or of a vault of credentials that are retrieved by someone else.
    It renews them ahead of their end: reads their files again, and runs their plugins.
    All timeouts and retries are as in the settings, and can be changed there at any time.
    The log tells of requests that have no answer for so many seconds: the patience.

    Usage::

        info = await asyncio.to_thread(login_with_kubeconfig)  # it can run a program
        async with Client(info) as client:
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
        patience: float = unanswered.PATIENCE,
    ) -> None:
        super().__init__()
        self.clock = clock or get_clock()
        self.settings = settings if settings is not None else _make_settings()
        self.vault = (
            src
            if isinstance(src, vault.Vault)
            else vault.Vault(
                {"credentials": src}, refillable=False, patience=math.inf, clock=self.clock
            )
        )
        self._logger = logger
        self._pool = connections.ConnectionPool(self.vault, logger, self.clock)
        self._unanswered = unanswered.Unanswered(self.clock, logger, patience)
        self._timeouts: dict[tuple[float | None, float | None], aiohttp.ClientTimeout] = {}
        self._slots = slots.Slots()  # the watch-streams do not count
        self._budget: budgets.Budget | None = budgets.Budget(self.settings)
        self.on_request: OnRequest | None = None
        """The callback that measures the requests, if any."""

        self.fence: Fence | None = None
        """The fence to ask before each writing request; none by default."""

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
        self._unanswered.close()
        await self._pool.close()

    def without_fence(self) -> "Client":
        """The same client, with the same connections, but with no fence to ask before writing.

        Its requests do not wait for requests of the other: e.g. a sign of life cannot be late.
        """
        free = copy.copy(self)
        free.fence = None
        free._slots = slots.Slots()
        return free

    def without_limits(self) -> "Client":
        """The same as without the fence; besides, the budget of requests does not delay it."""
        free = self.without_fence()
        free._budget = None
        return free

    async def afford(self, url: str) -> None:
        """Take one request from the budget, for one that is sent without limits then."""
        if self._budget is not None:
            await self._budget.take(url)

    @property
    def can_log_in_later(self) -> bool:
        """Whether :class:`LoginError` is not for ever: files or plugins can bring credentials."""
        return self._pool.can_revive()

    @property
    def is_fenced(self) -> bool:
        """Whether nothing can be written now, so that there is no sense to begin anything."""
        return self.fence is not None and not self.fence.is_open

    @property
    def server(self) -> str | None:
        """The address of the API, as of the latest credentials; ``None`` if there are none."""
        item = self.vault.select()
        return None if item is None else item.info.server

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

    def rush(self) -> None:
        """Send all that wait for their turn to be sent: there is no time to wait anymore.

        Usually, only a few requests are sent at once, and the others wait for their replies,
        or for the budget of requests.
        """
        self._slots.rush()
        if self._budget is not None:
            self._budget.rush()

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
        """Do the request, and return the decoded JSON of the response (``None`` if it is empty).

        ``url`` is relative to the server and must be escaped already; ``params`` are escaped here.
        ``timeout`` and ``backoffs`` (in seconds) are of the settings unless specified;
        ``backoffs=()`` disables the retrying.

        Raises :class:`APIError` in many forms when the retries are over or make no sense.
        Raises :class:`LoginError` if there are no credentials and there will be none.
        """
        call = _Call(
            method=method,
            url=f"{url}?{_encode(*params.items())}" if params else url,
            data=None if payload is None else _serialize(payload, content_type),
            headers=_make_headers(None if payload is None else content_type, accept),
            timeout=self._get_timeout(timeout),
        )
        try:
            return await self._attempt(call)
        except errors.APIError as e:
            if not retries.is_retriable(e):
                raise
            error = e
        return await self._retry(
            call, error, self.settings.networking.error_backoffs if backoffs is None else backoffs
        )

    async def _retry(
        self, call: "_Call", error: errors.APIError, backoffs: float | Iterable[float]
    ) -> Any:
        is_repeated = False
        for number, backoff in enumerate(retries.iter_backoffs(backoffs), start=1):
            await self._back_off(call, number, backoff, error)
            is_repeated |= retries.is_outcome_unknown(error)
            try:
                result = await self._attempt(call)
            except errors.APIError as e:
                e.is_repeated = is_repeated
                if not retries.is_retriable(e):
                    raise
                error = e
            else:
                self._logger.info(f"Request attempt #{number + 1} succeeded: {_show(call)}")
                return result
        raise error

    async def _back_off(
        self, call: "_Call", number: int, backoff: float, error: errors.APIError
    ) -> None:
        enforce = self.settings.networking.enforce_retry_after
        delay = retries.choose_delay(error, backoff, clock=self.clock, enforce=enforce)
        self._logger.warning(
            f"Request attempt #{number} failed; will retry in {delay:g} seconds: "
            f"{_show(call)} -> {error}"
        )
        await asyncio.sleep(delay)

    async def _attempt(self, call: "_Call") -> Any:
        """One request, or several if the credentials are refused and there are others."""
        while True:
            # A request waits for the credentials before it takes a slot. Logging in can last for
            # minutes, and requests that wait for it must not hold up other requests.
            connection = await self._acquire(call.url)
            await self._slots.take(call.url)
            try:
                sent = call
                if self.fence is not None and call.method != "GET":
                    sent = _guard(call, self.fence)
                if not self._pool.is_usable(connection):
                    continue
                with connection:
                    began = 0.0 if self.on_request is None else self.clock.monotonic()
                    self._unanswered.begin(call, connection.item.info.server)
                    try:
                        response = await connection.request(*sent)
                        if response.status < 300:
                            body = await response.read()
                            self._measure(call, connection, began, response.status)
                            if connection.item.usable_since:
                                self.vault.confirm(connection.item)
                            return _decode(body, call.method) if body else None
                        error = await self._fail(response)
                        self._measure(call, connection, began, response.status)
                    except _NETWORK_ERRORS as e:
                        self._measure(call, connection, began, None, type(e).__qualname__)
                        if isinstance(e.__cause__, errors.APIError):  # from the fence
                            raise e.__cause__ from None
                        raise self._pool.fail(connection, e) from e
                    finally:
                        self._unanswered.end(call)
            finally:
                self._slots.give_back()
            await self._pool.refuse(connection, error)

    async def _acquire(self, url: str) -> connections.Connection:
        """Wait for the budget of requests, if there is any, and for the credentials."""
        if self._budget is not None and self.settings.networking.qps is not None:
            await self._budget.take(url)
        return await self._pool.acquire()

    def _measure(
        self,
        call: "_Call",
        connection: connections.Connection,
        began: float,
        code: int | None,
        error: str | None = None,
    ) -> None:
        if self.on_request is not None:
            seconds, server = self.clock.monotonic() - began, connection.item.info.server
            record = RequestRecord(call.method, call.url, server, seconds, code, error)
            self.on_request(record)

    @contextlib.asynccontextmanager
    async def stream(
        self,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        accept: str | None = None,
        timeout: float | None = None,
        connect_timeout: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open a long-living response, to be read in parts; it is not retried if broken.

        ``timeout`` limits the life of the response in seconds (unlimited by default),
        ``connect_timeout`` limits the TCP handshake (by default, as for all other requests).
        The errors of the request are as usual; the errors in reading are errors of aiohttp.
        """
        if params:
            url = f"{url}?{urllib.parse.urlencode(params)}"
        networking = self.settings.networking
        if connect_timeout is None:
            connect_timeout = networking.connect_timeout or networking.request_timeout
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=connect_timeout)
        call = _Call("GET", url, None, _make_headers(None, accept), limits)
        while True:
            with await self._acquire(call.url) as connection:
                self._unanswered.begin(call, connection.item.info.server)
                try:
                    response = await connection.request(*call)
                    error = None if response.status < 300 else await self._fail(response)
                except _NETWORK_ERRORS as e:
                    raise self._pool.fail(connection, e) from e
                finally:
                    self._unanswered.end(call)
                if error is None:
                    try:
                        if connection.item.usable_since:
                            self.vault.confirm(connection.item)
                        yield response
                    finally:
                        connections.cut(response)
                    return
                await self._pool.refuse(connection, error)

    async def _fail(self, response: aiohttp.ClientResponse) -> errors.APIStatusError:
        try:
            return await errors.parse_status_error(response)
        finally:
            response.release()

    def _get_timeout(self, timeout: float | None) -> aiohttp.ClientTimeout:
        networking = self.settings.networking
        total = networking.request_timeout if timeout is None else timeout
        key = (total, networking.connect_timeout)
        found = self._timeouts.get(key)
        if found is None:
            found = aiohttp.ClientTimeout(total=total, sock_connect=networking.connect_timeout)
            self._timeouts[key] = found
        return found


def _show(call: _Call) -> str:
    return f"{call.method} {call.url.partition('?')[0]}"  # continuation tokens make it too long


@functools.lru_cache(maxsize=100)
def _encode(*params: tuple[str, str]) -> str:
    """Encode the parameters; cached, as requests repeat them, and the encoding takes time."""
    return urllib.parse.urlencode(params)


class _GuardedBody(aiohttp.BytesPayload):
    """The body that is written only if the fence is open; no request is sent without its body.

    Between the request and its first byte, there are turns of the loop: to connect, or to write.
    In any of them, the loop can be blocked, or the process suspended, for whatever time.
    """

    def __init__(self, data: bytes, fence: Fence) -> None:
        super().__init__(data, content_type="application/json")
        self._fence = fence

    async def write_with_length(self, writer: Any, content_length: int | None) -> None:
        self._fence.check()
        await super().write_with_length(writer, content_length)


def _guard(call: _Call, fence: Fence) -> _Call:
    """Send nothing when the fence is closed, and wait for the reply only while it is open."""
    left = fence.check()
    total = left if call.timeout.total is None else min(call.timeout.total, left)
    limits = aiohttp.ClientTimeout(
        total=total,
        sock_connect=call.timeout.sock_connect,
        ceil_threshold=math.inf,  # must not be rounded up to a whole second
    )
    data = call.data if isinstance(call.data, bytes) else b""
    return call._replace(timeout=limits, data=_GuardedBody(data, fence))


def _make_settings() -> "OperatorSettings":
    from kopf_cogs.configs.settings import OperatorSettings

    return OperatorSettings()


def _decode(body: bytes, method: str) -> Any:
    try:
        return jsons.loads(body)
    except jsons.TooDeepError:
        raise errors.APITooDeepError(body) from None
    except ValueError:
        cls = errors.APIPatchReplyError if method == "PATCH" else errors.APIResponseError
        raise cls(f"the response is not JSON ({len(body)} bytes)") from None


@functools.lru_cache(maxsize=100)
def _make_headers(content_type: str | None, accept: str | None) -> Mapping[str, str] | None:
    """The headers of this request only; the session has all other headers."""
    if content_type is None and accept is None:
        return None
    headers = {"Content-Type": content_type, "Accept": accept}
    return {name: value for name, value in headers.items() if value is not None}


def _serialize(payload: object, content_type: str) -> bytes:
    """All types of the content are JSON, even where they are also YAML."""
    data = jsons.dumps(payload)
    return jsons.as_yaml(data) if content_type.endswith("+yaml") else data
