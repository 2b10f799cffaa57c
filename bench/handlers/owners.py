"""The same as ``bench/go/main.go``: a ConfigMap, a Secret, and a condition for every object."""

import base64
from typing import Any

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.name = "bench-ours"


@kopf.reconcile("kopfexamples", owns=["configmaps", "secrets"])
async def owner(spec: Any, conditions: Any, **_: Any) -> Any:
    value = str(spec["value"])
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"value": value}}
    encoded = base64.b64encode(base64.b64encode(value.encode())).decode()
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {"value": encoded}}
    conditions.set("Ready", True, message=value)
