"""A single watch-stream: from its request to its end, for whatever reason."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import aiohttp

from kopf_cogs.clients import errors, session, streams

if TYPE_CHECKING:
    from kopf_cogs.configs.settings import WatchingSettings

# How long (in seconds) the stream must stay silent after the inactivity is suspected.
_LONGEST_GRACE = 1.0

# Event loops cannot handle infinities.
_FOREVER = 1e9


class StreamStalled(Exception):
    """The stream is open, but nothing comes: not even bookmarks."""


class Watchdog:
    """Interrupts the waiting if nothing comes for too long.

    A single timer compares the times once in a while, so the watchdog costs nothing per event.
    Only the time of waiting for the server counts. The time when the consumer is busy does not.
    Nor does the time when the loop was blocked: the socket can have unread data then.
    """

    def __init__(self, scope: asyncio.Timeout, limit: float) -> None:
        super().__init__()
        self.barked = False
        self._loop = asyncio.get_running_loop()
        self._scope = scope
        self._limit = limit
        self._waiting_since: float | None = self._loop.time()
        self._suspected: float | None = None
        self._timer = self._loop.call_later(limit, self._check)

    def stop(self) -> None:
        self._timer.cancel()

    def pause(self) -> None:
        """A batch has come, and the consumer processes it."""
        self._waiting_since = None

    def resume(self) -> None:
        """The client waits for the server again."""
        self._waiting_since = self._loop.time()

    def _check(self) -> None:
        now = self._loop.time()
        since = self._waiting_since if self._waiting_since is not None else now
        if now < since + self._limit:
            self._timer = self._loop.call_at(since + self._limit, self._check)
        elif self._suspected != since:
            self._suspected = since
            grace = min(_LONGEST_GRACE, self._limit / 10)
            self._timer = self._loop.call_later(grace, self._check)
        else:
            self.barked = True
            self._scope.reschedule(now)


async def watch(
    client: session.Client,
    url: str,
    *,
    params: Mapping[str, str],
    settings: "WatchingSettings",
    accept: str | None = None,
    on_open: Callable[[], None],
    on_batch: Callable[[list[Any]], Awaitable[None]],
) -> None:
    """Watch until the stream ends: by the server, or by the client as it is configured.

    The callbacks get the data of the server as it is. The client does not read the stream
    until the callback has processed the batch.

    Raises :class:`StreamStalled` for inactivity, :class:`StreamBroken` for garbage,
    :class:`APIError` for all kinds of network errors, both in the beginning and in the middle.
    """
    dog: Watchdog | None = None
    scope = asyncio.timeout(_limit(settings.client_timeout))
    try:
        # All within one coroutine: scopes of timeouts must not be mixed with yielding.
        async with scope:
            dog = Watchdog(scope, min(settings.inactivity_timeout, _FOREVER))
            async with client.stream(
                url, params=params, accept=accept, connect_timeout=settings.connect_timeout
            ) as response:
                on_open()
                async with contextlib.aclosing(streams.iter_batches(response.content)) as batches:
                    dog.resume()
                    async for batch in batches:
                        dog.pause()
                        await on_batch(batch)
                        dog.resume()
    except TimeoutError:
        if dog is not None and dog.barked:
            raise StreamStalled(f"no events in {settings.inactivity_timeout:g} seconds") from None
        if not scope.expired():
            raise
    except (aiohttp.ClientError, OSError) as e:
        raise errors.make_connection_error(e) from e
    finally:
        if dog is not None:
            dog.stop()


def _limit(timeout: float | None) -> float | None:
    """Zero and less stand for no limit, as they do in aiohttp and in Kubernetes."""
    return timeout if timeout is not None and timeout > 0 else None
