"""Defaults of pods and of the templates of pods."""

from __future__ import annotations

from typing import Any

from kopf_kits.sandbox.store.rules import Obj


def complete_pod(obj: Obj, old: Obj | None) -> None:
    """Add what an API server adds to a new pod."""
    spec = dict(obj.get("spec") or {})
    _complete_spec(spec)
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    obj["spec"] = spec
    if old is None:
        obj["status"] = {"phase": "Pending", "qosClass": _quality(spec)}


def complete_template(spec: Obj) -> None:
    """Add the defaults to ``spec.template`` of a workload, replacing it with a copy."""
    template = dict(spec.get("template") or {})
    meta = dict(template.get("metadata") or {})
    inner = dict(template.get("spec") or {})
    _complete_spec(inner)
    spec["template"] = {**template, "metadata": meta, "spec": inner}


def _complete_spec(spec: Obj) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    for field in ("initContainers", "containers"):
        if isinstance(spec.get(field), list):
            spec[field] = [_complete_container(container) for container in spec[field]]


def _complete_container(container: Any) -> Any:
    if not isinstance(container, dict):
        return container
    image = str(container.get("image", ""))
    tag = image.rpartition("/")[2].partition(":")[2]
    latest = tag in ("", "latest") and "@" not in image
    result = {
        "imagePullPolicy": "Always" if latest else "IfNotPresent",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        **container,
    }
    if result.get("ports"):
        result["ports"] = [{"protocol": "TCP", **port} for port in result["ports"]]
    return result


def _quality(spec: Obj) -> str:
    resources = [container.get("resources") or {} for container in spec.get("containers") or []]
    if not any(resources):
        return "BestEffort"
    guaranteed = all(
        item.get("limits") and item.get("requests", item["limits"]) == item["limits"]
        for item in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"
