"""Slots of requests: few while that is enough, more when somebody waits for long."""

import asyncio
import contextlib
import itertools

import pytest

from kopf_cogs.clients import slots
from kopf_cogs.clients.session import Client
from kopf_cogs.clients.slots import GROWTH, LIMIT, USUAL, Slots, find_namespace
from kopf_cogs.structs.credentials import ConnectionInfo


class Requests:
    """Those who take slots, each until it is told to end."""

    def __init__(self, count):
        self.slots = Slots()
        self.running = []
        self.tasks = []
        self.progress = asyncio.Condition()
        self.start(count)

    def start(self, count):
        self.tasks += [asyncio.create_task(self._request()) for _ in range(count)]

    async def _request(self):
        await self.slots.take("/path")
        try:
            gate = asyncio.Event()
            self.running.append(gate)
            async with self.progress:
                self.progress.notify_all()
            await gate.wait()
        finally:
            self.slots.give_back()

    async def end(self, count):
        for _ in range(count):
            self.running.pop(0).set()
        await self.settle()

    async def settle(self):
        for _ in range(5):
            await asyncio.sleep(0)

    async def until(self, count):
        async with self.progress:
            await self.progress.wait_for(lambda: len(self.running) >= count)


@pytest.fixture
def endless(monkeypatch):
    monkeypatch.setattr(slots, "PATIENCE", 1000.0)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(slots, "PATIENCE", 0.0)
    monkeypatch.setattr(slots, "LONG_PATIENCE", 0.0)


@pytest.fixture
def busy(monkeypatch):
    monkeypatch.setattr(slots, "PATIENCE", 0.0)
    monkeypatch.setattr(slots, "LONG_PATIENCE", 1000.0)
    monkeypatch.setattr(slots, "LATENESS", -1000.0)


@pytest.fixture
async def make():
    made = []

    def make(count):
        made.append(Requests(count))
        return made[-1]

    yield make
    tasks = [task for requests in made for task in requests.tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_those_who_come_later_wait_for_others(endless, make):
    requests = make(USUAL + 2)
    await requests.settle()
    assert len(requests.running) == USUAL
    await requests.end(1)
    assert len(requests.running) == USUAL
    assert sum(task.done() for task in requests.tasks) == 1


async def test_there_are_more_slots_if_others_are_slow_up_to_the_limit(impatient, make):
    requests = make(LIMIT + 5)
    await requests.until(LIMIT)
    await requests.settle()
    assert requests.slots.taken == len(requests.running) == LIMIT
    await requests.end(3)
    assert requests.slots.taken == LIMIT


async def test_a_short_pause_of_the_server_opens_only_a_few_connections(impatient, make):
    requests, sizes = make(LIMIT), [USUAL]
    while sizes[-1] < LIMIT:
        await asyncio.sleep(0)
        sizes.append(max(USUAL, len(requests.running)))
    assert all(new - old <= old // GROWTH for old, new in itertools.pairwise(sizes))


async def test_there_are_no_more_slots_while_it_is_us_who_are_slow(busy, make):
    requests = make(LIMIT)
    await requests.settle()
    assert len(requests.running) == USUAL


async def test_there_are_few_again_when_all_is_done(monkeypatch, impatient, make):
    requests = make(LIMIT)
    await requests.until(LIMIT)
    await requests.end(LIMIT)
    monkeypatch.setattr(slots, "PATIENCE", 1000.0)
    requests.start(LIMIT)
    await requests.settle()
    assert len(requests.running) == USUAL


async def test_those_who_are_cancelled_do_not_keep_their_slots(endless, make):
    requests = make(USUAL + 3)
    await requests.settle()
    waiting = requests.tasks[USUAL:]
    waiting[0].cancel()
    requests.running.pop(0).set()
    await asyncio.sleep(0)
    waiting[1].cancel()  # it has got the slot, but does not know it yet
    with contextlib.suppress(asyncio.CancelledError):
        await waiting[1]
    await requests.settle()
    assert len(requests.running) == requests.slots.taken == USUAL
    await requests.end(USUAL)
    assert requests.slots.taken == 0


async def test_bursts_go_by_few_connections_if_nobody_waits_for_long(endless, server, settings):
    gate, count = asyncio.Event(), 100
    server.script(*[server.raw(gate, *server.reply({}).parts) for _ in range(count)])
    async with Client(ConnectionInfo(server=server.url), settings) as client:
        tasks = [asyncio.create_task(client.get("/path")) for _ in range(count)]
        await server.until(lambda requests: len(requests) == USUAL)
        assert client._slots.taken == USUAL
        gate.set()
        await asyncio.gather(*tasks)


async def test_k15_all_who_wait_go_at_once_when_there_is_no_time(make, endless):
    requests = make(LIMIT * 2)
    await requests.until(USUAL)
    requests.slots.rush()
    await requests.until(LIMIT * 2)
    requests.start(1)
    await requests.until(LIMIT * 2 + 1)
    await requests.end(LIMIT * 2 + 1)
    requests.start(LIMIT)
    await requests.until(USUAL)
    await requests.settle()
    assert requests.slots.taken == USUAL


async def test_k15_a_rush_has_a_limit(make, endless, monkeypatch):
    monkeypatch.setattr(slots, "RUSH", USUAL + 5)
    requests = make(LIMIT)
    await requests.until(USUAL)
    requests.slots.rush()
    await requests.settle()
    assert requests.slots.taken == USUAL + 5


async def test_k15_there_is_no_rush_when_nobody_waits(make, endless):
    requests = make(0)
    requests.slots.rush()
    requests.start(LIMIT)
    await requests.until(USUAL)
    await requests.settle()
    assert requests.slots.taken == USUAL


@pytest.mark.parametrize("count", [100, 1000])
async def test_o_a_request_for_a_namespace_waits_for_a_few_of_another_one(endless, count):
    slots, begun = Slots(), []

    async def request(url):
        await slots.take(url)
        begun.append(url)
        await asyncio.sleep(0)
        slots.give_back()

    flood = [request(f"/api/v1/namespaces/flooded/pods/{n}") for n in range(count)]
    await asyncio.gather(*flood, request("/api/v1/namespaces/other/pods/p"))
    assert begun.index("/api/v1/namespaces/other/pods/p") <= USUAL + 2


async def test_o_clients_send_requests_of_namespaces_in_turns(endless, server, settings):
    gate, count, other = asyncio.Event(), 50, "/api/v1/namespaces/other/pods/p"
    server.script(*[server.raw(gate, *server.reply({}).parts) for _ in range(count + 1)])
    async with Client(ConnectionInfo(server=server.url), settings) as client:
        urls = [f"/api/v1/namespaces/flooded/pods/{n}" for n in range(count)]
        tasks = [asyncio.create_task(client.get(url)) for url in [*urls, other]]
        await server.until(lambda requests: len(requests) == USUAL)
        gate.set()
        await asyncio.gather(*tasks)
        assert [request.path for request in server.requests].index(other) <= USUAL * 2


@pytest.mark.parametrize(
    ("url", "namespace"),
    [
        ("/api/v1/namespaces/ns/pods/p", "ns"),
        ("/apis/kopf.dev/v1/namespaces/ns/kopfexamples?limit=500", "ns"),
        ("/api/v1/namespaces/ns?timeout=1", "ns"),
        ("/api/v1/namespaces?watch=true", None),
        ("/api/v1/pods?limit=1", None),
        ("/api/v1/nodes/n", None),
    ],
)
def test_requests_know_their_namespaces(url, namespace):
    assert find_namespace(url) == namespace
