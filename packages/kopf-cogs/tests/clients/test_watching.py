import asyncio
import heapq
import itertools

import pytest

from kopf_cogs.clients import watching


class FakeLoop:
    """Time that moves only when told so."""

    def __init__(self):
        self.now = 0.0
        self.timers = []
        self.numbers = itertools.count()

    def time(self):
        return self.now

    def call_at(self, when, fn):
        heapq.heappush(self.timers, (when, next(self.numbers), fn))
        return self

    def call_later(self, delay, fn):
        return self.call_at(self.now + delay, fn)

    def cancel(self):
        self.timers.clear()

    def advance(self, seconds):
        until = self.now + seconds
        while self.timers and self.timers[0][0] <= until:
            when, _, fn = heapq.heappop(self.timers)
            self.now = max(self.now, when)
            fn()
        self.now = until


class FakeScope:
    def __init__(self):
        self.rescheduled = []

    def reschedule(self, when):
        self.rescheduled.append(when)


@pytest.fixture
def loop(monkeypatch):
    loop = FakeLoop()
    monkeypatch.setattr(watching.asyncio, "get_running_loop", lambda: loop)
    return loop


@pytest.fixture
def scope():
    return FakeScope()


def test_silence_is_noticed(loop, scope):
    dog = watching.Watchdog(scope, 10)
    loop.advance(10.9)
    assert not dog.barked
    loop.advance(0.2)
    assert dog.barked
    assert scope.rescheduled == [11]
    assert not loop.timers


def test_activity_postpones_it(loop, scope):
    dog = watching.Watchdog(scope, 10)
    for _ in range(20):
        loop.advance(6)
        dog.pause()
        dog.resume()
        assert len(loop.timers) == 1  # the timer is not touched by the activity
    assert not dog.barked
    loop.advance(11.1)
    assert dog.barked


def test_a20_busy_consumers_are_not_silence(loop, scope):
    dog = watching.Watchdog(scope, 10)
    dog.pause()
    loop.advance(1000)
    assert not dog.barked
    dog.resume()
    loop.advance(9)
    assert not dog.barked
    loop.advance(12)
    assert dog.barked


def test_a20_blocked_loops_get_a_chance_to_read(loop, scope):
    dog = watching.Watchdog(scope, 10)
    loop.now = 100  # blocked: the timer is called much later than it should be
    loop.advance(0)
    assert not dog.barked
    dog.pause()  # what was in the socket is read only after the timer
    dog.resume()
    loop.advance(1.5)
    assert not dog.barked
    loop.advance(10)
    assert dog.barked


def test_stopped_dogs_are_quiet(loop, scope):
    dog = watching.Watchdog(scope, 10)
    dog.stop()
    loop.advance(100)
    assert not dog.barked


async def test_infinite_inactivity_timeouts_are_possible(server, client, settings):
    settings.watching.inactivity_timeout = float("inf")
    server.script(server.stream({"a": 1}))
    batches = []

    async def on_batch(batch):
        batches.append(batch)

    await watching.watch(
        client,
        "/path",
        params={},
        settings=settings.watching,
        on_open=lambda: None,
        on_batch=on_batch,
    )
    assert batches == [[{"a": 1}]]


async def test_streams_are_closed_on_errors(server, client, settings):
    server.script(server.stream({"a": 1}, server.HANG))

    async def on_batch(batch):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await watching.watch(
            client,
            "/path",
            params={},
            settings=settings.watching,
            on_open=lambda: None,
            on_batch=on_batch,
        )
    async with asyncio.timeout(60):
        while server._tasks:  # noqa: ASYNC110 -- the server sees the disconnection
            await asyncio.sleep(0)
