"""Admission reviews, posted to the operator as API servers do: over a few lasting connections."""

from __future__ import annotations

import asyncio
import time

from bench.loadserver.objects import dumps, make_object

CONNECTIONS = 8


async def post_reviews(port: int, count: int, delay: float = 0) -> None:
    """Post the reviews; with a delay, one by one with pauses, over one connection."""
    connections = 1 if delay else CONNECTIONS
    share, rest = divmod(count, connections)
    numbers = [share + (index < rest) for index in range(connections)]
    await asyncio.gather(*(_post(port, number, delay) for number in numbers))


async def _post(port: int, count: int, delay: float) -> None:
    template = dumps(_make_review()).replace(b'"@sent@"', b"%d")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for _ in range(count):
            body = template % time.monotonic_ns()
            head = f"POST /check HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            await _read_response(reader)
            await asyncio.sleep(delay)
    finally:
        writer.close()


async def _read_response(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    body = await reader.readexactly(length)
    if not head.startswith(b"http/1.1 200") or b'"allowed": true' not in body.replace(
        b'"allowed":true', b'"allowed": true'
    ):
        raise RuntimeError(f"The review is not allowed: {body[:200]!r}")


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
