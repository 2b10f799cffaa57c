"""The objects that the behaviours are observed on."""

from __future__ import annotations

from typing import Any

GROUP = "conformance.kopf.dev"
LOOSE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

STRICT_SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 10, "pattern": "^[a-z]*$"},
        "choice": {"type": "string", "enum": ["a", "b"]},
        "number": {"type": "integer", "minimum": 1, "maximum": 9},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "moment": {"type": "string", "format": "date-time"},
        "nothing": {"type": "string", "nullable": True},
        "mixed": {"x-kubernetes-int-or-string": True},
        "items": {"type": "array", "maxItems": 3, "items": {"type": "string"}},
        "unique": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "mapping": {"type": "object", "additionalProperties": {"type": "integer"}},
        "preset": {"type": "string", "default": "initial"},
        "nested": {
            "type": "object",
            "properties": {"inner": {"type": "integer", "default": 5}},
        },
        "demanding": {
            "type": "object",
            "required": ["needed"],
            "properties": {"needed": {"type": "string"}},
        },
        "free": LOOSE,
        "things": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "replicas": {"type": "integer"},
        "low": {"type": "integer"},
        "high": {"type": "integer"},
    },
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.low) || !has(self.high) || self.low <= self.high",
            "message": "low must not be above high",
        }
    ],
}
STRICT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": STRICT_SPEC,
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "replicas": {"type": "integer"},
                "selector": {"type": "string"},
            },
        },
    },
}
COLUMNS = [
    {"name": "Text", "type": "string", "jsonPath": ".spec.text", "description": "What it says"},
    {"name": "Number", "type": "integer", "jsonPath": ".spec.number", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def make_version(name: str = "v1", schema: Any = None, **extra: Any) -> dict[str, Any]:
    return {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or LOOSE},
        **extra,
    }


def make_crd(
    group: str, kind: str, *versions: dict[str, Any], scope: str = "Namespaced", **names: Any
) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, **names},
            "versions": list(versions) or [make_version()],
        },
    }


PLAIN = make_crd(GROUP, "Plain")
STRICT = make_crd(
    GROUP,
    "Strict",
    make_version(
        schema=STRICT_SCHEMA,
        subresources={"status": {}, "scale": SCALE},
        additionalPrinterColumns=COLUMNS,
        selectableFields=[{"jsonPath": ".spec.text"}],
    ),
    singular="strict",
    shortNames=["stc"],
    categories=["conformance"],
)

CONTAINER = {"name": "main", "image": "busybox"}
POD = {"spec": {"containers": [CONTAINER]}}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [CONTAINER]}}
DEPLOYMENT = {"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}}


def meta(name: str = "x", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **fields}}


def custom(kind: str, name: str, spec: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Make a whole custom object: the API requires both the version and the kind in it."""
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, **meta(name)}
    if spec is not None:
        body["spec"] = spec
    return {**body, **fields}


def plain(name: str = "x", spec: Any = None, **fields: Any) -> dict[str, Any]:
    return custom("Plain", name, spec, fields)


def strict(name: str = "x", spec: Any = None, **fields: Any) -> dict[str, Any]:
    return custom("Strict", name, spec, fields)
