"""Credentials that change while a client of its own works: nobody else renews them."""

import asyncio
import dataclasses
import datetime
import math

import aiohttp
import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.clients import errors, renewals
from kopf_cogs.clients.reflector import Reflector
from kopf_cogs.clients.renewals import SETTLING
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.credentials import AiohttpSession, ConnectionInfo, LoginError

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def clock():
    return FakeClock(NOW)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "token"
    path.write_text("old\n")
    return path


@pytest.fixture
async def client(server, settings, clock, path):
    settings.networking.error_backoffs = ()
    info = ConnectionInfo(server=server.url, token="old", token_path=path)
    async with Client(info, settings, clock=clock) as client:
        yield client


def get_tokens(server):
    return [request.headers["Authorization"].partition(" ")[2] for request in server.requests]


async def test_k22_files_of_tokens_are_read_again_when_tokens_are_refused(server, client, path):
    server.script(server.reply({}), server.error(401), server.reply({"a": 1}))
    await client.get("/path")
    path.write_text("new\n")
    assert await client.get("/path") == {"a": 1}
    assert get_tokens(server) == ["old", "old", "new"]


async def test_k22_files_of_tokens_are_read_again_ahead_of_refusals(
    server, client, clock, path, monkeypatch
):
    monkeypatch.setattr(renewals, "POLLING", 0.01)
    monkeypatch.setattr(renewals, "SETTLING", 0.01)
    server.script(server.reply({}), server.reply({}))
    await client.get("/path")
    path.write_text("new\n")
    async with asyncio.timeout(60):
        while client.vault.select().info.token != "new":
            clock.advance(1)
            await asyncio.sleep(0)
    await client.get("/path")
    assert get_tokens(server) == ["old", "new"]


async def test_k22_reflectors_go_on_with_the_next_tokens(
    server, client, path, resource, sink, background, listed, event
):
    stream = server.stream(event("ADDED", "a", 11), server.HANG)
    server.script(listed(rv=10), server.error(401), stream)
    reflecting = background(Reflector(client, resource, "ns", sink=sink).run())
    path.write_text("new\n")
    await sink.until(("LISTED", ""), ("ADDED", "a"))
    assert get_tokens(server) == ["old", "old", "new"]
    assert not reflecting.done()


async def test_k22_reflectors_wait_for_tokens_that_come_late(
    server, client, clock, path, resource, sink, background, listed, event, monkeypatch
):
    monkeypatch.setattr(renewals, "REPEATING", math.inf)  # the server would accept any token then
    client.settings.watching.reconnect_backoff = 0
    stream = server.stream(event("ADDED", "a", 11), server.HANG)
    server.script(listed(rv=10), server.error(401), stream)
    reflector = Reflector(client, resource, "ns", sink=sink)
    reflecting = background(reflector.run())
    await sink.until(("LISTED", ""))
    async with asyncio.timeout(60):
        while not (reflecting.done() or "credentials" in (reflector.complaint or "")):
            clock.advance(SETTLING)
            await asyncio.sleep(0)
    path.write_text("new\n")
    async with asyncio.timeout(60):
        while not (reflecting.done() or ("ADDED", "a") in sink.events):
            clock.advance(SETTLING)
            await asyncio.sleep(0)
    assert not reflecting.done()
    assert get_tokens(server)[-1] == "new"


async def test_k22_tokens_refused_by_mistake_are_tried_again(
    server, client, clock, resource, sink, background, listed, event
):
    client.settings.watching.reconnect_backoff = 0
    stream = server.stream(event("ADDED", "a", 11), server.HANG)
    server.script(listed(rv=10), server.error(401), stream)
    reflecting = background(Reflector(client, resource, "ns", sink=sink).run())
    async with asyncio.timeout(60):
        while not (reflecting.done() or ("ADDED", "a") in sink.events):
            clock.advance(SETTLING)
            await asyncio.sleep(0)
    assert not reflecting.done()
    assert get_tokens(server) == ["old", "old", "old"]


@pytest.mark.parametrize("kind", ["static", "session"])
async def test_k22_reflectors_end_if_nothing_can_bring_credentials(
    server, settings, clock, resource, sink, kind
):
    settings.watching.reconnect_backoff = 0
    info = ConnectionInfo(server=server.url, token="old")
    if kind == "session":
        info = AiohttpSession(server=server.url, aiohttp_session=aiohttp.ClientSession())
    server.script(server.error(401))
    async with Client(info, settings, clock=clock) as client:
        with pytest.raises(LoginError):
            await Reflector(client, resource, "ns", sink=sink).run()


async def test_k22_refused_tokens_are_not_for_ever(server, client, clock, path):
    server.script(server.error(401), server.reply({"a": 1}))
    with pytest.raises(errors.APIUnauthorizedError):
        await client.get("/path")
    clock.advance(SETTLING)
    with pytest.raises(LoginError):
        await client.get("/path")
    path.write_text("new\n")
    clock.advance(SETTLING)
    assert await client.get("/path") == {"a": 1}
    assert get_tokens(server) == ["old", "new"]


async def test_k22_tokens_that_are_all_refused_end_in_an_error(server, settings, clock):
    count = 0

    def renew(info):
        nonlocal count
        count += 1
        clock.advance(100)  # as if the program takes long
        return dataclasses.replace(info, token=f"{count}")

    server.script(*[server.error(401) for _ in range(100)])
    info = ConnectionInfo(server=server.url, token="0", renewal=renew)
    async with Client(info, settings, clock=clock) as client:
        with pytest.raises(errors.APIUnauthorizedError):
            await client.get("/path")
    assert get_tokens(server) == ["0", "1"]


async def test_k22_expired_credentials_are_renewed(server, settings, clock):
    def renew(info):
        return dataclasses.replace(info, token="new", expiration=None)

    server.script(server.reply({}), server.reply({}))
    info = ConnectionInfo(server=server.url, token="old", expiration=NOW, renewal=renew)
    async with Client(info, settings, clock=clock) as client:
        await client.get("/path")
    assert get_tokens(server) == ["new"]


async def test_k22_nothing_is_renewed_after_the_client_is_closed(server, client):
    before = asyncio.all_tasks()
    server.script(server.reply({}))
    await client.get("/path")
    assert [task.get_name() for task in asyncio.all_tasks() - before] != []
    await client.close()
    client.vault.close()
    assert asyncio.all_tasks() <= before
    with pytest.raises(LoginError):
        await client.get("/path")


@pytest.mark.parametrize("kind", ["static", "session"])
async def test_k22_what_comes_from_nowhere_is_refused_at_once(server, settings, clock, kind):
    info = ConnectionInfo(server=server.url, token="old")
    if kind == "session":
        info = AiohttpSession(server=server.url, aiohttp_session=aiohttp.ClientSession())
    server.script(server.error(401))
    async with Client(info, settings, clock=clock) as client:
        with pytest.raises(errors.APIUnauthorizedError):
            await client.get("/path")
        with pytest.raises(LoginError):
            await client.get("/path")


async def test_k22_tokens_are_taken_from_their_files_at_once(server, settings, path):
    server.script(server.reply({}))
    async with Client(ConnectionInfo(server=server.url, token_path=path), settings) as client:
        await client.get("/path")
    assert get_tokens(server) == ["old"]


def test_k22_credentials_differ_if_the_tokens_in_the_same_file_do(path):
    one = ConnectionInfo(server="https://localhost", token_path=path)
    path.write_text("new\n")
    assert ConnectionInfo(server="https://localhost", token_path=path) != one


def test_k22_credentials_with_no_token_in_the_file_are_refused(path):
    path.write_text("")
    with pytest.raises(LoginError, match="The token file is empty"):
        ConnectionInfo(server="https://localhost", token_path=path)
