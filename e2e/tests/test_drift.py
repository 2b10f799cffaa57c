"""What is applied is found to be as wanted: no manifest makes a request in a steady state."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import yaml

from e2e.tests.harness import World
from kopf_cogs.clients.objects import APPLY_PATCH
from kopf_cogs.clients.patching import MERGE_PATCH
from kopf_cogs.structs.managedfields import find_drift
from kopf_core.engines.desired.badges import Badges

PLURALS = {
    "Ingress": "ingresses", "NetworkPolicy": "networkpolicies", "Kex": "kexes",
}  # fmt: skip
CLUSTERWIDE = {"ClusterRole"}
TEXT = pathlib.Path(__file__).with_name("manifests.yaml").read_text(encoding="utf-8")
MANIFESTS = list(yaml.safe_load_all(TEXT))


def locate(world: World, body: Any) -> str:
    kind, api_version = body["kind"], body["apiVersion"]
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    prefix = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
    place = "" if kind in CLUSTERWIDE else f"/namespaces/{world.namespace}"
    return f"{prefix}{place}/{plural}/{body['metadata']['name']}"


async def apply(world: World, body: Any) -> tuple[Any, Any]:
    """Apply it as reconcilers do; get what was sent and what is stored."""
    namespaced = body["kind"] not in CLUSTERWIDE
    meta = {"name": "owner", "uid": "1", "namespace": world.namespace if namespaced else None}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    child = Badges("kopf").put_on(body, owner, namespaced=namespaced, reconciler="fn")
    child["metadata"].pop("ownerReferences", None)  # there is no such owner, actually
    path = f"{locate(world, body)}?fieldManager=kopf&force=true"
    return child, await world.request("PATCH", path, child, APPLY_PATCH)


@pytest.mark.parametrize("body", MANIFESTS, ids=lambda b: f"{b['kind']}-{b['metadata']['name']}")
async def test_nothing_differs_right_after_it_is_applied(world: World, body: Any) -> None:
    child, live = await apply(world, body)
    assert find_drift(child, live, manager="kopf") is None, json.dumps(live, indent=1)


async def test_h2_objects_of_other_versions_differ_only_if_others_have_changed_them(
    world: World,
) -> None:
    """They are watched in the version that the cluster prefers, with other fields."""
    wanted = next(body for body in MANIFESTS if body["kind"] == "HorizontalPodAutoscaler")
    target = wanted["spec"]["scaleTargetRef"]
    spec = {"scaleTargetRef": target, "maxReplicas": 5, "targetCPUUtilizationPercentage": 70}
    old = {**wanted, "apiVersion": "autoscaling/v1", "spec": spec}
    path = locate(world, wanted)
    child, _ = await apply(world, old)
    assert find_drift(child, await world.request("GET", path), manager="kopf") is None
    await world.request("PATCH", path, {"spec": {"maxReplicas": 7}}, MERGE_PATCH)
    drift = find_drift(child, await world.request("GET", path), manager="kopf")
    assert drift == ("spec", "maxReplicas")
