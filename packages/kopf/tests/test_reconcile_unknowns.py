"""``@kopf.reconcile`` when something is not known yet: that is not the same as absent."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import kopf
from kopf_core.reactor.streams import lateness

from .conftest import config_map

PROGRESS = "metadata.annotations['kopf.zalando.org/fn']"


def is_ready(message: str) -> Any:
    def check(obj: Any) -> bool:
        conditions = obj.get("status", {}).get("conditions", [])
        return any(c["message"] == message for c in conditions)

    return check


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def test_h2_namespaces_forbidden_at_the_start_hold_up_nothing(websites: Any) -> None:
    """But what is there is not forgotten: it is pruned as soon as it can be seen."""
    websites.settings.name = "sites.example.com"

    @websites.reconcile(id="fn")
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map("child", x=str(spec["x"]))
        if spec["x"] == 1:
            far = config_map("far")
            far["metadata"]["namespace"] = "ns3"
            yield far
        conditions.set("Ready", True, message=str(spec["x"]))

    served = {"clusterwide": False, "namespaces": ["ns*"]}
    websites.settings.watching.reconnect_backoff = 0.01
    await websites.sandbox.apply(namespace("ns3"))
    await websites.apply(x=1)
    async with websites.operating(**served):
        await websites.wait(websites.kind, "web", check=is_ready("1"))
    await websites.patch(x=2)
    path = "/api/v1/namespaces/ns3/configmaps"
    with websites.sandbox.faults.fail(403, method="GET", path=path) as fault:
        async with websites.operating(**served):
            await websites.wait(websites.kind, "web", check=is_ready("2"))
            assert await websites.names(namespace="ns3") == ["far"]
            fault.release()
            await websites.wait("configmaps", "far", namespace="ns3", gone=True)
            await websites.sandbox.delete(websites.kind, "web", namespace="ns1")
            await websites.wait(websites.kind, "web", gone=True)


async def test_h2_children_are_listed_before_they_are_missed(websites: Any) -> None:
    @websites.reconcile(id="fn", owns=["v1/configmaps", "v1/secrets"])
    def fn(spec: Any, children: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        if spec["x"] == 1 or "token" in children["Secret"]:
            yield {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}}
            yield config_map("child")
        conditions.set("Ready", True, message=str(spec["x"]))

    served = {"clusterwide": False, "namespaces": ["ns1"]}
    websites.settings.watching.reconnect_backoff = 0.01
    await websites.apply(x=1)
    async with websites.operating(**served):
        await websites.wait(websites.kind, "web", check=is_ready("1"))
    await websites.patch(x=2)
    since, path = websites.now, "/api/v1/namespaces/ns1/secrets"
    with websites.sandbox.faults.fail(403, method="GET", path=path) as fault:
        async with websites.operating(**served):
            await websites.wait(websites.kind, "web", jsonpath=PROGRESS)
            fault.release()
            await websites.wait(websites.kind, "web", check=is_ready("2"))
    assert not [write for write in websites.writes(since) if "DELETE" in write]


@pytest.mark.parametrize("name", ["ns2/settings", "ns9/settings", "settings"])
async def test_h2_related_objects_are_waited_for_only_where_they_are_named(
    websites: Any, name: str
) -> None:
    """Neither where they are not named, nor where nothing is served, as it is never listed."""

    @websites.reconcile(id="fn", owns=["configmaps"], related={"v1/secrets": "spec.secret"})
    def fn(related: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map("child")
        conditions.set("Ready", True, message=str([*related["Secret"]]))

    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "settings"}}
    for space in ("ns1", "ns2"):
        await websites.sandbox.create(secret, namespace=space)
    await websites.apply(secret=name)
    path = "/api/v1/namespaces/ns3/secrets"
    await websites.sandbox.apply(namespace("ns3"))
    with websites.sandbox.faults.fail(403, method="GET", path=path):
        async with websites.operating(clusterwide=False, namespaces=["ns1", "ns2", "ns3"]):
            found = [] if name.startswith("ns9") else [name]
            await websites.wait(websites.kind, "web", check=is_ready(str(found)))


@pytest.mark.parametrize("fault", ["fail", "hang"])
@pytest.mark.parametrize("role", ["owned", "related"])
async def test_h2_k31_kinds_that_cannot_be_listed_hold_up_only_those_who_need_them(
    websites: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    role: str,
    fault: str,
) -> None:
    """E.g. those of an aggregated API the server of which is down for days."""
    monkeypatch.setattr(lateness, "PATIENCE", 0.05)
    needs = {"owns": ["v1/secrets"]} if role == "owned" else {"related": {"v1/secrets": "spec.x"}}

    @websites.reconcile(id="fn", **{"owns": ["configmaps"]} | needs)
    def fn(conditions: Any, **_: Any) -> None:
        conditions.set("Ready", True, message="done")

    @websites.reconcile(id="other")
    def other(**_: Any) -> dict[str, Any]:
        return config_map("other")

    @kopf.on.event("namespaces", registry=websites.registry)
    async def seen(name: str, **_: Any) -> None:
        namespaces.add(name)
        if namespaces >= {"ns1", "ns2"}:
            all_seen.set()

    caplog.set_level(logging.INFO)
    namespaces: set[str] = set()
    all_seen = asyncio.Event()
    await websites.apply(x="token")
    faults, where = websites.sandbox.faults, {"method": "GET", "path": "/api/v1/secrets"}
    with faults.fail(503, **where) if fault == "fail" else faults.hang(**where) as broken:
        async with websites.operating():
            await websites.wait("configmaps", "other")
            await all_seen.wait()
            web = await websites.wait(websites.kind, "web", jsonpath=PROGRESS)
            assert "It must wait until secrets are listed" in str(web["metadata"]["annotations"])
            assert '"retries":0' in str(web["metadata"]["annotations"])  # it is not an attempt
            broken.release()
            await websites.wait(websites.kind, "web", check=is_ready("done"))
    told = "secrets.v1 are not listed yet, so Reconciler 'fn' waits; all other handlers go on."
    assert [line.startswith(told) for line in caplog.messages].count(True) == 1
    waiting = [r for r in caplog.records if "It must wait until" in r.getMessage()]
    assert {r.levelno for r in waiting} == {logging.INFO}


async def test_h2_indices_are_waited_for_whatever_happens_to_their_kinds(
    websites: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not known which functions use them: what is not complete must not be seen by any."""
    told: asyncio.Queue[str] = asyncio.Queue()
    monkeypatch.setattr(lateness, "PATIENCE", 0.01)
    monkeypatch.setattr(lateness.logger, "warning", told.put_nowait)

    @kopf.index("secrets", id="tokens", registry=websites.registry)
    def tokens(name: str, **_: Any) -> dict[str, int]:
        return {name: 1}

    @websites.reconcile(id="fn")
    def fn(conditions: Any, **kwargs: Any) -> None:
        conditions.set("Ready", True, message=str([*kwargs["tokens"]]))

    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}}
    await websites.sandbox.create(secret, namespace="ns1")
    await websites.apply()
    since = websites.now
    where = {"method": "GET", "path": "/api/v1/secrets"}
    with websites.sandbox.faults.fail(503, **where) as broken:
        async with websites.operating():
            while "secrets" not in (line := await told.get()):
                pass  # slow machines are told of others, too
            assert "no handlers are called: the index 'tokens' must be filled first." in line
            assert not websites.writes(since)
            broken.release()
            await websites.wait(websites.kind, "web", check=is_ready("['token']"))
