"""Operators with a budget of requests: what is never delayed by it."""

from typing import Any

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
