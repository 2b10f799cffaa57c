"""The HTTP side of the sandbox: requests in, responses and streams out."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import logging
import ssl
from fnmatch import fnmatchcase
from urllib.parse import parse_qsl, unquote

from aiohttp import web

from kopf_kits.sandbox.base.statuses import StatusError, internal
from kopf_kits.sandbox.cluster import Cluster

from .api import API
from .calls import Call, Reply
from .door import check_headers
from .faults import Dropped, Fault, Faults
from .journal import Journal

logger = logging.getLogger(__name__)
_MAX_BODY = 3 * 1024 * 1024


class Server:
    """Answers by the API of a cluster; listens on the loopback interface if it is told to."""

    def __init__(self, cluster: Cluster, faults: Faults, journal: Journal) -> None:
        self._cluster = cluster
        self._faults = faults
        self._journal = journal
        self._streams: dict[Call, web.BaseRequest] = {}
        self._told: set[str] = set()
        self._api = API(cluster, lambda: f"{self.host}:{self.port}")
        self._web: web.Server | None = None
        self._runner: web.ServerRunner | None = None
        self._listening: asyncio.Server | None = None
        self.host = ""
        self.port = 0

    async def start(self, host: str) -> None:
        """Start serving, with no socket yet."""
        self._web = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(self._web, shutdown_timeout=1)
        await self._runner.setup()
        self.host = host

    async def listen(self, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
        """Start listening; port 0 is any free port. Raises ``OSError`` if it is taken."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self.make_protocol, host, port, ssl=context)
        self.host, self.port = self._listening.sockets[0].getsockname()[:2]

    def make_protocol(self) -> asyncio.Protocol:
        """The protocol for one more connection, wherever its bytes come from."""
        if self._web is None:
            raise RuntimeError("The sandbox is not started.")
        return self._web()

    async def stop(self) -> None:
        """End all streams, and stop listening."""
        await self._cluster.close()
        if self._listening is not None:
            await _close(self._listening)
            self._listening = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = self._web = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            check_headers(request.headers, has_body=request.can_read_body)
        except StatusError as error:
            return await self._send(request, _refuse(error))
        call = await _read_call(request)
        entry = self._journal.record(call)
        taken = self._faults.take(call)
        try:
            reply = await self._faults.precede(taken) if taken else None
            if reply is None:
                reply = await self._answer(call)
            _add_warnings(call, reply)
            self._tell_doubts(call)
            self._journal.answered(entry, reply.status)
            if reply.stream is not None:
                return await self._stream(request, call, reply, taken)
            return await self._send(request, reply)
        except Dropped:
            if entry.status is None:
                self._journal.answered(entry, 0)
            _abort(request)
            return web.Response()

    def _tell_doubts(self, call: Call) -> None:
        """Log the checks that the sandbox could not make, once for each."""
        for text in call.doubts:
            if text not in self._told:
                self._told.add(text)
                logger.warning("The sandbox cannot check this: %s", text)

    async def _answer(self, call: Call) -> Reply:
        try:
            return await self._api.answer(call)
        except StatusError as error:
            return _refuse(error)
        except Exception as error:
            logger.exception("The sandbox failed on %s %s", call.method, call.path)
            failure = internal(f"{type(error).__name__}: {error}")
            return _refuse(failure)

    async def _stream(
        self, request: web.BaseRequest, call: Call, reply: Reply, taken: list[Fault]
    ) -> web.StreamResponse:
        assert reply.stream is not None
        reply.stream = self._faults.shape(call, reply.stream, taken)
        self._streams[call] = request
        try:
            return await self._send(request, reply)
        finally:
            del self._streams[call]

    async def _send(self, request: web.BaseRequest, reply: Reply) -> web.StreamResponse:
        moment = self._cluster.options.nature.clock()
        return await _send(request, reply, email.utils.format_datetime(moment, usegmt=True))

    def cut(self, path: str) -> int:
        """Close the connections of the watch-streams with such paths; returns how many."""
        found = [one for call, one in self._streams.items() if fnmatchcase(call.path, path)]
        for request in found:
            _abort(request)
        return len(found)


async def _close(listening: asyncio.Server) -> None:
    """Stop listening, with no connection lost.

    Loops of asyncio forget accepted connections that have no transports yet: their clients hang.
    """
    for sock in listening.sockets:
        with contextlib.suppress(NotImplementedError):  # the loops of Windows
            asyncio.get_running_loop().remove_reader(sock)
    for _ in range(2):  # the loop makes a transport in one turn, and its protocol in the next
        await asyncio.sleep(0)
    listening.close()


def _refuse(error: StatusError) -> Reply:
    return Reply(error.code, error.as_bytes() + b"\n")


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _read_call(request: web.BaseRequest) -> Call:
    raw_path, _, raw_query = request.raw_path.partition("?")
    headers = request.headers
    return Call(
        method=request.method,
        path=unquote(raw_path) if "%" in raw_path else raw_path,
        query=dict(parse_qsl(raw_query, keep_blank_values=True)) if raw_query else {},
        accept=headers.get("Accept", ""),
        content_type=headers.get("Content-Type", ""),
        agent=headers.get("User-Agent", ""),
        impersonated=headers.get("Impersonate-User", ""),
        groups=headers.getall("Impersonate-Group", []),
        token=headers.get("Authorization", "").removeprefix("Bearer ").strip(),
        body=await request.read() if request.can_read_body else b"",
    )


def _add_warnings(call: Call, reply: Reply) -> None:
    for text in call.warnings:
        line = " ".join(text.split())  # Headers are lines.
        quoted = line.replace("\\", "\\\\").replace('"', '\\"')
        reply.headers.append(("Warning", f'299 - "{quoted}"'))


async def _send(request: web.BaseRequest, reply: Reply, date: str) -> web.StreamResponse:
    headers: list[tuple[str, str]] = [
        ("Content-Type", reply.media_type),
        ("Cache-Control", "no-cache, private"),
        ("Date", date),
    ]
    headers.extend(reply.headers)
    if reply.chunks is None and reply.stream is None:
        return web.Response(status=reply.status, body=reply.body, headers=headers)
    response = web.StreamResponse(status=reply.status, headers=headers)
    response.enable_chunked_encoding()
    try:
        await response.prepare(request)
        await _pour(response, reply)
    except ConnectionError:
        pass  # The client is gone, which is its right.
    return response


async def _pour(response: web.StreamResponse, reply: Reply) -> None:
    for chunk in reply.chunks or ():
        await response.write(chunk)
        await asyncio.sleep(0)  # Long lists should not keep all other requests waiting.
    if reply.stream is not None:
        async for chunk in reply.stream:
            await response.write(chunk)
    await response.write_eof()
