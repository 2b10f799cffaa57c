"""``@kopf.reconcile`` when something is not known yet: that is not the same as absent."""

from collections.abc import Iterator
from typing import Any

from .conftest import config_map


def is_ready(message: str) -> Any:
    def check(obj: Any) -> bool:
        conditions = obj.get("status", {}).get("conditions", [])
        return any(c["message"] == message for c in conditions)

    return check


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def test_h2_namespaces_forbidden_at_the_start_hold_up_nothing(websites: Any) -> None:
    """But what is there is not forgotten: it is pruned as soon as it can be seen."""

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
