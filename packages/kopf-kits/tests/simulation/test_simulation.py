"""The simulated world itself: its time, its network, its crashes."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kopf_kits.simulation import Incarnation, Standstill, World, live


async def serve(seen: list[str]) -> str:
    async def handle(request: web.BaseRequest) -> web.Response:
        seen.append(await request.text())
        return web.Response(text="pong")

    server = web.Server(handle, access_log=None)
    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    return "http://{}:{}".format(*listening.sockets[0].getsockname())


def test_time_is_virtual():
    async def story() -> float:
        await asyncio.sleep(1_000_000)
        return asyncio.get_running_loop().time()

    world = World(1)
    began = time.process_time()
    assert live(world, story()) == pytest.approx(1_000_000)
    assert time.process_time() - began < 1_000


def test_nothing_to_happen_is_a_failure():
    world = World(1)
    with pytest.raises(Standstill):
        live(world, asyncio.Event().wait())


def test_a_busy_loop_is_a_failure():
    async def story() -> None:
        for _ in range(10**9):
            await asyncio.sleep(0)

    with pytest.raises(Standstill):
        live(World(1), story())


def test_real_http_goes_over_the_simulated_network():
    seen: list[str] = []

    async def story() -> str:
        url = await serve(seen)
        async with aiohttp.ClientSession() as session, session.post(url, data="ping") as response:
            return await response.text()

    assert live(World(1), story()) == "pong"
    assert seen == ["ping"]


def test_nobody_listens():
    async def story() -> None:
        async with aiohttp.ClientSession() as session:
            await session.get("http://127.0.0.1:12345")

    with pytest.raises(aiohttp.ClientConnectorError):
        live(World(1), story())


def test_lost_replies_are_lost_after_the_request_is_executed():
    seen: list[str] = []

    async def story(world: World) -> None:
        url = await serve(seen)
        world.loop.network.lose_replies(1)
        async with aiohttp.ClientSession() as session:
            await session.post(url, data="ping")

    world = World(1)
    with pytest.raises(aiohttp.ClientError):
        live(world, story(world))
    assert seen == ["ping"]


def test_large_messages_wait_for_slow_readers():
    async def story() -> int:
        async def handle(request: web.BaseRequest) -> web.Response:
            return web.Response(body=b"x" * 1_000_000)

        server = web.Server(handle, access_log=None)
        listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        url = "http://{}:{}".format(*listening.sockets[0].getsockname())
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            await asyncio.sleep(10)
            return len(await response.read())

    assert live(World(1), story()) == 1_000_000


@pytest.mark.parametrize(("step", "expected"), [(1, []), (3, []), (4, [0]), (7, [0, 1])])
def test_crashed_incarnations_do_nothing_more(step, expected):
    done: list[int] = []

    async def program() -> None:
        try:
            for number in range(10):
                await asyncio.sleep(1)
                done.append(number)
        finally:
            done.append(-1)

    async def story() -> list[int]:
        Incarnation("one", crash_at=step).start(program())
        await asyncio.sleep(100)
        return [*done]

    assert live(World(1), story()) == expected


def test_suspended_incarnations_go_on_later():
    moments: list[float] = []

    async def program(world: World) -> None:
        await asyncio.sleep(1)
        moments.append(world.loop.time())

    async def story(world: World) -> None:
        incarnation = Incarnation("one")
        incarnation.start(program(world))
        incarnation.suspend()
        await asyncio.sleep(7)
        assert incarnation.is_suspended
        incarnation.resume(world.loop.reschedule)
        await asyncio.sleep(7)

    world = World(1)
    live(world, story(world))
    assert moments == [8.0]


def test_the_connections_of_the_crashed_are_broken():
    async def story() -> str:
        lost = asyncio.Event()

        class Protocol(asyncio.Protocol):
            def connection_lost(self, exc: Exception | None) -> None:
                lost.set()

        loop = asyncio.get_running_loop()
        listening = await loop.create_server(Protocol, "127.0.0.1", 0)
        host, port = listening.sockets[0].getsockname()

        async def program() -> None:
            await loop.create_connection(asyncio.Protocol, host, port)

        incarnation = Incarnation("one")
        await incarnation.start(program())
        assert not lost.is_set()
        incarnation.crash()
        await lost.wait()
        return "broken"

    assert live(World(1), story()) == "broken"


@pytest.mark.parametrize("seed", range(5))
def test_the_bytes_of_a_connection_keep_their_order_though_callbacks_are_shuffled(seed):
    expected = bytes(range(20))
    got = bytearray()

    class Sender(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            for number in expected:
                transport.write(bytes([number]))  # type: ignore[attr-defined]

    class Receiver(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            got.extend(data)

    async def story(world: World) -> None:
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(Sender, "127.0.0.1", 0)
        host, port = listening.sockets[0].getsockname()

        async def program() -> None:
            await loop.create_connection(Receiver, host, port)

        incarnation = Incarnation("one")
        await incarnation.start(program())
        incarnation.suspend()
        await asyncio.sleep(7)
        incarnation.resume(world.loop.reschedule)
        await asyncio.sleep(7)

    world = World(seed, shuffled=True)
    live(world, story(world))
    assert got == expected


def test_senders_are_held_and_let_go_in_turns():
    calls: list[str] = []

    class Sender(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.write(b"x" * 100_000)  # type: ignore[attr-defined]
            senders.append(transport)

        def pause_writing(self) -> None:
            calls.append("pause")

        def resume_writing(self) -> None:
            calls.append("resume")

    class Receiver(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            if senders:  # more is sent before the sender is told that the line is free
                loop = asyncio.get_running_loop()
                loop.call_soon(senders.pop().write, b"x" * 100_000)

    senders: list[Any] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(Sender, "127.0.0.1", 0)
        host, port = listening.sockets[0].getsockname()
        await loop.create_connection(Receiver, host, port)
        await asyncio.sleep(7)

    live(World(1), story())
    assert calls == ["pause", "resume"]
