"""The columns that ``kubectl get`` shows for the built-in kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .ages import Since

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name, and how its cells are found in objects."""

    name: str
    cell: Callable[[Obj], Any]
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def definition(self) -> Obj:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def _at(path: str, default: Any = "") -> Callable[[Obj], Any]:
    names = path.split(".")

    def find(obj: Obj) -> Any:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return default if value is None else value

    return find


def _text(name: str, path: str, default: Any = "") -> Column:
    return Column(name, _at(path, default))


def _number(name: str, path: str) -> Column:
    return Column(name, _at(path, 0), type="integer")


def _size(name: str, *paths: str) -> Column:
    return Column(name, lambda obj: sum(len(_at(path, ())(obj)) for path in paths), type="string")


def _ratio(name: str, ready: str, wanted: str) -> Column:
    return Column(name, lambda obj: f"{_at(ready, 0)(obj)}/{_at(wanted, 0)(obj)}")


def _pod_ready(obj: Obj) -> str:
    statuses = _at("status.containerStatuses", ())(obj)
    ready = sum(bool(status.get("ready")) for status in statuses)
    return f"{ready}/{len(_at('spec.containers', ())(obj))}"


def _pod_status(obj: Obj) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(_at("status.reason", "")(obj) or _at("status.phase", "Unknown")(obj))


def _pod_restarts(obj: Obj) -> str:
    statuses = _at("status.containerStatuses", ())(obj)
    return str(sum(int(status.get("restartCount") or 0) for status in statuses))


def _ports(obj: Obj) -> str:
    ports = _at("spec.ports", ())(obj)
    shown = [f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports]
    return ",".join(shown) or "<none>"


def _labels(obj: Obj) -> str:
    labels = _at("spec.selector.matchLabels", {})(obj) or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"


def _hosts(obj: Obj) -> str:
    return ",".join(rule.get("host", "*") for rule in _at("spec.rules", ())(obj)) or "*"


def _event_object(obj: Obj) -> str:
    involved = obj.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _event_seen(obj: Obj) -> Since:
    moments = (obj.get("lastTimestamp"), obj.get("eventTime"), obj.get("firstTimestamp"))
    return Since(next((moment for moment in moments if moment), None))


def _job_completions(obj: Obj) -> str:
    return f"{_at('status.succeeded', 0)(obj)}/{_at('spec.completions', 1)(obj)}"


def _job_status(obj: Obj) -> str:
    for condition in _at("status.conditions", ())(obj):
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return str(condition["type"])
    return "Running"


def _node_status(obj: Obj) -> str:
    for condition in _at("status.conditions", ())(obj):
        if condition.get("type") == "Ready":
            return "Ready" if condition.get("status") == "True" else "NotReady"
    return "Unknown"


_ROLE = Column("Role", lambda obj: f"{obj['roleRef']['kind']}/{obj['roleRef']['name']}")
_SERVICE_ADDRESS = _text("Cluster-IP", "spec.clusterIP", "<none>")

BUILTIN_COLUMNS: dict[str, tuple[Column, ...]] = {
    "namespaces": (_text("Status", "status.phase"),),
    "nodes": (Column("Status", _node_status), Column("Roles", lambda _: "<none>")),
    "pods": (
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
    ),
    "services": (
        _text("Type", "spec.type"),
        _SERVICE_ADDRESS,
        Column("External-IP", lambda _: "<none>"),
        Column("Port(s)", _ports),
    ),
    "secrets": (_text("Type", "type"), _size("Data", "data")),
    "configmaps": (_size("Data", "data", "binaryData"),),
    "serviceaccounts": (_size("Secrets", "secrets"),),
    "events": (
        Column("Last Seen", _event_seen),
        _text("Type", "type"),
        _text("Reason", "reason"),
        Column("Object", _event_object),
        Column("Message", lambda obj: str(obj.get("message", "")).strip()),
    ),
    "deployments": (
        _ratio("Ready", "status.readyReplicas", "spec.replicas"),
        _number("Up-to-date", "status.updatedReplicas"),
        _number("Available", "status.availableReplicas"),
    ),
    "replicasets": (
        _number("Desired", "spec.replicas"),
        _number("Current", "status.replicas"),
        _number("Ready", "status.readyReplicas"),
    ),
    "statefulsets": (_ratio("Ready", "status.readyReplicas", "spec.replicas"),),
    "daemonsets": (
        _number("Desired", "status.desiredNumberScheduled"),
        _number("Current", "status.currentNumberScheduled"),
        _number("Ready", "status.numberReady"),
    ),
    "jobs": (Column("Status", _job_status), Column("Completions", _job_completions)),
    "cronjobs": (
        _text("Schedule", "spec.schedule"),
        _text("Timezone", "spec.timeZone", "<none>"),
        Column("Suspend", lambda obj: "True" if _at("spec.suspend")(obj) else "False"),
        Column("Active", lambda obj: len(_at("status.active", ())(obj)), type="integer"),
    ),
    "ingresses": (
        _text("Class", "spec.ingressClassName", "<none>"),
        Column("Hosts", _hosts),
    ),
    "leases": (_text("Holder", "spec.holderIdentity"),),
    "persistentvolumeclaims": (
        _text("Status", "status.phase"),
        _text("Volume", "spec.volumeName"),
        _text("StorageClass", "spec.storageClassName"),
    ),
    "persistentvolumes": (
        _text("Capacity", "spec.capacity.storage"),
        _text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        _text("Status", "status.phase"),
    ),
    "storageclasses": (
        _text("Provisioner", "provisioner"),
        _text("ReclaimPolicy", "reclaimPolicy"),
        _text("VolumeBindingMode", "volumeBindingMode"),
    ),
    "priorityclasses": (_number("Value", "value"),),
    "rolebindings": (_ROLE,),
    "clusterrolebindings": (_ROLE,),
    "roles": (_text("Created At", "metadata.creationTimestamp"),),
    "clusterroles": (_text("Created At", "metadata.creationTimestamp"),),
    "customresourcedefinitions": (_text("Created At", "metadata.creationTimestamp"),),
    "networkpolicies": (Column("Pod-Selector", _labels),),
}
