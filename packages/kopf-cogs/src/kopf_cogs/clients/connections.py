"""
HTTP sessions made of credentials, and closed when both refused and unused.
"""

import asyncio
import logging
import ssl
from collections.abc import Mapping

import aiohttp
import yarl

from kopf_cogs.clients import vault
from kopf_cogs.helpers import versions
from kopf_cogs.structs import credentials

logger = logging.getLogger(__name__)

# Watch-streams are read by big chunks when they bring a lot; nothing is allocated in advance.
_READ_BUFFER = 256 * 1024


class Connection:
    """
    A pool of connections to one API server with the same credentials.

    It is closed not at the moment it is retired, but when the last of its requests is finished:
    the requests that run in parallel with the refused one should end with their own outcomes.
    """

    __slots__ = ("_closing", "_inflight", "_options", "_retired", "_server", "item", "session")

    def __init__(self, item: vault.VaultItem) -> None:
        super().__init__()
        self.item = item
        self.session = _make_session(item.info)
        self._server = item.info.server.rstrip("/")
        self._options = (
            item.info.as_aiohttp_kwargs()
            if isinstance(item.info, credentials.ConnectionInfo)
            else {}
        )
        self._closing: asyncio.Task[None] | None = None
        self._inflight = 0
        self._retired = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.item.key}>"

    async def request(
        self,
        method: str,
        url: str,
        *,
        data: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send the request, and wait for the headers of the response."""
        return await self.session.request(
            method,
            yarl.URL(self._server + url, encoded=True),
            data=data,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,  # otherwise, credentials can be sent elsewhere
            **self._options,
        )

    def __enter__(self) -> "Connection":
        self._inflight += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._inflight -= 1
        if self._retired and not self._inflight:
            self._close()

    @property
    def closed(self) -> bool:
        """Whether there is nothing left to be closed."""
        return self._closing is not None and self._closing.done()

    def retire(self) -> None:
        """Close it as soon as it is not used."""
        self._retired = True
        if not self._inflight:
            self._close()

    async def close(self) -> None:
        """Close it now, and wait until it is closed."""
        self._retired = True
        await asyncio.shield(self._close())

    def _close(self) -> "asyncio.Task[None]":
        if self._closing is None:
            self._closing = asyncio.create_task(self.session.close(), name="connection closing")
        return self._closing


def _make_session(info: credentials.KubeContext) -> aiohttp.ClientSession:
    match info:
        case credentials.AiohttpSession():
            info.aiohttp_session.headers.setdefault("User-Agent", versions.get_user_agent())
            return info.aiohttp_session
        case credentials.ConnectionInfo():
            return aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=_make_ssl(info)),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={
                    "User-Agent": versions.get_user_agent(),
                    "Accept": "application/json",
                    "Accept-Encoding": "gzip",
                    **info.as_http_headers(),
                },
                auth=info.as_aiohttp_basic_auth(),
                trust_env=info.trust_env,
                read_bufsize=_READ_BUFFER,
            )
        case _:
            raise credentials.LoginError(
                f"Credentials of type {type(info).__name__} are not supported."
            )


def _make_ssl(info: credentials.ConnectionInfo) -> ssl.SSLContext | bool:
    if info.server.startswith("http://"):
        return True  # unused, but the context takes time to be made
    try:
        return info.as_ssl_context()
    except (OSError, ValueError) as e:
        # Incl. SSL errors. They do not say which file or what is wrong with it, but so is Python.
        raise credentials.LoginError(f"TLS certificates or keys cannot be used: {e}") from e
