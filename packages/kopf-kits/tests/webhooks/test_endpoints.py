"""Requests to webhook servers: what is answered, what is refused, and how."""

import asyncio
import gzip
import io
import json
import logging
import urllib.parse
from typing import Any

import aiohttp
import pytest

from kopf_cogs.aiokits import listeners
from kopf_cogs.structs.reviews import ReviewError, UnknownWebhookError
from kopf_kits.webhooks import WebhookServer, bodies

from .conftest import REVIEW, Serve, Served

Session = aiohttp.ClientSession


async def post(session: Session, url: str, data: Any, **headers: str) -> tuple[int, str]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    headers = {"Content-Type": "application/json"} | given
    body = io.BytesIO(data) if isinstance(data, bytes) else data
    async with session.post(url, data=body, headers=headers) as response:
        assert response.reason is not None
        return response.status, await response.text()


async def test_answer_is_json(insecure: Served, session: Session) -> None:
    async with session.post(insecure.url, json=REVIEW) as response:
        assert response.status == 200
        assert response.content_type == "application/json"
        answer = await response.json()
    assert answer["response"] == {"uid": "uid1", "allowed": True}


async def test_what_handlers_get(insecure: Served, session: Session) -> None:
    await post(session, insecure.url, json.dumps(REVIEW), Authorization="Basic eDp5")
    [call] = insecure.handlers.calls
    assert call["request"] == REVIEW
    assert call["webhook"] is None
    assert call["sslpeer"] is None
    assert type(call["headers"]) is dict
    assert call["headers"]["Authorization"] == "Basic eDp5"


@pytest.mark.parametrize(
    ("path", "webhook"),
    [
        ("", None),
        ("/", None),
        ("/fn1", "fn1"),
        ("/fn1?timeout=10s", "fn1"),
        ("/fn1/spec.field", "fn1/spec.field"),
        ("/fn1%2Fspec.field", "fn1/spec.field"),
        ("/fn%20%C3%BC", "fn ü"),
        ("/a..b", "a..b"),
    ],
)
@pytest.mark.parametrize("root", [None, "", "/", "/hooks", "hooks/", "/a/b"])
async def test_ids_from_paths(
    serve: Serve, session: Session, root: str | None, path: str, webhook: str | None
) -> None:
    server = WebhookServer(addr="127.0.0.1", insecure=True, path=root)
    async with serve(server) as served:
        url = aiohttp.client.URL(served.url + path, encoded=True)
        async with session.post(url, json=REVIEW) as response:
            assert response.status == 200
    assert served.handlers.calls[0]["webhook"] == webhook


async def request_raw(url: str, raw: bytes) -> bytes:
    """Send the bytes as they are, and read what comes until the server closes."""
    parts = urllib.parse.urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(raw)
    await writer.drain()
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    "path",
    [
        *["/hooks/../fn", "/hooks/.", "/hooks/a/../../b", "/hooks/%2e%2e/fn", "/hooks/a%2f..%2fb"],
        *[
            "/hooks/..%5cfn",
            "/hooks/%00",
            "/hooks/a%0d%0ab",
            "/hooks/%ff",
            "/hooksfn",
            "/other",
            "/",
        ],
    ],
)
async def test_g7_traversal_is_refused(serve: Serve, path: str) -> None:
    server = WebhookServer(addr="127.0.0.1", insecure=True, path="/hooks")
    async with serve(server) as served:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"
        )
        response = await request_raw(served.url, head.encode())
    assert response.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert served.handlers.calls == []


MALFORMED = {
    "text": b"hello",
    "nothing": b"",
    "cut": b'{"request": {',
    "list": b"[]",
    "null": b"null",
    "number": b"1",
    "string": b'"request"',
    "no request": b"{}",
    "null request": b'{"request": null}',
    "list request": b'{"request": []}',
    "long number": b'{"request": {"uid": ' + b"9" * 5000 + b"}",
    "deep lists": b'{"request": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"request":' * 100_000 + b"1" + b"}" * 100_000,
    "not utf-8": b'{"request": {"uid": "\xff\xfe"}}',
    "utf-16": json.dumps(REVIEW).encode("utf-16"),
    "gzip": gzip.compress(json.dumps(REVIEW).encode()),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_g2_malformed_bodies(
    insecure: Served, session: Session, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.INFO)
    status, text = await post(session, insecure.url, MALFORMED[name])
    assert status == 400
    assert len(text.splitlines()) == 1
    assert caplog.records == []


@pytest.mark.parametrize(
    "content_type", ["text/xml", "text/plain", "multipart/form-data; boundary=x", "x", "image/png"]
)
async def test_g2_wrong_types(insecure: Served, session: Session, content_type: str) -> None:
    data = json.dumps(REVIEW)
    status, _ = await post(session, insecure.url, data, Content_Type=content_type)
    assert status == 415


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/json; charset=utf-8", "application/x-www-form-urlencoded"],
)
async def test_right_types(insecure: Served, session: Session, content_type: str) -> None:
    data = json.dumps(REVIEW)
    status, _ = await post(session, insecure.url, data, Content_Type=content_type)
    assert status == 200


async def test_g2_compressed_bombs_are_not_even_read(insecure: Served, session: Session) -> None:
    bomb = gzip.compress(b'{"request": {"uid": "' + b"x" * 50_000_000 + b'"}}')
    status, _ = await post(session, insecure.url, bomb, Content_Encoding="gzip")
    assert status == 415
    assert insecure.handlers.calls == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_other_methods(insecure: Served, session: Session, method: str) -> None:
    async with session.request(method, insecure.url) as response:
        assert response.status == 405
        assert response.headers["Allow"] == "POST"


def make_review(length: int) -> bytes:
    head, tail = b'{"request": {"uid": "uid1", "object": "', b'"}}'
    return head + b"x" * (length - len(head) - len(tail)) + tail


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_g1_large_bodies(insecure: Served, session: Session, is_chunked: bool) -> None:
    async def generate(data: bytes) -> Any:
        for start in range(0, len(data), 100_000):
            yield data[start : start + 100_000]

    largest = make_review(bodies.MAX_BODY)
    status, _ = await post(session, insecure.url, generate(largest) if is_chunked else largest)
    assert status == 200
    larger = make_review(bodies.MAX_BODY + 1)
    status, text = await post(session, insecure.url, generate(larger) if is_chunked else larger)
    assert status == 413
    assert str(bodies.MAX_BODY) in text


def test_g1_objects_of_the_api_fit() -> None:
    assert bodies.MAX_BODY >= 2 * 3 * 1024 * 1024 + 1024 * 1024


async def test_g1_too_much_at_once(
    insecure: Served, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MAX_HELD", 3_000)
    insecure.handlers.gate.clear()
    body = make_review(2_000)
    waiting = asyncio.create_task(post(session, insecure.url, body))
    await insecure.handlers.called.wait()
    headers = {"Content-Type": "application/json"}
    async with session.post(insecure.url, data=body, headers=headers) as response:
        assert response.status == 503
        assert response.headers["Retry-After"] == "1"
    insecure.handlers.gate.set()
    assert (await waiting)[0] == 200
    assert (await post(session, insecure.url, body))[0] == 200


async def test_k23_long_bodies_that_never_end_give_way(
    insecure: Served, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, a few of them take all the memory that is there for the bodies of others."""
    monkeypatch.setattr(bodies, "MAX_HELD", 3_000)
    parts = urllib.parse.urlsplit(insecure.url)
    slow = [await asyncio.open_connection(parts.hostname, parts.port) for _ in range(2)]
    headers = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n"
    for (_, writer), length in zip(slow, (1_900, 1_000), strict=True):
        writer.write(headers + b"x" * length)
        await writer.drain()
    assert (await post(session, insecure.url, make_review(1_500)))[0] == 200
    assert (await slow[0][0].readline()).startswith(b"HTTP/1.1 503 ")
    assert (await post(session, insecure.url, make_review(1_500)))[0] == 200
    for _, writer in slow:
        writer.close()


async def test_k23_the_longest_body_gives_way_to_shorter_ones_only(
    insecure: Served, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MAX_HELD", 3_000)
    parts = urllib.parse.urlsplit(insecure.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    body = make_review(1_400)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1400\r\n\r\n" + body[:1_300])
    await writer.drain()
    assert (await post(session, insecure.url, make_review(2_000)))[0] == 503
    writer.write(body[1_300:])
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_g2_slow_bodies(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_TIMEOUT", 0.01)
    monkeypatch.setattr(listeners, "LINGERING_TIMEOUT", 0.01)
    headers = b"Host: x\r\nConnection: close\r\nTransfer-Encoding: chunked"
    async with serve(WebhookServer(addr="127.0.0.1", insecure=True)) as insecure:
        response = await request_raw(
            insecure.url, b"POST / HTTP/1.1\r\n" + headers + b"\r\n\r\n1\r\n"
        )
    assert response.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    ("error", "status"), [(ReviewError("No!"), 400), (UnknownWebhookError("No!"), 404)]
)
async def test_refusals_of_the_operator(
    insecure: Served, session: Session, error: Exception, status: int
) -> None:
    insecure.handlers.error = error
    assert await post(session, insecure.url, json.dumps(REVIEW)) == (status, "No!\n")


async def test_g2_line_breaks_do_not_get_into_headers(insecure: Served, session: Session) -> None:
    insecure.handlers.error = ReviewError("No!\r\nX-Evil: yes\r\n")
    async with session.post(insecure.url, json=REVIEW) as response:
        assert response.status == 400
        assert response.reason == "Bad Request"
        assert "X-Evil" not in response.headers


@pytest.mark.parametrize("failure", ["raised", "timeout", "not json"])
async def test_failures_of_the_operator(
    insecure: Served, session: Session, caplog: pytest.LogCaptureFixture, failure: str
) -> None:
    if failure == "not json":
        insecure.handlers.extra = {"what": object()}
    else:
        insecure.handlers.error = TimeoutError() if failure == "timeout" else OSError("s3cret")
    status, text = await post(session, insecure.url, json.dumps(REVIEW))
    assert status == 500
    assert "s3cret" not in text
    [record] = caplog.records
    assert record.exc_info is None
    assert "A review could not be answered" in record.message


async def test_g3_handlers_are_cancelled_if_nobody_waits(insecure: Served) -> None:
    parts = urllib.parse.urlsplit(insecure.url)
    cancelled = asyncio.Event()
    insecure.handlers.gate = Hanging(cancelled)  # type: ignore[assignment]
    _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    body = json.dumps(REVIEW)
    writer.write(
        f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    await insecure.handlers.called.wait()
    writer.close()
    await cancelled.wait()


class Hanging:
    def __init__(self, cancelled: asyncio.Event) -> None:
        super().__init__()
        self.cancelled = cancelled

    async def wait(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


async def test_k13_clients_of_a_leaving_replica_connect_anew(
    insecure: Served, session: Session
) -> None:
    """To another replica, if there is any; and it is not left to chance who closes first."""
    for is_leaving, header in [(False, None), (True, "close")]:
        insecure.handlers.is_leaving = is_leaving
        async with session.post(insecure.url, json=REVIEW) as response:
            assert response.status == 200
            assert response.headers.get("Connection") == header
