import logging

import pytest

from kopf_cogs.clients.progress import ListingProgress
from kopf_cogs.clients.reflector import Reflector


class Clock:
    """The time goes only when it is said so."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def time(self):
        return self.now

    async def sleep(self, delay):
        self.now += delay


@pytest.fixture(autouse=True)
def _info(caplog):
    caplog.set_level(logging.INFO)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def progress(clock):
    return ListingProgress("kex", clock, logging.getLogger("kopf.x"))


def test_quick_lists_are_silent(progress, clock, caplog):
    for _ in range(10):
        clock.now += 0.09
        progress.add_page(500, 4500)
    progress.finish()
    assert not caplog.messages


def test_long_lists_are_told_ever_rarer(progress, clock, caplog):
    for page in range(1, 41):
        clock.now += 0.25
        progress.add_page(500, 20000 - page * 500)
    progress.finish()
    assert caplog.messages == [
        "Listing kex: 2,000 objects so far, about 18,000 are left.",
        "Listing kex: 4,000 objects so far, about 16,000 are left.",
        "Listing kex: 8,000 objects so far, about 12,000 are left.",
        "Listing kex: 16,000 objects so far, about 4,000 are left.",
        "Listed kex: 20,000 objects in 10 s.",
    ]


def test_a_pause_between_pages_is_told_once(progress, clock, caplog):
    clock.now += 100
    progress.add_page(500, None)
    clock.now += 1
    progress.add_page(500, None)
    assert caplog.messages == ["Listing kex: 500 objects so far."]


async def test_reflectors_tell_with_what_the_server_says(
    server, client, resource, sink, background, listed, caplog
):
    class SlowSink(type(sink)):
        async def drain(self):
            clock.now += 1.5
            await super().drain()

    clock = client.clock = Clock()
    sink.__class__ = SlowSink
    first = listed(["a", "b"], remainingItemCount=1, **{"continue": "x"})
    server.script(first, listed(["c"]), server.stream(server.HANG))
    background(Reflector(client, resource, "ns", sink=sink).run())
    await sink.until((None, "a"), (None, "b"), (None, "c"), ("LISTED", ""))
    title = "kopfexamples.v1.kopf.dev in 'ns'"
    told = [message for message in caplog.messages if message.startswith("List")]
    assert told == [
        f"Listing {title}: 2 objects so far, about 1 are left.",
        f"Listing {title}: 3 objects so far.",
        f"Listed {title}: 3 objects in 3 s.",
    ]
