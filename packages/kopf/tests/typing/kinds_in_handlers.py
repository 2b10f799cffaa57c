# pyright: strict
"""Built-in kinds in handlers and in reconcilers: `kopf models` makes them for the test."""

from typing import Any

from kinds import ConfigMap, Deployment, DeploymentSpec, NetworkPolicy, StatefulSet

import kopf


@kopf.on.create("deployments")
def created(spec: DeploymentSpec, body: Deployment, **_: Any) -> None:
    print(spec["selector"].get("matchLabels"), body["kind"].lower())
    print(spec["template"].get("spec", {}).get("nodeName"))
    print(spec["nosuch"])  # BAD


@kopf.reconcile("kopfexamples", owns=["deployments", "configmaps"])
def wanted(name: str, **_: Any) -> kopf.Wishes:
    config: ConfigMap = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    yield config
    deployment: Deployment = yield Deployment(
        apiVersion="apps/v1",
        kind="Deployment",
        spec={
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "ports": [{"containerPort": 80}]}]},
            },
        },
    )
    print(deployment.get("status", {}).get("readyReplicas", 0) + 1)
    yield ConfigMap(apiVersion="v2", kind="ConfigMap")  # BAD


def make_policy() -> NetworkPolicy:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]},
    }


def make_others() -> None:
    StatefulSet(kind="StatefulSet")  # BAD
    ConfigMap(apiVersion="v1", kind="ConfigMap", data={"a": 1})  # BAD
