"""HTTP/1.1 on plain streams: as much as operators need, and all ways to break it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import socket
import struct
import urllib.parse
from collections.abc import Mapping
from typing import Any

_PHRASES = {200: "OK", 201: "Created"}


@dataclasses.dataclass(frozen=True)
class Request:
    """What has come from the operator."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def payload(self) -> Any:
        return json.loads(self.body) if self.body else None


@dataclasses.dataclass(frozen=True)
class Reply:
    """What goes back, as a whole."""

    status: int
    body: bytes
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def make(cls, status: int, payload: Any, headers: Mapping[str, str] | None = None) -> Reply:
        return cls(status, json.dumps(payload).encode(), headers or {})

    @property
    def payload(self) -> Any:
        return json.loads(self.body)

    def encode(self) -> bytes:
        return (
            encode_head(self.status, self.headers, f"Content-Length: {len(self.body)}") + self.body
        )


def encode_head(status: int, headers: Mapping[str, str], framing: str) -> bytes:
    """The status line and the headers; ``framing`` is the header that tells of the length."""
    fields = {"Content-Type": "application/json", **headers}
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, 'Refused')}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, framing, "", ""]).encode()


class Connection:
    """One connection with the operator."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> Request | None:
        """The next request; nothing if the other side has closed the connection."""
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
            fields = (line.partition(":") for line in lines)
            headers = {name.strip().lower(): value.strip() for name, _, value in fields}
            body = await self._receive_body(headers)
        except (asyncio.IncompleteReadError, OSError):
            return None
        method, target, _ = first.split(" ")
        path, _, query = target.partition("?")
        parsed = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        return Request(method, urllib.parse.unquote(path), parsed, headers, body)

    async def _receive_body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            return await self._reader.readexactly(int(headers.get("content-length", 0)))
        body = b""
        while size := int((await self._reader.readline()).split(b";")[0], 16):
            body += await self._reader.readexactly(size)
            await self._reader.readline()
        await self._reader.readline()
        return body

    async def send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()

    async def send_head(self, status: int = 200) -> None:
        """Begin a reply of an unknown length, to be continued by chunks."""
        await self.send(encode_head(status, {}, "Transfer-Encoding: chunked"))

    async def send_chunk(self, data: bytes) -> None:
        await self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def send_end(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def wait_closed(self) -> None:
        """Wait until the other side goes away. It sends nothing before it has a reply."""
        with contextlib.suppress(OSError):
            await self._reader.read(1)

    def reset(self) -> None:
        """Break the connection off, so that the other side gets an error instead of an end."""
        sock: socket.socket | None = self._writer.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()

    @property
    def is_open(self) -> bool:
        return not self._writer.is_closing()
