"""What is known of objects with reconcilers is forgotten when they are not served anymore."""

import asyncio
from typing import Any

import pytest
from idleness import until

from kopf_core.intents import decorators as on

NAMESPACES = "/api/v1/namespaces"


async def create(cluster: Any, namespace: str, name: str) -> Any:
    if namespace != "default":
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await cluster.sandbox.apply(body)
    metadata = {"name": name, "namespace": namespace}
    owner = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": metadata}
    return (await cluster.sandbox.apply(owner))[0]


def desired(operator: Any) -> Any:
    (served,) = operator.handling.orchestrator._served.values()
    return served.reconciler.desired


def is_left(operator: Any) -> bool:
    return {key.namespace for key in operator.handling.orchestrator.intakes} == {"default"}


async def test_h2_plans_are_forgotten_when_their_namespace_leaves(
    cluster: Any, operate: Any, registry: Any, journal: Any
) -> None:
    @on.reconcile("kopfexamples", registry=registry, related={"secrets": lambda _: "a"}, every=60)
    async def fn(name: str, triggers: Any, **_: Any) -> None:
        journal((name, *sorted(trigger.kind for trigger in triggers)))

    await create(cluster, "default", "stays")
    owner = await create(cluster, "ns2", "leaves")
    async with operate(namespaces=["default", "ns*"]) as operator:
        await journal.until(lambda calls: len(calls) == 2)
        with cluster.sandbox.faults.hold(path="*/namespaces/ns2/*", watch=True):
            await cluster.sandbox.delete("namespaces", "ns2")
            await until(lambda: is_left(operator))
        await until(lambda: owner["metadata"]["uid"] not in operator.essentials.memories)
        assert len(desired(operator)._objects) == 1
        assert owner["metadata"]["uid"] not in desired(operator)._objects
        (relation,) = desired(operator)._relations.values()
        assert len(relation._homes) == 1
        await create(cluster, "ns2", "leaves")
        await journal.until(lambda calls: len(calls) == 3)
    assert sorted(journal) == [("leaves", "appeared")] * 2 + [("stays", "appeared")]


async def test_h2_namespaces_that_come_back_are_looked_at_anew(
    cluster: Any, operate: Any, registry: Any, journal: Any
) -> None:
    """The objects are the same: e.g. the namespaces were not listed for some time."""

    @on.reconcile("kopfexamples", registry=registry)
    async def fn(triggers: Any, **_: Any) -> None:
        journal(sorted(trigger.kind for trigger in triggers))

    await create(cluster, "ns2", "a")
    async with operate(namespaces=["default", "ns2"]) as operator:
        await journal.until(lambda calls: len(calls) == 1)
        for namespaces in ({"default"}, {"default", "ns2"}):
            operator.essentials.insights.set_namespaces(namespaces)
            await until(lambda n=namespaces: len(operator.handling.orchestrator.intakes) == len(n))
        await journal.until(lambda calls: len(calls) == 2)
    assert journal == [["appeared"]] * 2


@pytest.mark.parametrize("is_known", [False, True], ids=["gone", "there"])
async def test_h2_nothing_is_left_of_those_in_work_when_their_namespace_leaves(
    cluster: Any, operate: Any, registry: Any, journal: Any, settings: Any, is_known: bool
) -> None:
    """Their deletion has come already, but was not handled, and never will be."""
    settings.queueing.exit_timeout = 0.01

    @on.reconcile("kopfexamples", registry=registry)
    async def fn(name: str, **_: Any) -> None:
        journal(name)
        await asyncio.Event().wait()

    owner = await create(cluster, "ns2", "a")
    async with operate(namespaces=["default", "ns2"]) as operator:
        await journal.until(lambda calls: calls)
        if not is_known:
            await cluster.sandbox.delete("kopfexamples", "a", namespace="ns2")
            (key,) = [
                key for key in operator.handling.orchestrator.intakes if key.namespace == "ns2"
            ]
            await until(lambda: not operator.handling.pool.informers[key].keys)
        operator.essentials.insights.set_namespaces({"default"})
        await until(lambda: is_left(operator))
        await until(lambda: owner["metadata"]["uid"] not in operator.essentials.memories)
        assert not desired(operator)._objects


async def test_sim10_followers_forget_what_is_deleted_before_they_lead(
    cluster: Any, operate: Any, registry: Any, journal: Any
) -> None:
    """They can follow for weeks, and their indices are kept up to date all the time."""

    @on.index("kopfexamples", registry=registry)
    async def index(name: str, **_: Any) -> None:
        journal(name)

    @on.create("kopfexamples", registry=registry)
    async def fn(**_: Any) -> None:
        pass

    async with operate() as operator:
        await operator.pause("following")
        await create(cluster, "default", "a")
        await journal.until(lambda calls: "a" in calls)
        await cluster.delete("a")
        await create(cluster, "default", "b")
        await journal.until(lambda calls: "b" in calls)
        assert len(operator.essentials.memories) == 1
        (intake,) = operator.handling.orchestrator.intakes.values()
        await until(lambda: len(intake.queue) == 1)
