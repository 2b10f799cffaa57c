"""The sample objects: what a typical custom resource looks like and weighs (~1.6 KB)."""

from __future__ import annotations

from typing import Any

try:
    import orjson

    def dumps(value: Any) -> bytes:
        return orjson.dumps(value)

    def loads(raw: bytes) -> Any:
        return orjson.loads(raw)

except ImportError:  # slower, but it works
    import json

    def dumps(value: Any) -> bytes:
        return json.dumps(value, separators=(",", ":")).encode()

    def loads(raw: bytes) -> Any:
        return json.loads(raw)


NAMESPACE = "bench"


def make_object(index: int) -> dict[str, Any]:
    """A KopfExample as the API server would show it some time after ``kubectl apply``."""
    return {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "metadata": {
            "name": f"obj-{index:06d}",
            "namespace": NAMESPACE,
            "uid": f"{index:08x}-0000-4000-8000-{index:012x}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
            "resourceVersion": "1",
            "labels": {f"app.kubernetes.io/label{n}": f"value-{n}-{index}" for n in range(4)},
            "annotations": {"example.com/owner": "team-a", "example.com/note": "n" * 120},
            "managedFields": [make_managed_fields(manager) for manager in ("kubectl", "argocd")],
        },
        "spec": {
            "duration": "1m",
            "field": f"value-{index}",
            "counter": 0,
            "items": [f"item-{n}" for n in range(10)],
            "nested": {"key1": "value1", "key2": {"key3": [1, 2, 3], "flag": True}},
        },
        "status": {"phase": "Ready", "observedGeneration": 1},
    }


def make_managed_fields(manager: str) -> dict[str, Any]:
    return {
        "apiVersion": "kopf.dev/v1",
        "fieldsType": "FieldsV1",
        "manager": manager,
        "operation": "Update",
        "time": "2026-01-01T00:00:00Z",
        "fieldsV1": {
            "f:metadata": {"f:annotations": {".": {}, "f:example.com/owner": {}}},
            "f:spec": {".": {}, "f:duration": {}, "f:field": {}, "f:items": {}, "f:nested": {}},
        },
    }
