"""Whatever is sent, and however, the server answers the next request."""

import asyncio
import gc
import json
import logging
import random
import socket
import ssl
import urllib.parse
import warnings
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kopf_cogs.aiokits import listeners
from kopf_kits.webhooks import WebhookServer
from kopf_kits.webhooks.endpoints import ReviewEndpoint
from kopf_kits.webhooks.listeners import open_socket

from .conftest import REVIEW, Handlers, Serve, Served

BODIES = 500
RAW = 200
TEMPLATE = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "1ca13837-ad60-4c9e-abb8-86f29d6c0e84",
        "kind": {"group": "kopf.dev", "version": "v1", "kind": "KopfExample"},
        "resource": {"group": "kopf.dev", "version": "v1", "resource": "kopfexamples"},
        "operation": "CREATE",
        "object": {"metadata": {"name": "x", "labels": {"a/b": "ü~"}}, "spec": {"n": [1, 2.5]}},
        "oldObject": None,
    },
}
KEPT = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 28\r\n\r\n" + json.dumps(REVIEW).encode()
"""A review whose connection is kept for the next one."""

JUNK: list[Any] = [None, True, 0, -1, 1e308, "", "\0", "\ud800", [], {}, [[[]]], "9" * 5000]


def mutate_value(rng: random.Random, value: Any) -> Any:
    """Put junk in some random places of a structure."""
    if rng.random() < 0.15:
        return rng.choice(JUNK)
    if isinstance(value, dict):
        return {k: mutate_value(rng, v) for k, v in value.items() if rng.random() > 0.1}
    if isinstance(value, list):
        return [mutate_value(rng, v) for v in value]
    return value


def make_body(rng: random.Random) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randrange(300))
    body = bytearray(json.dumps(mutate_value(rng, TEMPLATE)).encode())
    if kind == 1:
        for _ in range(rng.randrange(1, 10)):
            body[rng.randrange(len(body))] = rng.randrange(256)
    if kind == 2:
        del body[rng.randrange(len(body)) :]
    return bytes(body)


async def is_serving(served: Served, session: aiohttp.ClientSession) -> bool:
    async with session.post(served.url, json=REVIEW) as response:
        return response.status == 200


async def test_g2_fuzzed_bodies(
    insecure: Served, session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rng = random.Random(20261122)
    statuses = set()
    for _ in range(BODIES):
        headers = {"Content-Type": "application/json"}
        async with session.post(insecure.url, data=make_body(rng), headers=headers) as response:
            statuses.add(response.status)
    assert statuses == {200, 400}
    assert caplog.records == []
    assert await is_serving(insecure, session)


def make_request(rng: random.Random) -> bytes:
    """Bytes that resemble an HTTP request to some extent."""
    body = make_body(rng)
    length = rng.choice([str(len(body)), "0", "-1", "99999999999999999999", "x", "1_0", ""])
    lines = [
        rng.choice(["POST", "GET", "P\0ST", "POST" * 5000, "CONNECT", "PRI"])
        + rng.choice(
            [" / ", " * ", " //../.. ", " http://[::1/ ", " ", " /%zz ", " /" + "a" * 9999]
        )
        + rng.choice(["HTTP/1.1", "HTTP/1.0", "HTTP/9.9", "HTTP/2.0", "", "ICY"]),
        "Host: x",
        f"Content-Length: {length}",
        rng.choice(["Expect: 100-continue", "Expect: x", "Upgrade: websocket", "X: \x00", "X"]),
        rng.choice(
            ["Transfer-Encoding: chunked", "Transfer-Encoding: gzip", "X: " + "y" * 9999, ""]
        ),
        rng.choice(["Content-Encoding: br", "Connection: keep-alive", "Connection: upgrade", ""]),
    ]
    data = rng.choice(["\r\n", "\r\n", "\n"]).join([*lines, "", ""]).encode("latin-1") + body
    return data[: rng.randrange(1, len(data))] if rng.random() < 0.3 else data


async def send(url: str, data: bytes, tls: ssl.SSLContext | None = None) -> None:
    """Send it, and hang up, be it answered or not."""
    parts = urllib.parse.urlsplit(url)
    try:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls)
    except OSError:
        return
    try:
        writer.write(data)
        writer.write_eof() if writer.can_write_eof() else None
        await reader.read()
    except OSError:
        pass
    finally:
        writer.close()


async def open_kept(
    url: str, peer: str = "127.0.0.1"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect from that address, and have a review accepted; the connection stays."""
    parts = urllib.parse.urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, local_addr=(peer, 0))
    await ask_again(reader, writer)
    return reader, writer


async def ask_again(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(KEPT)
    await read_answer(reader)


async def read_answer(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    _, _, rest = head.partition(b"Content-Length: ")
    await reader.readexactly(int(rest.partition(b"\r\n")[0]))


@pytest.mark.parametrize("is_insecure", [True, False])
@pytest.mark.usefixtures("cryptography")
async def test_fuzzed_connections(
    serve: Serve,
    session: aiohttp.ClientSession,
    caplog: pytest.LogCaptureFixture,
    is_insecure: bool,
) -> None:
    """Into HTTPS, they come with no TLS at all."""
    caplog.set_level(logging.INFO)
    rng = random.Random(20261123)
    insecure = WebhookServer(addr="127.0.0.1", insecure=is_insecure)
    async with serve(insecure) as served:
        for _ in range(RAW // 20):
            await asyncio.gather(*(send(served.url, make_request(rng)) for _ in range(20)))
        async with session.post(served.url, json=REVIEW, ssl=False) as response:
            assert response.status == 200
    assert [record.message for record in caplog.records if record.exc_info] == []
    assert [r.message for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_g2_failures_to_parse_are_quiet(
    insecure: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As of older HTTP libraries, if there are addresses that are not addresses."""

    def fail(self: web.RequestHandler, data: bytes) -> None:
        raise ValueError("Invalid IPv6 URL")

    caplog.set_level(logging.INFO)
    monkeypatch.setattr(web.RequestHandler, "data_received", fail)
    parts = urllib.parse.urlsplit(insecure.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(b"POST http://[::1/ HTTP/1.1\r\n\r\n")
    async with asyncio.timeout(60):
        assert await reader.read() == b""
    writer.close()
    assert caplog.records == []


async def test_parallel_connections(insecure: Served, session: aiohttp.ClientSession) -> None:
    parts = urllib.parse.urlsplit(insecure.url)
    opened = await asyncio.gather(
        *(asyncio.open_connection(parts.hostname, parts.port) for _ in range(200))
    )
    for _, writer in opened:
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert await is_serving(insecure, session)
    for _, writer in opened:
        writer.transport.abort()
    assert await is_serving(insecure, session)


@pytest.mark.parametrize("is_insecure", [True, False])
@pytest.mark.usefixtures("cryptography")
async def test_g2_those_who_only_connect_give_way(
    serve: Serve,
    session: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
    is_insecure: bool,
) -> None:
    """Be it before, in the middle, or after the TLS handshake."""
    monkeypatch.setattr(listeners, "MAX_CONNECTIONS", 5)
    data = b"POST / HT" if is_insecure else b"\x16\x03\x01\x02\x00\x01"
    async with serve(WebhookServer(addr="127.0.0.1", insecure=is_insecure)) as served:
        parts = urllib.parse.urlsplit(served.url)
        opened = []
        for n in range(20):
            opened.append(await asyncio.open_connection(parts.hostname, parts.port))
            if n % 2:
                opened[-1][1].write(data)
        async with asyncio.timeout(60):
            for reader, _ in opened[:15]:  # the first ones are closed, the last ones are kept
                assert await reader.read() == b""
            async with session.post(served.url, json=REVIEW, ssl=False) as response:
                assert response.status == 200
        assert not opened[-1][0].at_eof()
        for _, writer in opened:
            writer.close()


async def test_k23_idle_connections_give_way(
    serve: Serve, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that had a review accepted, the longest idle one first."""
    monkeypatch.setattr(listeners, "MAX_CONNECTIONS", 3)
    async with serve(WebhookServer(addr="127.0.0.1", insecure=True)) as served:
        kept = [await open_kept(served.url) for _ in range(3)]
        await ask_again(*kept[0])  # the second one is idle for the longest time now
        assert await is_serving(served, session)
        assert await kept[1][0].read() == b""
        await ask_again(*kept[2])
        await ask_again(*kept[0])
        for _, writer in kept:
            writer.close()


BEGINNINGS = [
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n",
]


@pytest.mark.parametrize("beginning", BEGINNINGS, ids=["length", "chunks", "expect"])
async def test_k23_requests_that_never_end_give_way(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, beginning: bytes
) -> None:
    """They have begun, but nothing is to be done for them until their bodies come."""
    begun = asyncio.Event()
    begin = listeners._Connection.begin

    def notice(self: listeners._Connection, *args: Any) -> None:
        begin(self, *args)
        begun.set()

    monkeypatch.setattr(listeners._Connection, "begin", notice)
    monkeypatch.setattr(listeners, "MAX_CONNECTIONS", 2)
    async with serve(WebhookServer(addr="127.0.0.1", insecure=True)) as served:
        parts = urllib.parse.urlsplit(served.url)
        slow = []
        for _ in range(2):
            begun.clear()
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            writer.write(beginning)
            await begun.wait()
            slow.append((reader, writer))
        _, newcomer = await open_kept(served.url)
        assert await slow[0][0].read() == b""
        newcomer.close()
        for _, writer in slow:
            writer.close()


@pytest.mark.parametrize("beginning", BEGINNINGS, ids=["length", "chunks", "expect"])
async def test_k23_those_hung_up_amid_requests_are_not_errors(
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    beginning: bytes,
) -> None:
    """Otherwise, whoever can connect, could fill the log."""
    caplog.set_level(logging.INFO)
    review = ReviewEndpoint._review

    async def hang_up_and_review(self: ReviewEndpoint, request: web.BaseRequest) -> web.Response:
        assert isinstance(request.protocol, listeners._Connection)
        request.protocol.hang_up()
        return await review(self, request)

    monkeypatch.setattr(ReviewEndpoint, "_review", hang_up_and_review)
    async with serve(WebhookServer(addr="127.0.0.1", insecure=True)) as served:
        parts = urllib.parse.urlsplit(served.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(beginning)
        assert await reader.read() == b""
        writer.close()
    assert caplog.records == []


async def test_k23_connections_in_use_do_not_give_way(
    serve: Serve, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "MAX_CONNECTIONS", 1)
    async with serve(WebhookServer(addr="127.0.0.1", insecure=True)) as served:
        handlers.gate.clear()
        opening = asyncio.create_task(open_kept(served.url))
        await handlers.called.wait()
        parts = urllib.parse.urlsplit(served.url)
        reader, refused = await asyncio.open_connection(parts.hostname, parts.port)
        assert await reader.read() == b""
        handlers.gate.set()
        _, writer = await opening
        writer.close()
        refused.close()


async def test_k23_one_peer_cannot_take_all_places(
    serve: Serve, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even with requests that are in work for long; others are served meanwhile."""
    monkeypatch.setattr(listeners, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr(listeners, "MAX_PEER_CONNECTIONS", 3)
    async with serve(WebhookServer(addr="127.0.0.1", insecure=True)) as served:
        parts = urllib.parse.urlsplit(served.url)
        handlers.gate.clear()
        greedy = [await asyncio.open_connection(parts.hostname, parts.port) for _ in range(3)]
        for number, (_, writer) in enumerate(greedy):
            handlers.called.clear()
            writer.write(KEPT)
            await handlers.called.wait()
            assert len(handlers.calls) == number + 1
        reader, refused = await asyncio.open_connection(parts.hostname, parts.port)
        assert await reader.read() == b""
        refused.close()
        handlers.gate.set()
        for reader, writer in greedy:
            await read_answer(reader)
            writer.close()
        handlers.gate.clear()
        handlers.called.clear()
        opening = asyncio.create_task(open_kept(served.url, peer="127.0.0.2"))
        await handlers.called.wait()
        handlers.gate.set()
        _, writer = await opening
        writer.close()


async def test_k23_a_greedy_peer_gives_way_to_itself(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "MAX_PEER_CONNECTIONS", 2)
    async with serve(WebhookServer(addr="127.0.0.1", insecure=True)) as served:
        first = await open_kept(served.url, peer="127.0.0.2")
        greedy = [await open_kept(served.url) for _ in range(4)]
        for reader, _ in greedy[:2]:
            assert await reader.read() == b""
        await ask_again(*first)
        for _, writer in (first, *greedy):
            writer.close()


async def test_k23_newcomers_have_the_time_to_ask(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who come after them take the places of those who are idle for longer."""
    monkeypatch.setattr(listeners, "MAX_PEER_CONNECTIONS", 3)
    async with serve(WebhookServer(addr="127.0.0.1", insecure=True)) as served:
        parts = urllib.parse.urlsplit(served.url)
        kept = [await open_kept(served.url) for _ in range(3)]
        newcomer = await asyncio.open_connection(parts.hostname, parts.port)
        later = await open_kept(served.url)
        await ask_again(*newcomer)
        for _, writer in (*kept, newcomer, later):
            writer.close()


async def test_g2_connections_are_closed_after_refusals(insecure: Served) -> None:
    """Otherwise, all places could be taken by those who send nonsense once."""
    parts = urllib.parse.urlsplit(insecure.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nnull")
    async with asyncio.timeout(60):
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()


async def test_shortages_are_survived(
    serve: Serve, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "ACCEPTING_DELAY", 0.01)
    failures = [OSError(24, "Too many open files")] * 3
    accept = socket.socket.accept

    def fail(sock: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return accept(sock)

    monkeypatch.setattr(socket.socket, "accept", fail)
    async with serve(WebhookServer(addr="127.0.0.1", insecure=True)) as served:
        assert await is_serving(served, session)
    assert not failures


@pytest.mark.parametrize("steps", range(5))
async def test_g2_connections_are_closed_if_they_come_while_the_server_stops(
    caplog: pytest.LogCaptureFixture, steps: int
) -> None:
    """However far accepting of it is; a socket left unclosed is a warning, i.e. an error."""
    sock = open_socket("127.0.0.1", None)
    nothing: Any = None  # nothing is requested
    listener = listeners.Listener(nothing, sock, logging.getLogger("kopf.webhooks"))
    await listener.swap(None)
    for _ in range(5):
        await asyncio.sleep(0)
    address = ("127.0.0.1", listener.port)
    with (
        warnings.catch_warnings(record=True) as caught,
        socket.create_connection(address),
    ):
        warnings.simplefilter("always")
        for _ in range(steps):
            await asyncio.sleep(0)
        await listener.close()
        await asyncio.sleep(0)
        gc.collect()
    unclosed = [str(warning.message) for warning in caught]
    assert [text for text in unclosed if str(address) in text] == []  # not those of other tests
    assert caplog.records == []


@pytest.mark.parametrize("data", [b"", b"POST / HTTP/1.1\r\nHost: "])
async def test_g2_silent_connections_are_closed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(listeners, "SILENCE_TIMEOUT", 0.01)
    async with serve(WebhookServer(addr="127.0.0.1", insecure=True)) as served:
        parts = urllib.parse.urlsplit(served.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(data)
        assert await reader.read() == b""
        writer.close()


@pytest.mark.usefixtures("cryptography")
async def test_handshakes_are_limited_in_time(
    serve: Serve, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "HANDSHAKE_TIMEOUT", 0.01)
    async with serve(WebhookServer(addr="127.0.0.1")) as served:
        parts = urllib.parse.urlsplit(served.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        assert await reader.read() == b""
        writer.close()
