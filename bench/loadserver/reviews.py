"""Reviews, posted to the operator as API servers do: over a few lasting connections."""

from __future__ import annotations

import asyncio
import time

from bench.cells import Cells
from bench.loadserver.objects import dumps, make_object

CONNECTIONS = 8
CONVERSIONS = 10
"""How many conversions the API server asks for at once."""

PAUSE = 0.02  # seconds

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def post_reviews(port: int, count: int, delay: float = 0) -> None:
    """Post the reviews; with a delay, one by one with pauses, over one connection."""
    connections = 1 if delay else CONNECTIONS
    share, rest = divmod(count, connections)
    numbers = [share + (index < rest) for index in range(connections)]
    await asyncio.gather(*(_post(port, number, delay) for number in numbers))


async def post_conversions(port: int, count: int, cells: Cells) -> None:
    """Post them by tens, each of ten over its own connection; note how long each one takes."""
    message = dumps(_make_conversion())
    opening = (asyncio.open_connection("127.0.0.1", port) for _ in range(CONVERSIONS))
    connections = await asyncio.gather(*opening)
    try:
        for _ in range(0, count, CONVERSIONS):
            await asyncio.gather(*(_convert(one, message, cells) for one in connections))
            await asyncio.sleep(PAUSE)
    finally:
        for _, writer in connections:
            writer.close()


async def _convert(connection: Connection, message: bytes, cells: Cells) -> None:
    sent = time.monotonic_ns()
    answer = await _ask(connection, "/convert/kopfexamples.kopf.dev", message)
    cells.count(sent)
    if b'"status":"Success"' not in answer:
        raise RuntimeError(f"The object is not converted: {answer[:200]!r}")


async def _post(port: int, count: int, delay: float) -> None:
    template = dumps(_make_review()).replace(b'"@sent@"', b"%d")
    connection = await asyncio.open_connection("127.0.0.1", port)
    try:
        for _ in range(count):
            answer = await _ask(connection, "/check", template % time.monotonic_ns())
            if b'"allowed":true' not in answer:
                raise RuntimeError(f"The review is not allowed: {answer[:200]!r}")
            await asyncio.sleep(delay)
    finally:
        connection[1].close()


async def _ask(connection: Connection, path: str, body: bytes) -> bytes:
    """Get the answer with no spaces where there can be some."""
    reader, writer = connection
    head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    received = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(received.partition(b"content-length:")[2].partition(b"\r\n")[0])
    answer = await reader.readexactly(length)
    if not received.startswith(b"http/1.1 200"):
        raise RuntimeError(f"The review is refused: {answer[:200]!r}")
    return answer.replace(b": ", b":")


def _make_conversion() -> dict[str, object]:
    request = {
        "uid": "0b4c1c57-6a9a-4d5d-a4f6-64a2ee7f41d5",
        "desiredAPIVersion": "kopf.dev/v1",
        "objects": [make_object(0) | {"apiVersion": "kopf.dev/v1alpha1"}],
    }
    kind = "ConversionReview"
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": kind, "request": request}


def _make_review() -> dict[str, object]:
    body = make_object(0)
    body["spec"]["sent"] = "@sent@"
    group, version = body["apiVersion"].split("/")
    ids = {"group": group, "version": version}
    request = {
        "uid": "0b4c1c57-6a9a-4d5d-a4f6-64a2ee7f41d5",
        "kind": {**ids, "kind": body["kind"]},
        "resource": {**ids, "resource": "kopfexamples"},
        "name": body["metadata"]["name"],
        "namespace": body["metadata"]["namespace"],
        "operation": "CREATE",
        "userInfo": {"username": "bench", "groups": ["system:masters"]},
        "object": body,
        "oldObject": None,
        "dryRun": False,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
