"""Operators with a budget of requests: what is never delayed by it."""

import asyncio
import logging
from typing import Any

from idleness import until
from virtual_time import jump

from kopf_core.intents import decorators as on

KEX = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/op"
FINISHED = "kopf.zalando.org/last-handled-configuration"
NEVER = 0.001


async def test_o_leases_are_renewed_though_the_budget_is_spent(
    cluster: Any, operate: Any, registry: Any, settings: Any, journal: Any
) -> None:
    settings.leasing.name, settings.leasing.namespace = "op", "default"
    settings.leasing.retry_period = 0.01
    requests = cluster.sandbox.journal

    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    async with operate():
        await cluster.create("a")
        await journal.until(lambda calls: "a" in calls)
        settings.networking.qps, settings.networking.burst = NEVER, 1
        for name in "bcd":
            await cluster.create(name)
        await journal.until(lambda calls: {*"bcd"} <= {*calls})
        count = len(requests.select("PUT", LEASE))
        await requests.arrived("PUT", LEASE, count=count + 10)
        bodies = [await cluster.get(name) for name in "bcd"]
    assert sum(FINISHED in body["metadata"].get("annotations", {}) for body in bodies) <= 1


async def test_o_at_the_exit_changes_are_sent_though_the_budget_is_spent(
    cluster: Any, operate: Any, registry: Any, settings: Any, journal: Any
) -> None:
    settings.queueing.exit_timeout = 0

    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    async with operate():
        await cluster.create("a")
        await journal.until(lambda calls: "a" in calls)
        settings.networking.qps, settings.networking.burst = NEVER, 1
        for name in "bcd":
            await cluster.create(name)
        await journal.until(lambda calls: {*"bcd"} <= {*calls})
    bodies = [await cluster.get(name) for name in "abcd"]
    assert all(FINISHED in body["metadata"].get("annotations", {}) for body in bodies)


async def test_o_new_leaders_do_not_give_up_on_objects_when_the_budget_is_spent(
    cluster: Any, operate: Any, registry: Any, settings: Any, journal: Any, logged: Any
) -> None:
    """They request the objects at first, and wait for the budget longer than for a reply."""
    settings.leasing.name, settings.leasing.namespace = "op", "default"
    settings.leasing.retry_period = 0.01
    api = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    lease = {"holderIdentity": "other", "leaseDurationSeconds": 15}
    await cluster.client.post(
        LEASE.removesuffix("/op"), {**api, "metadata": {"name": "op"}, "spec": lease}
    )

    @on.create("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)

    await cluster.create("a")
    async with operate() as operator:
        await cluster.sandbox.journal.arrived(
            "GET", "*/kopfexamples", count=2
        )  # it lists and watches
        settings.networking.qps, settings.networking.burst = NEVER, 1
        client = operator.essentials.client
        await client.get(KEX)
        await cluster.sandbox.patch("leases", "op", {"spec": {"holderIdentity": ""}})
        await until(lambda: client._budget._line)
        due = asyncio.Event()
        asyncio.get_running_loop().call_later(settings.leasing.renew_deadline, due.set)
        jump(settings.leasing.renew_deadline)
        await due.wait()
        client.rush()
        await journal.until(lambda calls: "a" in calls)
    assert not logged(logging.ERROR)
