"""The budget of requests, in virtual time; and what of the client it delays."""

import asyncio
import contextlib

import pytest
from virtual_time import LoopClock, timeless

from kopf_cogs.clients.budgets import Budget
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.credentials import ConnectionInfo

FLOOD = "/api/v1/namespaces/flooded/pods"
OTHER = "/api/v1/namespaces/other/pods"
NEVER = 0.001


class Requests:
    """Requests within a budget, and the times when they are sent."""

    def __init__(self, qps, burst=1):
        self.settings = OperatorSettings()
        self.settings.networking.qps, self.settings.networking.burst = qps, burst
        self.budget = Budget(self.settings)
        self.sent = []
        self.times = []

    def start(self, count, url=FLOOD):
        return [asyncio.create_task(self._request(url)) for _ in range(count)]

    async def _request(self, url):
        await self.budget.take(url)
        self.sent.append(url)
        self.times.append(LoopClock().monotonic())


@timeless
async def test_o_requests_are_sent_at_the_rate():
    requests = Requests(qps=4)
    await asyncio.gather(*requests.start(6))
    assert requests.times == pytest.approx([0, 0.25, 0.5, 0.75, 1, 1.25])


@timeless
async def test_o_after_a_quiet_time_a_burst_is_sent_at_once():
    requests = Requests(qps=10, burst=3)
    await asyncio.gather(*requests.start(5))
    await asyncio.sleep(9.8)
    await asyncio.gather(*requests.start(4))
    assert requests.times == pytest.approx([0, 0, 0, 0.1, 0.2, 10, 10, 10, 10.1])


@pytest.mark.parametrize("qps", [None, 4])
@timeless
async def test_o_requests_do_not_wait_for_a_budget_that_is_not_so_small_anymore(qps):
    requests = Requests(qps=NEVER)
    tasks = requests.start(3)
    await asyncio.sleep(0.5)
    requests.settings.networking.qps = qps
    await asyncio.gather(*tasks)
    assert max(requests.times) < 3


@timeless
async def test_o_a_short_quiet_time_saves_a_part_of_the_burst():
    requests = Requests(qps=10, burst=3)
    await asyncio.gather(*requests.start(3))
    await asyncio.sleep(0.15)
    await asyncio.gather(*requests.start(2))
    assert requests.times == pytest.approx([0, 0, 0, 0.15, 0.2])


@timeless
async def test_o_namespaces_get_the_budget_in_turns():
    requests = Requests(qps=10)
    flood = requests.start(1000)
    await asyncio.sleep(1.01)
    await asyncio.gather(*requests.start(1, OTHER))
    assert requests.times[-1] <= 1.4
    for task in flood:
        task.cancel()


@timeless
async def test_o_without_a_rate_nothing_waits():
    requests = Requests(qps=None)
    await asyncio.gather(*requests.start(1000))
    assert {*requests.times} == {0}


@timeless
async def test_o_the_rate_can_be_changed_while_requests_wait():
    requests = Requests(qps=1)
    tasks = requests.start(100)
    await asyncio.sleep(1.5)
    requests.settings.networking.qps = 100
    await asyncio.sleep(1)
    requests.settings.networking.qps = None
    await asyncio.gather(*tasks)
    assert requests.times[:3] == pytest.approx([0, 1, 2])
    assert requests.times[-1] == pytest.approx(2.5, abs=0.011)


@timeless
async def test_o_the_cancelled_do_not_spend_the_budget():
    requests = Requests(qps=1)
    tasks = requests.start(4)
    await asyncio.sleep(0.5)
    for task in tasks[1:3]:
        task.cancel()
    await tasks[3]
    assert requests.times == pytest.approx([0, 1])


@timeless
async def test_o_in_a_rush_nothing_waits_but_later_it_does():
    requests = Requests(qps=NEVER)
    tasks = requests.start(10)
    await asyncio.sleep(1)
    requests.budget.rush()
    await asyncio.gather(*tasks, *requests.start(10))
    await asyncio.sleep(10)
    await asyncio.gather(*requests.start(2))
    assert requests.times == pytest.approx([0, *[1] * 19, 1000, 2000])


@pytest.fixture
async def poor(server, settings):
    """A client that has spent its budget."""
    settings.networking.qps, settings.networking.burst = NEVER, 1
    server.script(server.reply({}), path="/first")
    async with Client(ConnectionInfo(server=server.url), settings) as client:
        await client.get("/first")
        yield client


@pytest.fixture
async def waiting(poor):
    task = asyncio.create_task(poor.get("/second"))
    await asyncio.sleep(0)
    yield task
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_o_the_budget_delays_neither_signs_of_life_nor_whoever_has_no_limits(
    poor, server, waiting
):
    server.script(server.reply({"renewed": True}), path="/lease")
    assert await poor.without_limits().get("/lease") == {"renewed": True}
    assert [request.path for request in server.requests] == ["/first", "/lease"]
    assert not waiting.done()


async def test_o_in_a_rush_requests_are_sent_without_the_budget(poor, server, waiting):
    server.script(server.reply({"sent": 2}), path="/second")
    server.script(server.reply({"sent": 3}), path="/third")
    poor.rush()
    assert await waiting == {"sent": 2}
    assert await poor.get("/third") == {"sent": 3}


async def test_o_opening_a_stream_is_one_request_of_the_budget(server, settings):
    settings.networking.qps, settings.networking.burst = NEVER, 2
    server.script(*[server.stream(*[b"{}\n"] * 5)] * 2, path="/stream")
    server.script(*[server.reply({})] * 6, path="/first")

    async def read(client):
        async with client.stream("/stream") as response:
            return await response.content.read()

    async with Client(ConnectionInfo(server=server.url), settings) as client:
        assert await read(client) == b"{}\n" * 5
        assert await client.get("/first") == {}
        second = asyncio.create_task(read(client))
        for _ in range(5):
            await client.without_limits().get("/first")
        assert [request.path for request in server.requests].count("/stream") == 1
        client.rush()
        assert await second == b"{}\n" * 5
