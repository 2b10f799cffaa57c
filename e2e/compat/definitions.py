"""The kinds of objects for the operators to handle."""

from __future__ import annotations

from typing import Any

GROUP = "compat.kopf.dev"
VERSION = "v1"
API = f"/apis/{GROUP}/{VERSION}"

KINDS = {
    "compatexamples": "CompatExample",
    "compatstatuses": "CompatStatus",
    "compatclusters": "CompatCluster",
}
CLUSTERED = "compatclusters"
WITH_STATUS = "compatstatuses"


def make_definition(plural: str) -> dict[str, Any]:
    """Make the custom resource definition of the kind."""
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    if plural == WITH_STATUS:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster" if plural == CLUSTERED else "Namespaced",
            "names": {
                "kind": KINDS[plural],
                "plural": plural,
                "singular": KINDS[plural].lower(),
            },
            "versions": [version],
        },
    }
