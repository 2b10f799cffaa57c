"""Bodies of requests while they come: with limits for each body, and for all bodies."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from aiohttp import web

from kopf_cogs.structs.reviews import ReviewError

MAX_BODY = 8 * 1024 * 1024
"""The longest body in bytes: an API server has objects of 3 MiB at most, and sends two of them."""

MAX_HELD = 16 * MAX_BODY
"""How many bytes of all bodies are in memory at once; beyond that, callers must retry later."""

BODY_TIMEOUT = 30.0
"""How long (in seconds) a body can be on its way: no API server waits for a webhook longer."""


class Refusal(ReviewError):
    """The request is refused before it gets to the handlers."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers


@dataclass(slots=True, eq=False)
class _Body:
    """One body: the part of it that has come so far."""

    data: bytearray
    deadline: asyncio.Timeout
    gives_way: bool = False


class Bodies:
    """Reads bodies. They take memory while they come, and while handlers work on them."""

    def __init__(self) -> None:
        super().__init__()
        self._held = 0
        self._coming: set[_Body] = set()

    @contextlib.asynccontextmanager
    async def receive(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        """Read the body, and hold it until the end of the block.

        Raises :class:`Refusal` if it is broken, too long, or too slow, or if bodies are too many.
        """
        body = _Body(bytearray(), asyncio.timeout(BODY_TIMEOUT))
        try:
            if request.content.is_eof():  # as nearly all bodies are: they come with the headers
                await self._read(request, body)
            else:
                await self._read_slowly(request, body)
            yield bytes(body.data)
        finally:
            self._release(body)

    async def _read_slowly(self, request: web.BaseRequest, body: _Body) -> None:
        self._coming.add(body)
        try:
            async with body.deadline:
                await self._read(request, body)
        except TimeoutError:
            if body.gives_way:
                raise _make_refusal() from None
            raise Refusal(408, "The body takes too long.") from None
        finally:
            self._coming.discard(body)

    async def _read(self, request: web.BaseRequest, body: _Body) -> None:
        try:
            while chunk := await request.content.readany():
                body.data += chunk
                self._held += len(chunk)
                if len(body.data) > MAX_BODY:
                    raise Refusal(413, f"The body is longer than {MAX_BODY} bytes.")
                while self._held > MAX_HELD:
                    self._make_room(body)
        except (web.RequestPayloadError, ConnectionError, RuntimeError):  # the last one: no client
            raise Refusal(400, "The body is broken.") from None

    def _make_room(self, body: _Body) -> None:
        """Let the longest of the unfinished bodies give way: nothing is lost with it.

        So, clients that send much and never finish cannot stop clients that send a little at once.
        """
        longest = max(self._coming, key=lambda other: len(other.data), default=body)
        if len(longest.data) <= len(body.data):
            raise _make_refusal()
        self._coming.discard(longest)
        self._release(longest)
        longest.gives_way = True
        if not longest.deadline.expired():
            longest.deadline.reschedule(asyncio.get_running_loop().time())

    def _release(self, body: _Body) -> None:
        self._held -= len(body.data)
        body.data = bytearray()


def _make_refusal() -> Refusal:
    return Refusal(503, "There are too many requests now.", {"Retry-After": "1"})
