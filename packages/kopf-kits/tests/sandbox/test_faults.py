import asyncio
import json

import aiohttp
import pytest

OBJECTS = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
pytestmark = pytest.mark.usefixtures("crd")


async def test_failures(sandbox, client, make_object):
    fault = sandbox.faults.fail(503, method="POST", path="*/kopfexamples", times=2, skip=1)
    statuses = [(await client.post(OBJECTS, make_object(f"x{n}"))).status for n in range(5)]
    assert statuses == [201, 503, 503, 201, 201]
    assert fault.hits == 2
    assert (await client.get(OBJECTS)).status == 200


async def test_details_of_failures(sandbox, client):
    with sandbox.faults.fail(429, retry_after=5):
        answer = await client.get(OBJECTS)
    assert answer.headers["Retry-After"] == "5"
    assert answer.json["reason"] == "TooManyRequests"
    assert answer.json["details"] == {"retryAfterSeconds": 5}
    assert (await client.get(OBJECTS)).status == 200
    with sandbox.faults.fail(500, body=b"<html>"):
        assert (await client.get(OBJECTS)).text == "<html>"
    with sandbox.faults.fail(418, match=lambda call: call.query.get("limit") == "7"):
        assert (await client.get(f"{OBJECTS}?limit=7")).status == 418
        assert (await client.get(OBJECTS)).status == 200


async def test_delays(sandbox, client):
    fault = sandbox.faults.delay(0.001, path=OBJECTS)
    assert (await client.get(OBJECTS)).status == 200
    assert fault.hits == 1


async def test_hanging(sandbox, client):
    fault = sandbox.faults.hang(path=OBJECTS)
    task = asyncio.create_task(client.get(OBJECTS))
    await sandbox.journal.arrived(path=OBJECTS)
    await client.get("/healthz")
    assert not task.done()
    fault.release()
    assert (await task).status == 200


async def test_dropped_connections(sandbox, client):
    with sandbox.faults.drop(path=OBJECTS), pytest.raises(aiohttp.ClientError):
        await client.post(OBJECTS, {})
    assert sandbox.journal.select(path=OBJECTS)[0].status == 0


async def test_cut_streams(sandbox, client, make_object):
    for name in "abc":
        await sandbox.create(make_object(name))
    with sandbox.faults.cut(events=2, path=OBJECTS):
        async with client.session.get(f"{OBJECTS}?watch=1") as response:
            lines = [await response.content.readline() for _ in range(2)]
            assert [json.loads(line)["object"]["metadata"]["name"] for line in lines] == ["a", "b"]
            with pytest.raises(aiohttp.ClientError):
                await response.content.read()


async def test_streams_cut_on_demand(sandbox, client):
    async with client.session.get(f"{OBJECTS}?watch=1") as response:
        assert sandbox.cut_watches("*/kopfexamples") == 1
        with pytest.raises(aiohttp.ClientError):
            await response.content.read()
    await client.get("/healthz")
    assert sandbox.cut_watches() == 0


async def test_held_events(sandbox, client, make_object):
    async with client.session.get(f"{OBJECTS}?watch=1") as response:
        held = sandbox.faults.hold(path=OBJECTS)
        await sandbox.create(make_object())
        line = asyncio.create_task(response.content.readline())
        await client.get("/healthz")
        assert not line.done()
        assert held.hits == 1
        held.release()
        assert json.loads(await line)["type"] == "ADDED"


async def test_q_only_as_many_streams_are_held_as_it_is_said(sandbox, client, make_object):
    url = f"{OBJECTS}?watch=1"
    with sandbox.faults.hold(path=OBJECTS, times=1) as fault:
        async with client.session.get(url) as held:
            await sandbox.create(make_object())
            line = asyncio.create_task(held.content.readline())
            while not fault.hits:
                await client.get("/healthz")
            async with client.session.get(f"{url}&resourceVersion=0") as other:
                assert json.loads(await other.content.readline())["type"] == "ADDED"
            assert not line.done()
            assert fault.hits == 1
            fault.release()
            assert json.loads(await line)["type"] == "ADDED"


async def test_injected_lines(sandbox, client):
    with sandbox.faults.inject(b"nonsense"):
        async with client.session.get(f"{OBJECTS}?watch=1") as response:
            assert await response.content.readline() == b"nonsense\n"


async def test_all_can_be_cleared(sandbox, client):
    sandbox.faults.fail(500)
    sandbox.faults.clear()
    assert (await client.get(OBJECTS)).status == 200
