"""Makes the data files of the sandbox from what is published with Kubernetes.

``builtins.json`` is from the OpenAPI document, ``protobufs.json`` is from the protocol buffers.
Only the structure is taken there (the fields, their types, how lists are merged). The descriptions
are in ``descriptions.json.gz``: they are big, and are needed only for ``kubectl explain``.
Run it with the paths to the sources of three Go modules of the same release::

    python generate_builtins.py k8s.io/kubernetes k8s.io/api k8s.io/apimachinery
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[2] / "src" / "kopf_kits" / "sandbox"
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


def collect_descriptions(spec: dict[str, Any]) -> dict[str, str]:
    """The description of the definition itself (under an empty name) and of its fields."""
    specs = {"": spec, **spec.get("properties", {})}
    return {name: item["description"] for name, item in specs.items() if "description" in item}


def references(spec: Any) -> set[str]:
    """All the definitions that this one refers to."""
    if isinstance(spec, dict):
        own = {spec["$ref"]} if isinstance(spec.get("$ref"), str) else set()
        return own.union(*(references(value) for value in spec.values()))
    return set()


def read_protobufs(*roots: str) -> dict[str, dict[str, list[str]]]:
    """All the messages by their full names: the fields by their numbers, as types and names."""
    messages: dict[str, dict[str, list[str]]] = {}
    for root in roots:
        for path in Path(root).rglob("generated.proto"):
            text = re.sub(r"//.*", "", path.read_text())
            package = re.search(r"^package ([\w.]+);", text, re.MULTILINE)[1]
            for name, body in re.findall(r"^message (\w+) \{(.*?)^\}", text, re.M | re.S):
                field = r"(optional|repeated|map)\s*(<[^>]*>|[\w.]+)\s+(\w+) = (\d+);"
                messages[f"{package}.{name}"] = {
                    number: [mode, resolve(kind, package), name]
                    for mode, kind, name, number in re.findall(field, body)
                }
    return messages


def resolve(kind: str, package: str) -> str:
    """The full name of a type of a field; scalars stay as they are."""
    if kind.startswith("<"):
        return resolve(kind.strip("<>").partition(",")[2].strip(), package)
    if kind.startswith("."):
        return kind[1:]
    return kind if kind.islower() or kind[-1].isdigit() else f"{package}.{kind}"


def main(kubernetes: str, *roots: str) -> None:
    path = Path(kubernetes) / "api" / "openapi-spec" / "swagger.json"
    definitions = json.loads(path.read_text())["definitions"]
    kinds: dict[str, str] = {}
    for name, spec in definitions.items():
        for gvk in spec.get("x-kubernetes-group-version-kind", ()):
            served = SERVED.get(gvk["group"], "").split()
            if gvk["version"] in served and "metadata" in spec.get("properties", {}):
                kinds[f"{gvk['group']}/{gvk['version']}/{gvk['kind']}"] = name
    kinds = {key: name for key, name in kinds.items() if not key.endswith("List")}
    needed: dict[str, Any] = {}
    queue = set(kinds.values())
    while queue:
        name = queue.pop()
        opaque = name.rpartition(".")[2] in OPAQUE
        needed[name] = {"type": "object"} if opaque else simplify(definitions[name])
        queue |= references(needed[name]) - needed.keys()
    write("kinds/builtins.json", {"kinds": kinds, "definitions": needed})
    described = {name: collect_descriptions(definitions[name]) for name in needed}
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    (TARGET / "http/descriptions.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    write("http/protobufs.json", select_protobufs(kinds, definitions, read_protobufs(*roots)))


def select_protobufs(
    kinds: dict[str, str], definitions: dict[str, Any], messages: dict[str, Any]
) -> dict[str, Any]:
    """Only the messages that the kinds consist of; fields which JSON has inlined are marked."""
    names = {kind: name.replace("io.k8s.", "k8s.io.", 1) for kind, name in kinds.items()}
    options = "k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    queue = {*names.values(), options} & messages.keys()
    selected: dict[str, Any] = {}
    while queue:
        name = queue.pop()
        known = definitions.get(name.replace("k8s.io.", "io.k8s.", 1), {}).get("properties")
        selected[name] = {}
        for number, (mode, kind, field) in messages[name].items():
            inlined = known is not None and field not in known and kind in messages
            selected[name][number] = ["inline" if inlined else mode, kind, field]
            if kind in messages and kind not in selected:
                queue.add(kind)
    kept = {kind: name for kind, name in names.items() if name in messages}
    return {"kinds": {**kept, "/v1/DeleteOptions": options}, "messages": selected}


def write(name: str, document: Any) -> None:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    (TARGET / name).write_text(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
