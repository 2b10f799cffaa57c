"""Listening: a small HTTP server of the operator itself, such as for probes and metrics."""

import asyncio
import os
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from kopf_cogs.aiokits.servers import stop_listening

if TYPE_CHECKING:
    from aiohttp import web

View: TypeAlias = "Callable[[web.Request], Awaitable[web.Response]]"


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
    from aiohttp import web  # most operators serve nothing, and it is heavy

    host, port, _ = parse_endpoint(endpoint)
    app = web.Application()
    app.add_routes([web.get(path, view) for path, view in views.items()])
    runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    assert runner.server is not None, "It is set up."
    listening: asyncio.Server | None = None
    try:
        try:
            listening = await asyncio.get_running_loop().create_server(runner.server, host, port)
        except OSError as e:
            # The text of asyncio is long, and has nothing else in it.
            reason = os.strerror(e.errno) if e.errno is not None and e.errno > 0 else str(e)
            message = f"Cannot serve {title} at {endpoint}: {reason.lower()}"
            raise ListeningError(message) from e
        await asyncio.Event().wait()
    finally:
        if listening is not None:
            await stop_listening(listening)
        await runner.cleanup()
