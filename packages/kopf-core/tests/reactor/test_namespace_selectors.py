"""Namespaces by their labels: streams begin and end as the labels change."""

import asyncio
import logging
from typing import Any

import pytest
from idleness import until

from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.checks import SettingError
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_cogs.structs.namespaces import match_namespace
from kopf_core.intents import decorators as on
from kopf_core.intents.stoppers import DaemonStoppingReason
from kopf_core.reactor.life.operator import Operator, OperatorOptions
from kopf_core.reactor.shape import observation
from kopf_core.reactor.streams import feeds, pool

KEX = "kopfexamples"
SELECTOR = "tenant in (a, b)"


@pytest.fixture(autouse=True, params=[100, 0], ids=["own streams", "fed"])
def many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "MANY_NAMESPACES", request.param)


async def make_namespace(cluster: Any, name: str, **labels: str) -> None:
    metadata = {"name": name, "labels": labels}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    await cluster.client.post("/api/v1/namespaces", body)


async def label(cluster: Any, name: str, tenant: str | None) -> None:
    await cluster.sandbox.patch("namespaces", name, {"metadata": {"labels": {"tenant": tenant}}})


async def make_object(cluster: Any, namespace: str, **spec: Any) -> Any:
    body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": namespace}}
    url = f"/apis/kopf.dev/v1/namespaces/{namespace}/kopfexamples"
    return await cluster.client.post(url, {**body, "spec": spec})


async def change(cluster: Any, namespace: str, **spec: Any) -> None:
    await cluster.sandbox.patch(KEX, namespace, {"spec": spec}, namespace=namespace)


def get_places(operator: Any) -> set[str | None]:
    return {key.namespace for key in operator.handling.pool.informers}


async def test_o_namespaces_are_served_for_as_long_as_their_labels_match(
    cluster, operate, registry, settings, journal
):
    settings.scanning.namespace_selector = SELECTOR

    @on.create(KEX, registry=registry)
    @on.update(KEX, registry=registry)
    async def fn(reason: Any, namespace: str, spec: Any, **_: Any) -> None:
        journal((str(reason), namespace, spec["n"]))

    reasons = set()

    @on.daemon(KEX, registry=registry)
    async def daemon(namespace: str, stopped: Any, **_: Any) -> None:
        journal(("spawned", namespace))
        await stopped.wait()
        reasons.add(stopped.reason)
        journal(("stopped", namespace))

    for name, labels in {"one": {"tenant": "a"}, "two": {"tenant": "b"}, "three": {}}.items():
        await make_namespace(cluster, name, **labels)
        await make_object(cluster, name, n=1)
    async with operate(namespaces=["*"]) as operator:
        await journal.until(lambda calls: {("create", n, 1) for n in ("one", "two")} <= {*calls})
        await until(lambda: get_places(operator) == {"one", "two"})
        await label(cluster, "three", "a")
        await journal.until(lambda calls: ("create", "three", 1) in calls)
        await label(cluster, "one", "c")
        await journal.until(lambda calls: ("stopped", "one") in calls)
        assert reasons == {DaemonStoppingReason.FILTERS_MISMATCH}  # nothing is deleted
        await until(lambda: get_places(operator) == {"two", "three"})
        await until(lambda: len(operator.essentials.memories) == 2)
        await change(cluster, "one", n=2)  # nobody sees it
        await change(cluster, "two", n=2)
        await journal.until(lambda calls: ("update", "two", 2) in calls)
        await label(cluster, "one", "b")
        await journal.until(lambda calls: ("update", "one", 2) in calls)
        await journal.until(lambda calls: calls.count(("spawned", "one")) == 2)
    handled = [call for call in journal if call[0] in ("create", "update")]
    assert sorted(handled) == [
        ("create", "one", 1),
        ("create", "three", 1),
        ("create", "two", 1),
        ("update", "one", 2),
        ("update", "two", 2),
    ]
    lists = cluster.sandbox.journal.select("GET", "/api/v1/namespaces")
    assert {entry.query.get("labelSelector") for entry in lists if entry.watch} == {SELECTOR}


async def test_o_labels_and_names_must_both_match(cluster, operate, registry, settings, journal):
    settings.scanning.namespace_selector = SELECTOR

    @on.event(KEX, registry=registry)
    async def see(namespace: str, **_: Any) -> None:
        journal(namespace)

    for name, labels in {"x-one": {"tenant": "a"}, "y-two": {"tenant": "b"}, "x-no": {}}.items():
        await make_namespace(cluster, name, **labels)
        await make_object(cluster, name)
    async with operate(namespaces=["x-*"]):
        await journal.until(len)
        await label(cluster, "x-no", "b")
        await journal.until(lambda calls: len(calls) == 2)
    assert [*journal] == ["x-one", "x-no"]


@pytest.mark.parametrize("scope", [{"clusterwide": True}, {}, {"namespaces": ["one"]}])
async def test_o_the_selector_can_be_set_when_the_operator_starts(
    cluster, operate, registry, journal, scope
):
    @on.startup(registry=registry)
    async def configure(settings: Any, **_: Any) -> None:
        settings.scanning.namespace_selector = SELECTOR

    @on.event(KEX, registry=registry)
    async def see(namespace: str, **_: Any) -> None:
        journal(namespace)

    await make_namespace(cluster, "one")
    await make_object(cluster, "one")
    await make_namespace(cluster, "two", tenant="a")
    await make_object(cluster, "two")
    async with operate(**scope) as operator:
        if "namespaces" not in scope:
            await journal.until(lambda calls: "two" in calls)
            await until(lambda: get_places(operator) == {"two"})
        await label(cluster, "one", "a")
        await journal.until(lambda calls: "one" in calls)
    assert [*journal] == (["one"] if "namespaces" in scope else ["two", "one"])


async def test_o_nothing_is_served_while_the_labels_are_not_permitted_to_be_seen(
    cluster, operate, registry, settings, journal, logged
):
    settings.scanning.namespace_selector = SELECTOR
    fault = cluster.sandbox.faults.fail(403, method="GET", path="/api/v1/namespaces")

    @on.event(KEX, registry=registry)
    async def see(namespace: str, **_: Any) -> None:
        journal(namespace)

    await make_namespace(cluster, "one", tenant="a")
    await make_object(cluster, "one")
    async with operate(namespaces=["one"]) as operator:
        await until(lambda: operator.essentials.insights.known.is_set())
        assert operator.essentials.insights.namespaces == set()
        fault.release()
        await journal.until(len)
    assert [*journal] == ["one"]
    assert [text for text in logged(logging.WARNING) if "no namespaces are served" in text]


async def test_o_labels_are_not_known_if_the_scanning_is_disabled(
    cluster, settings, registry
) -> None:
    settings.scanning.namespace_selector = SELECTOR
    settings.scanning.disabled = True

    @on.event(KEX, registry=registry)
    async def see(**_: Any) -> None:
        pass

    vault = Vault({"server": ConnectionInfo(server=cluster.sandbox.url)})
    options = OperatorOptions(registry=registry, settings=settings, vault=vault, clusterwide=True)
    with pytest.raises(SettingError, match="needs the namespaces to be watched"):
        await Operator(options).run()


async def test_o_labels_that_come_and_go_do_not_repeat_what_is_being_done(
    cluster, operate, registry, settings, journal
):
    settings.scanning.namespace_selector = SELECTOR
    settings.queueing.exit_timeout = 30
    gate = asyncio.Event()

    @on.create(KEX, registry=registry)
    async def create(namespace: str, **_: Any) -> None:
        journal(("create", namespace))
        await gate.wait()

    @on.update(KEX, registry=registry)
    async def update(namespace: str, **_: Any) -> None:
        journal(("update", namespace))

    await make_namespace(cluster, "one", tenant="a")
    await make_object(cluster, "one", n=1)
    async with operate(clusterwide=True) as operator:
        await journal.until(len)
        for tenant in ("c", "b", "c", "a"):
            await label(cluster, "one", tenant)
            served = {"one"} if tenant in "ab" else set()
            await until(lambda names=served: operator.essentials.insights.namespaces == names)
        gate.set()
        await until(lambda: get_places(operator) == {"one"})
        await change(cluster, "one", n=2)
        await journal.until(lambda calls: ("update", "one") in calls)
    assert [*journal] == [("create", "one"), ("update", "one")]


async def test_o_each_namespace_is_matched_once(
    cluster, operate, registry, settings, journal, monkeypatch
):
    settings.scanning.namespace_selector = SELECTOR
    matched: list[str] = []

    def match(name: str, pattern: Any) -> bool:
        matched.append(name)
        return match_namespace(name, pattern)

    monkeypatch.setattr(observation, "match_namespace", match)

    @on.event(KEX, registry=registry)
    async def see(namespace: str, **_: Any) -> None:
        journal(namespace)

    names = [f"ns{number}" for number in range(10)]
    for name in names:
        await make_namespace(cluster, name, tenant="a")
    async with operate(namespaces=["*"]) as operator:
        await until(lambda: get_places(operator) == {*names})
        for name in names:
            await label(cluster, name, "b")
        await make_namespace(cluster, "last", tenant="a")
        await make_object(cluster, "last")
        await journal.until(len)
    assert sorted(matched) == sorted([*names, "last"])


async def test_o_objects_of_namespaces_without_the_labels_are_not_deleted(
    cluster, operate, registry, settings, journal, monkeypatch
):
    monkeypatch.setattr(pool, "LATENESS", 0)
    settings.scanning.namespace_selector = SELECTOR

    @on.event(KEX, registry=registry)
    async def fn(type: Any, namespace: str, **_: Any) -> None:
        journal((type, namespace))

    for name in ("one", "two"):
        await make_namespace(cluster, name, tenant="a")
        await make_object(cluster, name)
    async with operate(namespaces=["*"]) as operator:
        await journal.until(lambda calls: len(calls) == 2)
        with cluster.sandbox.faults.hold(path="*/kopfexamples"):
            await label(cluster, "one", "c")
            await until(lambda: get_places(operator) == {"two"})
            await cluster.client.delete("/api/v1/namespaces/two")
            await journal.until(lambda calls: len(calls) == 3)
            await until(lambda: not operator.handling.orchestrator._closing)
    assert journal[2:] == [("DELETED", "two")]
