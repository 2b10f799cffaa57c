"""Defaults and checks of the built-in kinds, as far as operators can tell."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any

from kopf_kits.sandbox.base.remarks import Doubt
from kopf_kits.sandbox.base.statuses import Cause
from kopf_kits.sandbox.schemas.validation import show
from kopf_kits.sandbox.store.rules import Obj, Rules

from .claims import check_claim
from .crds import check_definition, complete_definition
from .cronchecks import check_cronjob
from .eventchecks import check_event
from .kindchecks import (
    all_of,
    check_data,
    check_job,
    check_lease,
    check_pod,
    check_service,
    check_webhooks,
    check_workload,
)
from .pods import complete_pod, complete_template


def _fill(target: Obj, **values: Any) -> None:
    for name, value in values.items():
        target.setdefault(name, value)


def _section(obj: Obj, name: str) -> Obj:
    """A section of the object, as a copy of its own, safe to be modified."""
    section = dict(obj.get(name) or {})
    obj[name] = section
    return section


def _complete_namespace(obj: Obj, old: Obj | None) -> None:
    meta = obj["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta["name"]}
    if old is None:
        _section(obj, "spec")["finalizers"] = ["kubernetes"]
        _section(obj, "status")["phase"] = "Active"
    elif "finalizers" in old.get("spec", {}):
        _section(obj, "spec")["finalizers"] = old["spec"]["finalizers"]


def _complete_secret(obj: Obj, old: Obj | None) -> None:
    obj.setdefault("type", "Opaque")
    texts = obj.pop("stringData", None)
    if texts:
        encoded = {
            key: base64.b64encode(str(value).encode()).decode() for key, value in texts.items()
        }
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _check_frozen(obj: Obj, old: Obj | None, *names: str) -> Iterable[Cause]:
    if old is None or not old.get("immutable"):
        return
    if not obj.get("immutable"):
        yield Cause(
            "FieldValueForbidden",
            "immutable",
            "Forbidden: field is immutable when `immutable` is set",
        )
    for name in names:
        if obj.get(name) != old.get(name):
            yield Cause(
                "FieldValueForbidden", name, "Forbidden: field is immutable when `immutable` is set"
            )


def _check_secret(obj: Obj, old: Obj | None) -> Iterable[Cause]:
    yield from _check_frozen(obj, old, "data")
    yield from _fixed("type")(obj, old)


def _check_configmap(obj: Obj, old: Obj | None) -> Iterable[Cause]:
    return _check_frozen(obj, old, "data", "binaryData")


def _immutable(path: str, value: Any) -> Cause:
    return Cause("FieldValueInvalid", path, f"Invalid value: {show(value)}: field is immutable")


def _fixed(*paths: str) -> Callable[[Obj, Obj | None], Iterable[Cause]]:
    """A check that the fields never change after the creation."""

    def check(obj: Obj, old: Obj | None) -> Iterable[Cause]:
        for path in paths if old is not None else ():
            new_value, old_value = _at(obj, path), _at(old, path)
            if new_value != old_value:
                yield _immutable(path, new_value)

    return check


def _at(obj: Obj | None, path: str) -> Any:
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _complete_service(obj: Obj, old: Obj | None) -> None:
    spec = _section(obj, "spec")
    _fill(spec, type="ClusterIP", sessionAffinity="None", internalTrafficPolicy="Cluster")
    if spec["type"] != "ExternalName":
        known = (old or {}).get("spec", {}).get("clusterIP")
        number = sum(map(ord, obj["metadata"].get("uid", ""))) % 250 + 2
        spec.setdefault("clusterIP", known or f"10.96.0.{number}")
        _fill(
            spec, clusterIPs=[spec["clusterIP"]], ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack"
        )
    ports = [dict(port) for port in spec.get("ports") or []]
    for port in ports:
        _fill(port, protocol="TCP", targetPort=port.get("port"))
    if ports:
        spec["ports"] = ports
    obj.setdefault("status", {"loadBalancer": {}})


def _complete_deployment(obj: Obj, old: Obj | None) -> None:
    spec = _section(obj, "spec")
    rolling = {"maxSurge": "25%", "maxUnavailable": "25%"}
    _fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    _fill(spec, strategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    complete_template(spec)
    obj.setdefault("status", {})


def _complete_replicaset(obj: Obj, old: Obj | None) -> None:
    spec = _section(obj, "spec")
    _fill(spec, replicas=1)
    complete_template(spec)
    obj.setdefault("status", {"replicas": 0})


def _complete_statefulset(obj: Obj, old: Obj | None) -> None:
    spec = _section(obj, "spec")
    retention = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    _fill(spec, replicas=1, revisionHistoryLimit=10, podManagementPolicy="OrderedReady")
    _fill(spec, persistentVolumeClaimRetentionPolicy=retention)
    _fill(spec, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    complete_template(spec)
    obj.setdefault("status", {"availableReplicas": 0, "replicas": 0})


def _complete_daemonset(obj: Obj, old: Obj | None) -> None:
    spec = _section(obj, "spec")
    rolling = {"maxSurge": 0, "maxUnavailable": 1}
    _fill(spec, revisionHistoryLimit=10)
    _fill(spec, updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    complete_template(spec)
    zeros = (
        "currentNumberScheduled",
        "desiredNumberScheduled",
        "numberMisscheduled",
        "numberReady",
    )
    obj.setdefault("status", dict.fromkeys(zeros, 0))


def _complete_job_spec(spec: Obj) -> None:
    _fill(spec, backoffLimit=6, completionMode="NonIndexed", suspend=False)
    _fill(spec, podReplacementPolicy="TerminatingOrFailed")
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    complete_template(spec)


def _complete_job(obj: Obj, old: Obj | None) -> None:
    spec = _section(obj, "spec")
    _complete_job_spec(spec)
    uid, name = obj["metadata"].get("uid", ""), obj["metadata"]["name"]
    if not spec.get("manualSelector"):
        labels = {"batch.kubernetes.io/controller-uid": uid}
        spec.setdefault("selector", {"matchLabels": labels})
        template = _section(spec, "template")
        meta = _section(template, "metadata")
        names = {"batch.kubernetes.io/job-name": name, "controller-uid": uid, "job-name": name}
        meta["labels"] = {**(meta.get("labels") or {}), **labels, **names}
    obj.setdefault("status", {})


def _complete_cronjob(obj: Obj, old: Obj | None) -> None:
    spec = _section(obj, "spec")
    _fill(spec, concurrencyPolicy="Allow", suspend=False)
    _fill(spec, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    job = _section(spec, "jobTemplate")
    job.setdefault("metadata", {})
    complete_template(_section(job, "spec"))
    obj.setdefault("status", {})


def _complete_claim(obj: Obj, old: Obj | None) -> None:
    _fill(_section(obj, "spec"), volumeMode="Filesystem")
    if old is None:
        obj["status"] = {"phase": "Pending"}


def _complete_volume(obj: Obj, old: Obj | None) -> None:
    _fill(_section(obj, "spec"), volumeMode="Filesystem", persistentVolumeReclaimPolicy="Retain")
    if old is None:
        obj["status"] = {"phase": "Pending"}


def _complete_webhooks(obj: Obj, old: Obj | None) -> None:
    hooks = [dict(hook) for hook in obj.get("webhooks") or []]
    for hook in hooks:
        _fill(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        _fill(hook, namespaceSelector={}, objectSelector={})
        hook["rules"] = [{"scope": "*", **rule} for rule in hook.get("rules") or []]
        service = hook.get("clientConfig", {}).get("service")
        if service:
            hook["clientConfig"] = {**hook["clientConfig"], "service": {"port": 443, **service}}
        if obj.get("kind") == "MutatingWebhookConfiguration":
            _fill(hook, reinvocationPolicy="Never")
    if hooks:
        obj["webhooks"] = hooks


def _complete_storageclass(obj: Obj, old: Obj | None) -> None:
    _fill(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _complete_priorityclass(obj: Obj, old: Obj | None) -> None:
    _fill(obj, preemptionPolicy="PreemptLowerPriority")


def _complete_event(obj: Obj, old: Obj | None) -> None:
    _fill(obj, firstTimestamp=None, lastTimestamp=None, eventTime=None)
    _fill(obj, source={}, reportingComponent="", reportingInstance="")


def _complete_crd(obj: Obj, old: Obj | None) -> None:
    complete_definition(obj, old)


def _check_crd(obj: Obj, old: Obj | None) -> Iterable[Cause | Doubt]:
    return check_definition(obj, old)


def _pod_grace(obj: Obj) -> int | None:
    spec = obj.get("spec") or {}
    if not spec.get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    return int(spec.get("terminationGracePeriodSeconds") or 30)


_EVENT_FIELDS = (
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
    "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
    "reason", "reportingComponent", "source", "type",
)  # fmt: skip
_POD_FIELDS = ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName",
               "spec.serviceAccountName", "status.phase", "status.podIP",
               "status.nominatedNodeName", "spec.hostNetwork")  # fmt: skip


def _plain(**options: Any) -> Rules:
    return Rules(strategic=True, generation=False, unconditional=True, **options)


def _counted(**options: Any) -> Rules:
    return Rules(strategic=True, unconditional=True, **options)


_JOB = all_of(check_job, _fixed("spec.selector", "spec.template"))
_WORKLOAD = all_of(check_workload, _fixed("spec.selector"))

RULES: dict[str, Rules] = {
    "namespaces": _plain(complete=_complete_namespace, names="label", fields=("status.phase",)),
    "nodes": _plain(fields=("spec.unschedulable",)),
    "pods": _counted(complete=complete_pod, check=check_pod, returns_deleted=True, grace=_pod_grace,
                     fields=_POD_FIELDS),
    "services": _plain(complete=_complete_service, check=check_service, names="label",
                       returns_deleted=True, fields=("spec.clusterIP", "spec.type")),
    "secrets": _plain(complete=_complete_secret, check=all_of(check_data, _check_secret),
                      fields=("type",)),
    "configmaps": _plain(check=all_of(check_data, _check_configmap)),
    "events": _plain(complete=_complete_event, check=check_event, fields=_EVENT_FIELDS,
                     create_on_update=True),
    "serviceaccounts": _plain(returns_deleted=True),
    "podtemplates": _counted(returns_deleted=True),
    "persistentvolumes": _plain(complete=_complete_volume, returns_deleted=True),
    "persistentvolumeclaims": _plain(complete=_complete_claim, check=check_claim,
                                    returns_deleted=True),
    "deployments": _counted(complete=_complete_deployment, status_labels=False, check=_WORKLOAD),
    "replicasets": _counted(complete=_complete_replicaset, check=_WORKLOAD,
                            fields=("status.replicas",)),
    "statefulsets": _counted(complete=_complete_statefulset, check=_WORKLOAD),
    "daemonsets": _counted(complete=_complete_daemonset, check=_WORKLOAD),
    "jobs": _counted(complete=_complete_job, check=_JOB, orphans=True,
                     fields=("status.successful",)),
    "cronjobs": _counted(complete=_complete_cronjob, check=check_cronjob),
    "leases": _plain(create_on_update=True, check=check_lease),
    "priorityclasses": _counted(complete=_complete_priorityclass, check=_fixed("value")),
    "storageclasses": _plain(complete=_complete_storageclass,
                             check=_fixed("provisioner", "parameters", "reclaimPolicy")),
    "validatingwebhookconfigurations": Rules(
        strategic=True, complete=_complete_webhooks, check=check_webhooks),
    "mutatingwebhookconfigurations": Rules(
        strategic=True, complete=_complete_webhooks, check=check_webhooks),
    "customresourcedefinitions": Rules(strategic=True, complete=_complete_crd, check=_check_crd),
}  # fmt: skip
