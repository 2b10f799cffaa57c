"""Makes ``builtins.json`` of the sandbox from the OpenAPI document published with Kubernetes.

Run it as ``python generate_builtins.py path/to/kubernetes/api/openapi-spec/swagger.json``.
Only the structure is taken (the fields, their types, how lists are merged), not the descriptions.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[2] / "src" / "kopf_kits" / "sandbox" / "builtins.json"
KEPT = (
    "type", "format", "required", "x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
)  # fmt: skip
SERVED = {
    "": "v1", "apps": "v1", "batch": "v1", "networking.k8s.io": "v1", "policy": "v1",
    "autoscaling": "v1 v2", "coordination.k8s.io": "v1", "discovery.k8s.io": "v1",
    "rbac.authorization.k8s.io": "v1", "scheduling.k8s.io": "v1", "storage.k8s.io": "v1",
    "certificates.k8s.io": "v1", "admissionregistration.k8s.io": "v1", "events.k8s.io": "v1",
    "apiextensions.k8s.io": "v1", "apiregistration.k8s.io": "v1",
}  # fmt: skip
OPAQUE = ("JSONSchemaProps", "RawExtension", "FieldsV1", "JSON")


def simplify(spec: dict[str, Any]) -> dict[str, Any]:
    """Drop everything but the structure."""
    result = {name: spec[name] for name in KEPT if name in spec}
    if "$ref" in spec:
        result["$ref"] = spec["$ref"].removeprefix("#/definitions/")
    for name in ("items", "additionalProperties"):
        if isinstance(spec.get(name), dict):
            result[name] = simplify(spec[name])
    if "properties" in spec:
        result["properties"] = {key: simplify(value) for key, value in spec["properties"].items()}
    return result


def references(spec: Any) -> set[str]:
    """All the definitions that this one refers to."""
    if isinstance(spec, dict):
        own = {spec["$ref"]} if isinstance(spec.get("$ref"), str) else set()
        return own.union(*(references(value) for value in spec.values()))
    return set()


def main(path: str) -> None:
    definitions = json.loads(Path(path).read_text())["definitions"]
    kinds: dict[str, str] = {}
    for name, spec in definitions.items():
        for gvk in spec.get("x-kubernetes-group-version-kind", ()):
            served = SERVED.get(gvk["group"], "").split()
            if gvk["version"] in served and "metadata" in spec.get("properties", {}):
                kinds[f"{gvk['group']}/{gvk['version']}/{gvk['kind']}"] = name
    kinds = {key: name for key, name in kinds.items() if not key.endswith("List")}
    needed, queue = {}, set(kinds.values())
    while queue:
        name = queue.pop()
        opaque = name.rpartition(".")[2] in OPAQUE
        needed[name] = {"type": "object"} if opaque else simplify(definitions[name])
        queue |= references(needed[name]) - needed.keys()
    document = {"kinds": kinds, "definitions": needed}
    TARGET.write_text(json.dumps(document, sort_keys=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
