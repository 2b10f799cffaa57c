"""A scripted HTTP server over raw sockets: it does exactly what tests say, however wrong it is.

Every request takes the next step of the script of its path, or of the common script. When there
are no steps left, the request hangs: the server accepts it, and says nothing.
"""

import asyncio
import collections
import contextlib
import dataclasses
import json
import socket
import struct
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
from listeners import stop_listening

from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_cogs.structs.resources import Resource


class Marker:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


EOF, RST, HANG = Marker("EOF"), Marker("RST"), Marker("HANG")

Part = bytes | dict[str, Any] | asyncio.Event | Marker


@dataclasses.dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    raw_headers: list[tuple[str, str]]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclasses.dataclass
class Step:
    """What to do in response to one request: the bytes to send, and the pauses between them."""

    parts: list[Part]


class ScriptedServer:
    EOF, RST, HANG = EOF, RST, HANG

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.certificates: list[Any] = []
        self.url = ""
        self._scripts: dict[str | None, collections.deque[Step]] = collections.defaultdict(
            collections.deque
        )
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    def script(self, *steps: Step, path: str | None = None) -> None:
        self._scripts[path].extend(steps)

    @staticmethod
    def raw(*parts: Part) -> Step:
        return Step([*parts])

    @staticmethod
    def reply(
        payload: Any = None,
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        end: Marker | None = None,
    ) -> Step:
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        lines = [f"HTTP/1.1 {status} Whatever"]
        lines += [f"{key}: {value}" for key, value in (fields | (headers or {})).items()]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode()
        return Step([head + body] + ([end] if end else []))

    @classmethod
    def error(cls, status: int, *, headers: dict[str, str] | None = None, **fields: Any) -> Step:
        payload = {"kind": "Status", "code": status, "message": f"error {status}", **fields}
        return cls.reply(payload, status=status, headers=headers)

    @staticmethod
    def stream(*parts: Part) -> Step:
        """A chunked response, as watch-streams are. Ends properly unless ended otherwise."""
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks: list[Part] = []
        for part in parts:
            data = json.dumps(part).encode() + b"\n" if isinstance(part, dict) else part
            chunks.append(_chunk(data) if isinstance(data, bytes) else data)
        tail: list[Part] = [] if parts and parts[-1] in (EOF, RST, HANG) else [b"0\r\n\r\n"]
        return Step([head, *chunks, *tail])

    async def until(self, predicate: Callable[[list[Request]], object]) -> None:
        """Wait for the requests."""
        async with asyncio.timeout(60):
            while not predicate(self.requests):
                self._changed.clear()
                await self._changed.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                self.certificates.append(writer.get_extra_info("peercert"))
                self._changed.set()
                script = self._scripts.get(request.path) or self._scripts[None]
                step = script.popleft() if script else Step([HANG])
                if not await _play(step, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    start, *lines = head.strip().split("\r\n")
    method, target, _ = start.split(" ")
    raw_headers = [(key, value) for key, value in (line.split(": ", 1) for line in lines)]
    headers = dict(raw_headers)
    path, _, query = target.partition("?")
    body = await reader.readexactly(int(headers.get("Content-Length", "0")))
    params = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    return Request(method, path, params, headers, body, raw_headers)


async def _play(step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Respond, and return whether the connection can be used for other requests."""
    for part in step.parts:
        if isinstance(part, bytes):
            writer.write(part)
            await writer.drain()
        elif isinstance(part, asyncio.Event):
            await part.wait()
        elif part is HANG:
            await reader.read(1)  # i.e. until disconnected by the other side
            return False
        else:
            if part is RST:
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, linger
                )
            return False
    return True


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer()
    tcp = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    scripted.url = f"http://127.0.0.1:{tcp.sockets[0].getsockname()[1]}"
    yield scripted
    await stop_listening(tcp)
    await scripted.close()


@pytest.fixture
def settings() -> OperatorSettings:
    """The same as usual, but impatient."""
    settings = OperatorSettings()
    settings.networking.error_backoffs = ()
    settings.networking.request_timeout = 10
    settings.watching.reconnect_backoff = 0.001
    return settings


@pytest.fixture
async def client(server: ScriptedServer, settings: OperatorSettings) -> AsyncIterator[Client]:
    async with Client(ConnectionInfo(server=server.url, token="secret"), settings) as client:
        yield client


@pytest.fixture
def resource() -> Resource:
    return Resource(
        "kopf.dev",
        "v1",
        "kopfexamples",
        "KopfExample",
        namespaced=True,
        subresources=frozenset({"status"}),
    )


class CollectingSink:
    """Collects the events; tests wait until there is enough of them."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, str]] = []
        self.raw: list[Any] = []
        self.listings = 0
        self.drains = 0
        self.drained = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self._changed = asyncio.Event()

    def on_event(self, event: Any) -> None:
        self.raw.append(event)
        self.events.append((event["type"], event["object"]["metadata"].get("name")))
        self._changed.set()

    def on_listed(self) -> None:
        self.listings += 1
        self.events.append(("LISTED", ""))
        self._changed.set()

    async def drain(self) -> None:
        self.drains += 1
        self.drained.set()
        await self.gate.wait()

    async def until(self, *events: tuple[Any, str]) -> None:
        """Wait for exactly these events, in this order, since the last wait."""
        async with asyncio.timeout(60):
            while len(self.events) < len(events):
                self._changed.clear()
                await self._changed.wait()
        assert self.events == [*events]
        self.events.clear()


@pytest.fixture
def sink() -> CollectingSink:
    return CollectingSink()


@pytest.fixture
async def background() -> AsyncIterator[Callable[[Any], "asyncio.Task[Any]"]]:
    """Start coroutines in the background, and stop them in the end."""
    tasks: list[asyncio.Task[Any]] = []

    def start(coro: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(coro)
        tasks.append(task)
        return task

    yield start
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task


def _obj(name: str, rv: int | str = 1, *, uid: str | None = None, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}"}
    metadata["resourceVersion"] = str(rv)
    return {"metadata": metadata, **fields}


@pytest.fixture
def obj() -> Callable[..., dict[str, Any]]:
    """Make an object as the API gives it in lists."""
    return _obj


@pytest.fixture
def listed(server: ScriptedServer) -> Callable[..., Step]:
    """Make a response with a list of objects."""

    def make(names: Iterable[Any] = (), *, rv: int = 10, **metadata: Any) -> Step:
        return server.reply(
            {
                "kind": "KopfExampleList",
                "apiVersion": "kopf.dev/v1",
                "metadata": {"resourceVersion": str(rv), **metadata},
                "items": [_obj(name) if isinstance(name, str) else name for name in names],
            }
        )

    return make


@pytest.fixture
def event() -> Callable[..., dict[str, Any]]:
    """Make a watch-event."""

    def make(type_: str, name: str, rv: int, **kwargs: Any) -> dict[str, Any]:
        return {"type": type_, "object": _obj(name, rv, **kwargs)}

    return make
