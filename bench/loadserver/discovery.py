"""The static part of the API: which groups, versions, and resources there are."""

from __future__ import annotations

from typing import Any

from bench.loadserver.objects import NAMESPACE, dumps

VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def resource(kind: str, plural: str, namespaced: bool, *short: str) -> dict[str, Any]:
    return {
        "name": plural,
        "singularName": kind.lower(),
        "kind": kind,
        "namespaced": namespaced,
        "shortNames": list(short),
        "verbs": VERBS,
    }


def resource_list(api_version: str, *resources: dict[str, Any]) -> bytes:
    return dumps(
        {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": api_version,
            "resources": list(resources),
        }
    )


def group(name: str) -> dict[str, Any]:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


DOCUMENTS: dict[str, bytes] = {
    "/version": dumps({"major": "1", "minor": "34", "gitVersion": "v1.34.0"}),
    "/api": dumps({"kind": "APIVersions", "versions": ["v1"]}),
    "/apis": dumps(
        {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [group("apiextensions.k8s.io"), group("kopf.dev")],
        }
    ),
    "/api/v1": resource_list(
        "v1",
        resource("Namespace", "namespaces", False, "ns"),
        resource("Event", "events", True, "ev"),
        resource("Pod", "pods", True, "po"),
    ),
    "/apis/apiextensions.k8s.io/v1": resource_list(
        "apiextensions.k8s.io/v1",
        resource("CustomResourceDefinition", "customresourcedefinitions", False, "crd"),
    ),
    "/apis/kopf.dev/v1": resource_list(
        "kopf.dev/v1",
        resource("KopfExample", "kopfexamples", True, "kex"),
    ),
}

# Other lists an operator may ask for: nothing ever happens to them.
NAMESPACES = [
    {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "uid": f"ns-{name}", "resourceVersion": "1"},
    }
    for name in ("default", "bench")
]


PODS = 20
"""How many pods there are: each of them refers to one of the objects."""


def make_pod(index: int) -> dict[str, Any]:
    name = f"pod-{index}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "resourceVersion": "1"},
        "spec": {"reference": f"obj-{index:06d}"},
    }


def still_list(kind: str, api_version: str, items: list[dict[str, Any]]) -> bytes:
    return dumps(
        {
            "kind": f"{kind}List",
            "apiVersion": api_version,
            "metadata": {"resourceVersion": "1"},
            "items": items,
        }
    )


PODS_OF_BENCH = [make_pod(index) for index in range(PODS)]

STILL_OBJECTS = {
    f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}": dumps(pod)
    for pod in PODS_OF_BENCH
}
"""Objects that stay as they are, whatever the patches are."""

STILL_LISTS: dict[str, bytes] = {
    "/api/v1/namespaces": still_list("Namespace", "v1", NAMESPACES),
    "/api/v1/pods": still_list("Pod", "v1", PODS_OF_BENCH),
    "/api/v1/events": still_list("Event", "v1", []),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": still_list(
        "CustomResourceDefinition", "apiextensions.k8s.io/v1", []
    ),
}
