"""``@kopf.reconcile`` where several things of ordinary life come together."""

from collections.abc import Iterator
from typing import Any

PROGRESS = "metadata.annotations['kopf.zalando.org/fn']"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def far_namespace() -> dict[str, Any]:
    """An object out of reach of garbage collection."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}}


def is_ready(message: str) -> Any:
    def check(obj: Any) -> bool:
        conditions = obj.get("status", {}).get("conditions", [])
        return any(c["message"] == message for c in conditions)

    return check


def is_over(obj: Any) -> bool:
    """The pass has come to an end, be it good or bad."""
    return is_ready("done")(obj) or bool(obj["metadata"].get("annotations"))


async def test_h2_namespaces_of_cluster_scoped_objects_are_ignored(websites: Any) -> None:
    """The API server drops them; manifests rendered by Helm or Kustomize often have them."""

    @websites.reconcile(id="fn", owns=["clusterroles.rbac.authorization.k8s.io"])
    def fn(conditions: Any, **_: Any) -> Iterator[Any]:
        yield {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "role", "namespace": "ns1"},
            "rules": [],
        }
        conditions.set("Ready", True, message="done")

    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("done"))
    assert "DELETE role" not in websites.writes()
    assert websites.writes().count("PATCH role") == 1
