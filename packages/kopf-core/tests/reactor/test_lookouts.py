"""The stream of the Leases of replicas, over a local API server."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kopf_cogs.configs.settings import LeasingSettings
from kopf_core.engines.sharding import lookouts
from kopf_core.engines.sharding.lookouts import Lookout

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.fixture
def watching(cluster, journal, monkeypatch):
    """The lookout runs, and tells the journal what it sees."""
    monkeypatch.setattr(lookouts, "RETRY", 0)
    monkeypatch.setattr(lookouts, "MAX_RETRY", 0)

    @contextlib.asynccontextmanager
    async def watching(client: Any = cluster.client, **kwargs: Any) -> AsyncIterator[None]:
        settings = LeasingSettings(name="op", namespace="default", **kwargs)

        async def look() -> str:
            found = await client.get(LEASES)
            journal(len(found["items"]))
            return str(found["metadata"]["resourceVersion"])

        def on_state(lease: Any) -> None:
            journal(lease["metadata"]["name"])

        lookout = Lookout(client, settings, look=look, on_state=on_state)
        task = asyncio.create_task(lookout.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    return watching


async def create(cluster: Any, name: str, group: str = "op") -> None:
    metadata = {"name": name, "labels": {"kopf.dev/members-of": group}}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    await cluster.client.post(LEASES, body)


async def test_o_the_leases_of_the_group_are_watched(cluster, watching, journal):
    await create(cluster, "op-a")
    async with watching():
        await journal.until(lambda j: j == [1])
        await create(cluster, "other-a", "other")
        await create(cluster, "op")
        await cluster.client.delete(f"{LEASES}/op-a")
        await journal.until(lambda j: j[1:] == ["op", 2])  # it looks what is left


async def test_o_a_broken_stream_of_leases_is_opened_again(cluster, watching, journal):
    async with watching():
        await journal.until(lambda j: j == [0])
        await create(cluster, "op-a")
        await journal.until(lambda j: j == [0, "op-a"])
        cluster.sandbox.cut_watches("*/leases*")
        await journal.until(lambda j: j[2:] == [1])  # lost changes are noticed by another look
        await create(cluster, "op-b")
        await journal.until(lambda j: j[3:] == ["op-b"])


async def test_o_a_silent_stream_of_leases_is_opened_again(cluster, watching, journal):
    async with watching(renew_deadline=0.01):
        await journal.until(lambda j: j == [0, 0, 0])


async def test_o_failed_streams_of_leases_are_opened_again(cluster, watching, journal):
    with cluster.sandbox.faults.fail(503, path="*/leases*", times=2):
        async with watching():
            await journal.until(lambda j: j == [0])


async def test_o_a_refused_stream_of_leases_is_told_once(cluster, watching, journal, caplog):
    caplog.set_level(logging.INFO, "kopf.sharding")
    with cluster.sandbox.faults.fail(403, path="*/leases*", times=3):
        async with watching(retry_period=0):
            await journal.until(lambda j: j == [0])
    [message] = caplog.messages
    assert message.startswith("Kopf cannot watch the leases of the replicas")


async def test_o_events_that_are_not_about_leases_are_ignored(cluster, watching, journal):
    async def look() -> str:
        return "1"

    lookout = Lookout(cluster.client, LeasingSettings(), look=look, on_state=journal)
    error = {"type": "ERROR", "object": {"kind": "Status", "metadata": {"name": "x"}}}
    await lookout._take([None, [], {}, error, {"type": "ADDED"}, {"type": "ADDED", "object": {}}])
    assert not journal
