"""A thousand objects with daemons and timers: killed, paused, resumed, deleted, and stopped."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from e2e.tests.harness import FINALIZER, GROUP, get_finalizers
from kopf_core.engines.background.background_engine import CANCEL_TIMEOUT, EXIT_TIMEOUT
from kopf_core.intents import decorators as on

KEX = (GROUP, "kexes")
COUNT = 1000
TIMEOUT = 0.5  # seconds, of the daemons that have to be cancelled
LIMIT = TIMEOUT + EXIT_TIMEOUT + CANCEL_TIMEOUT  # of the whole exit, as documented
PARALLEL = 20  # requests of the test itself

OPERATOR = """
import asyncio, kopf

@kopf.daemon('e2e.kopf.dev', 'kexes', id='obedient')
async def daemon(stopped, **_):
    await stopped.wait()

@kopf.timer('e2e.kopf.dev', 'kexes', interval=0.5, id='timer')
async def timer(**_): ...
"""


class Instances:
    """What runs now; it is an error to run twice for one object."""

    def __init__(self, calls: Any) -> None:
        self.active: set[tuple[str, str]] = set()
        self.calls = calls
        self.errors: list[tuple[str, str]] = []

    @contextlib.contextmanager
    def running(self, kind: str, uid: str):
        if (kind, uid) in self.active:
            self.errors.append((kind, uid))
        self.active.add((kind, uid))
        self.calls(1)
        try:
            yield
        finally:
            self.active.discard((kind, uid))
            self.calls(-1)


@pytest.fixture
def instances(world):
    instances = Instances(world.calls)

    @on.daemon(*KEX, id="obedient", registry=world.registry)
    async def obedient(stopped, uid, **_):
        with instances.running("obedient", uid):
            await stopped.wait()

    @on.daemon(*KEX, id="deaf", cancellation_timeout=TIMEOUT, registry=world.registry)
    async def deaf(uid, **_):
        with instances.running("deaf", uid):
            await asyncio.Event().wait()

    @on.timer(*KEX, interval=0.5, id="timer", registry=world.registry)
    async def timer(**_): ...

    return instances


async def for_all(fn: Any) -> None:
    """Do it for all the objects, a few at a time: it is not the server that is tested."""
    limit = asyncio.Semaphore(PARALLEL)

    async def do(number: int) -> None:
        async with limit:
            await fn(f"obj-{number}")

    await asyncio.gather(*(do(number) for number in range(COUNT)))


async def test_load_is_survived_with_nothing_left_behind(world, instances):
    calls, active = world.calls, instances.active
    await for_all(lambda name: world.create(name=name))
    before = asyncio.all_tasks()
    async with world.operator() as operator:
        await calls.until(lambda _: len(active) == 2 * COUNT)
        for _ in range(3):
            await operator.pause()
            await calls.until(lambda _: not active)
            operator.resume()
            await calls.until(lambda _: len(active) == 2 * COUNT)
        operator.stop()
        async with asyncio.timeout(LIMIT):
            await calls.until(lambda _: not active)
    assert not active
    assert not instances.errors
    assert asyncio.all_tasks() <= before


async def test_deletion_of_all_objects_under_load_after_a_kill(world, instances, tmp_path):
    calls, active = world.calls, instances.active
    source = tmp_path / "op.py"
    source.write_text(OPERATOR)
    await for_all(lambda name: world.create(name=name))
    async with world.process(source) as process:
        await world.until(lambda obj: get_finalizers(obj) == [FINALIZER], f"obj-{COUNT // 2}")
        process.kill()  # in the middle of its work

    before = asyncio.all_tasks()
    async with world.operator() as operator:
        await calls.until(lambda _: len(active) == 2 * COUNT)
        await for_all(world.delete)
        await calls.until(lambda _: not active)
        for item in (await world.request("GET", world.path()))["items"]:
            await world.until_gone(item["metadata"]["name"])
        assert not operator.handling.background.spawned
        assert not operator.handling.background.orphans
    assert not instances.errors
    assert asyncio.all_tasks() <= before
