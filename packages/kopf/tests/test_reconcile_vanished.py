"""``@kopf.reconcile`` when children vanish while nobody can see it."""

from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import config_map

WATCH = {"path": "*/configmaps", "watch": True}
PROGRESS = r"metadata.annotations.kopf\.zalando\.org/fn"


def is_ready(message: str) -> Any:
    def check(obj: Any) -> bool:
        conditions = obj.get("status", {}).get("conditions", [])
        return any(c["message"] == message for c in conditions)

    return check


@pytest.fixture(autouse=True)
def no_delays(websites: Any) -> None:
    websites.settings.watching.reconnect_backoff = 0.01


def reconcile(websites: Any) -> None:
    @websites.reconcile(id="fn")
    def fn(name: str, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map(f"{name}-child")
        conditions.set("Ready", True, message="done")


@pytest.mark.parametrize("streaming", [False, True], ids=["list", "stream"])
@pytest.mark.parametrize("others", [False, True], ids=["alone", "amid-others"])
async def test_h2_children_deleted_before_they_are_listed_are_made_anew(
    websites: Any, others: bool, streaming: bool
) -> None:
    """They are known only from the responses to our own requests: no stream has ever had them."""
    websites.settings.watching.initial_streaming = streaming
    reconcile(websites)
    sandbox = websites.sandbox
    async with websites.operating():
        await sandbox.journal.arrived("GET", "*/configmaps", count=1 if streaming else 2)
        with sandbox.faults.hold(**WATCH):
            await websites.apply()
            await websites.wait(websites.kind, "web", check=is_ready("done"))
            await sandbox.delete("configmaps", "web-child", namespace="ns1")
            if others:
                await sandbox.create(config_map("alien"), namespace="ns1")
            sandbox.compact()
            sandbox.cut_watches("*/configmaps")
        await websites.wait("configmaps", "web-child")
    assert websites.writes().count("PATCH web-child") == 2


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def test_h2_children_that_vanish_with_their_namespaces_are_made_anew(websites: Any) -> None:
    """The namespace is not served anymore before the deletion of the child is seen."""

    @websites.reconcile(id="fn", backoff=60)
    def fn(conditions: Any, **_: Any) -> Iterator[Any]:
        far = config_map("far")
        far["metadata"]["namespace"] = "ns3"
        yield far
        conditions.set("Ready", True, message="done")

    sandbox, path = websites.sandbox, "/api/v1/namespaces/ns3/configmaps"
    await sandbox.apply(namespace("ns3"))
    await websites.apply()
    async with websites.operating(clusterwide=False, namespaces=["ns*"]):
        await websites.wait(websites.kind, "web", check=is_ready("done"))
        with sandbox.faults.hold(path=path, watch=True):
            await sandbox.delete("namespaces", "ns3")
            await websites.wait(websites.kind, "web", jsonpath=PROGRESS)
        await sandbox.apply(namespace("ns3"))
        await websites.wait("configmaps", "far", namespace="ns3")
        await websites.wait(websites.kind, "web", check=is_ready("done"))
    assert websites.writes().count("PATCH far") == 2
