"""The fake API itself: it does the same things in the same order, whatever process it is in."""

from __future__ import annotations

import asyncio

from e2e.chaos.fake.http import Connection
from e2e.chaos.fake.server import FakeAPI

COUNT = 20
REQUEST = b"GET /apis HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def test_sim23_backups_break_the_connections_off_in_the_order_of_their_begins(monkeypatch):
    """Sets have the order of addresses in memory, which are others in each process."""
    broken = []
    monkeypatch.setattr(Connection, "reset", lambda self: broken.append(get_port(self._writer)))
    opened = []
    async with FakeAPI() as api:
        host, port = api.url.removeprefix("http://").split(":")
        for _ in range(COUNT):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(REQUEST)
            await reader.readuntil(b"\r\n\r\n")
            opened.append(writer)
        api.travel(api.store.version)
        assert broken == [writer.get_extra_info("sockname")[1] for writer in opened]
        for writer in opened:
            writer.close()


def get_port(writer):
    return writer.get_extra_info("peername")[1]
