"""Requests that are not answered for long are told of."""

import asyncio
import logging
import math
from types import SimpleNamespace

import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.clients import unanswered
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.credentials import ConnectionInfo


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def client(server, settings, clock, monkeypatch):
    monkeypatch.setattr(unanswered, "TICK", 0.001)
    info = ConnectionInfo(server=server.url)
    async with Client(info, settings, clock=clock) as client:
        yield client


@pytest.fixture
def told():
    """What is told; it can be waited for."""
    queue = asyncio.Queue()

    class Handler(logging.Handler):
        def emit(self, record):
            queue.put_nowait((record.levelname, record.getMessage()))

    handler = Handler()
    logger = logging.getLogger("kopf_cogs.clients.session")
    logger.addHandler(handler)
    yield queue
    logger.removeHandler(handler)


async def until_sent(server, count=1):
    await server.until(lambda requests: len(requests) == count)


async def test_hanging_requests_are_told_of_ever_rarer(server, client, clock, told, background):
    background(client.get("/apis", params={"continue": "secret"}))
    await until_sent(server)
    for seconds in (20, 40, 80):
        clock.advance(seconds - clock.monotonic())
        text = f"has not answered for {seconds} seconds, still waiting: GET /apis."
        assert await told.get() == ("WARNING", f"The API at {server.url} {text}")
    assert told.empty()


async def test_many_hanging_requests_are_one_message(server, client, clock, told, background):
    background(client.get("/first"))
    await until_sent(server)
    for number in range(3):
        background(client.patch("/other", {}, content_type="application/json"))
        await until_sent(server, number + 2)
    clock.advance(25)
    text = "has not answered for 25 seconds, still waiting: GET /first, and 3 more."
    assert await told.get() == ("WARNING", f"The API at {server.url} {text}")
    assert told.empty()


async def test_streams_are_waited_for_until_they_begin(server, client, clock, told, background):
    gate, opened = asyncio.Event(), asyncio.Event()
    server.script(server.raw(gate, *server.stream(server.HANG).parts))

    async def watch():
        async with client.stream("/pods"):
            opened.set()
            await asyncio.Event().wait()

    background(watch())
    await until_sent(server)
    clock.advance(20)
    assert "for 20 seconds, still waiting: GET /pods." in (await told.get())[1]
    gate.set()
    await opened.wait()
    clock.advance(1000)
    background(client.get("/other"))
    await until_sent(server, 2)
    clock.advance(20)
    assert "for 20 seconds, still waiting: GET /other." in (await told.get())[1]


async def test_answered_requests_are_forgotten(server, client, clock, told, background):
    gate = asyncio.Event()
    server.script(server.raw(gate, *server.reply({}).parts), server.reply({}))
    call = background(client.get("/1"))
    await until_sent(server)
    clock.advance(50)
    assert "for 50 seconds, still waiting: GET /1." in (await told.get())[1]
    gate.set()
    await call
    await client.get("/2")
    background(client.get("/3"))
    await until_sent(server, 3)
    clock.advance(20)  # not as long as the previous one
    assert "for 20 seconds, still waiting: GET /3." in (await told.get())[1]
    assert told.empty()


async def test_a_blocked_loop_does_not_blame_the_server(clock, told):
    call = SimpleNamespace(method="GET", url="/1")
    requests = unanswered.Unanswered(clock, logging.getLogger("kopf_cogs.clients.session"))
    requests.begin(call, "https://user:password@host")
    clock.advance(25)
    requests._check(-math.inf)
    assert told.empty()
    requests._check(math.inf)
    text = "The API at https://***@host has not answered for 25 seconds, still waiting: GET /1."
    assert (await told.get())[1] == text
    requests.end(call)
    requests.close()
