"""What waits for the gate to be opened must not be what the gate waits for."""

import asyncio
from typing import Any

import pytest

from kopf_core.intents import decorators as on
from kopf_core.reactor.streams import lateness, queueing
from kopf_core.reactor.streams.places import HEADROOM

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
MANY = HEADROOM + 10


@pytest.fixture(autouse=True)
def _never_late(monkeypatch, settings):
    """Nobody gives up waiting, so whatever waits in a circle waits for ever."""
    monkeypatch.setattr(lateness, "PATIENCE", 1e9)
    monkeypatch.setattr(queueing, "PATIENCE", 1e9)
    monkeypatch.setattr(queueing, "WORKING_PATIENCE", 1e9)
    settings.watching.chunk_size = 50


async def test_k1_many_owners_are_reconciled_at_the_start(cluster, operate, registry, journal):
    @on.reconcile("kopfexamples", registry=registry, owns=["configmaps"])
    async def fn(name: str, **_: Any) -> Any:
        journal(name)
        for _ in ():
            yield {}

    await asyncio.gather(*(cluster.create(f"n{n}") for n in range(MANY)))
    async with operate():
        await journal.until(lambda j: len({*j}) == MANY)


async def test_k1_many_objects_of_an_owned_kind_are_handled_at_the_start(
    cluster, operate, registry, journal
):
    @on.reconcile("kopfexamples", registry=registry, owns=["configmaps"])
    async def fn(**_: Any) -> Any:
        for _ in ():
            yield {}

    @on.event("configmaps", registry=registry)
    async def event(name: str, **_: Any) -> None:
        journal(name)

    bodies = [{"metadata": {"name": f"n{n}"}} for n in range(MANY)]
    await asyncio.gather(*(cluster.client.post(CONFIGMAPS, body) for body in bodies))
    async with operate():
        await journal.until(lambda j: len({*j}) == MANY)
