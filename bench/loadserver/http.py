"""HTTP/1.1 in the least possible work: no header objects, no routing tables, no pipelining."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol, cast

REASONS = {200: b"OK", 201: b"Created", 404: b"Not Found", 410: b"Gone", 422: b"Unprocessable"}


@dataclass(slots=True)
class Request:
    method: str
    path: str
    query: str
    head: bytes  # lower-cased
    body: bytes

    def param(self, name: str) -> str | None:
        for part in self.query.split("&"):
            if part.startswith(name + "="):
                return part[len(name) + 1 :]
        return None


class Application(Protocol):
    def handle(self, connection: Connection, request: Request) -> None: ...

    def disconnected(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """One client's connection; the application responds whenever it likes."""

    transport: asyncio.Transport

    def __init__(self, application: Application) -> None:
        self.application = application
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.application.disconnected(self)

    def data_received(self, data: bytes) -> None:
        self.buffer = self.buffer + data if self.buffer else data
        while (request := self.parse()) is not None:
            self.application.handle(self, request)

    def parse(self) -> Request | None:
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = self.buffer[:end].lower()
        start, length = end + 4, content_length(head)
        if len(self.buffer) < start + length:
            return None
        method, target, _ = self.buffer[: self.buffer.index(b"\r\n")].decode().split(" ", 2)
        path, _, query = target.partition("?")
        body = self.buffer[start : start + length]
        self.buffer = self.buffer[start + length :]
        return Request(method, path, query, head, body)

    def respond(self, body: bytes, status: int = 200) -> None:
        self.transport.write(
            b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (status, REASONS[status], len(body), body)
        )

    def start_stream(self) -> None:
        self.transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )


def content_length(head: bytes) -> int:
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        return 0
    stop = head.find(b"\r\n", at + 2)
    return int(head[at + 17 : stop if stop >= 0 else None])
